/* SPDX-License-Identifier: Apache-2.0 */
/* Ranks that meet leftovers: the previous group, an earlier restart, a rank 0 that dies. */
#include "tests/dist/rendezvous/rank_threads.h"

#include "base/clock.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#define ENOUGH_MS 20000
#define SHORT_MS 1500

static atomic_bool is_answering;
static atomic_uint n_asked, n_answered;

/* Blocks until the test has seen the timeout. */
static int block_resolver(const char *host, struct addrinfo **list_out)
{
    (void)host;
    *list_out = NULL;
    atomic_fetch_add(&n_asked, 1);
    while (!atomic_load(&is_answering))
        mr_clock_sleep_ms(5);
    atomic_fetch_add(&n_answered, 1);
    return EAI_AGAIN;
}

/*
 * Rank 0 resolves its own address, the other ranks rank 0's. A slow resolver delays no rank past
 * the timeout.
 */
static void a_blocked_resolver_ends_at_the_timeout(void **state)
{
    (void)state;
    struct mr_test_rank ranks[2];
    mr_test_ranks_init(ranks, 2, 600);
    for (uint32_t r = 0; r < 2; r++)
        ranks[r].means.resolver = block_resolver;
    mr_test_ranks_set(ranks, 2, "MASTER_ADDR", "some-host");
    mr_test_ranks_set(ranks, 2, "MASTER_PORT", "29500");
    uint64_t begun = mr_clock_now_ns();
    mr_test_ranks_join(ranks, 2);
    assert_in_range((mr_clock_now_ns() - begun) / 1000000, 590, 2500);
    mr_test_ranks_expect_error(&ranks[0], 1, MR_ERR_TIMEOUT,
                               "rank 0's host 'some-host' is still being looked up");
    mr_test_ranks_expect_error(&ranks[1], 1, MR_ERR_TIMEOUT,
                               "host 'some-host' is still being looked up");
    atomic_store(&is_answering, true);
    while (atomic_load(&n_answered) < atomic_load(&n_asked))
        mr_clock_sleep_ms(5);
    mr_clock_sleep_ms(100); /* the resolver threads that are still running end */
}

/*
 * The error of a second group of the same ranks; the first group works on. variable: makes it a
 * launcher that owns the port.
 */
static void expect_second_group_refused(const char *variable, const char *value)
{
    struct mr_test_rank first[2], second[2];
    char number[16], words[128];
    uint16_t port = mr_test_free_ports(4);
    snprintf(number, sizeof number, "%u", port);
    mr_test_ranks_init(first, 2, ENOUGH_MS);
    mr_test_ranks_init(second, 2, SHORT_MS);
    for (uint32_t i = 0; i < 2; i++) {
        mr_test_ranks_set(i ? second : first, 2, "MASTER_ADDR", "127.0.0.1");
        mr_test_ranks_set(i ? second : first, 2, "MASTER_PORT", number);
        mr_test_ranks_set(i ? second : first, 2, variable, value);
    }
    mr_test_ranks_join(first, 2);
    mr_test_ranks_expect_all(first, 2, "gloo");
    uint64_t begun = mr_clock_now_ns();
    mr_test_ranks_join(second, 2);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(10000000000));
    snprintf(words, sizeof words,
             "a group of these ranks already exists, with its store at 127.0.0.1 port %u",
             mr_store_port(first[0].rendezvous.store));
    mr_test_ranks_expect_error(&second[0], 1, MR_ERR_STATE, words);
    mr_test_ranks_expect_error(&second[0], 1, MR_ERR_STATE, "mr_group_split() makes a second one");
    mr_test_ranks_expect_error(&second[1], 1, MR_ERR_PEER,
                               "rank 1 was refused: it has already joined");
    mr_test_ranks_expect_error(&second[1], 1, MR_ERR_PEER, "mr_group_split()");
    assert_false(mr_store_broken(first[0].rendezvous.client, NULL, NULL));
    assert_false(mr_store_broken(first[1].rendezvous.client, NULL, NULL));
    mr_test_ranks_leave(first, 2);
}

static void a_second_group_of_the_same_ranks_is_pointed_to_split(void **state)
{
    (void)state;
    expect_second_group_refused("MR_RUN_ID", "one");
    expect_second_group_refused("TORCHELASTIC_RUN_ID", "one");
}

/* The ports are adjacent. Neither job may take the other's store for its own. */
static void two_torchrun_jobs_can_share_a_port_range(void **state)
{
    (void)state;
    struct mr_test_rank a[2], b[2];
    char number[16];
    snprintf(number, sizeof number, "%u", mr_test_free_ports(4));
    mr_test_ranks_init(a, 2, ENOUGH_MS);
    mr_test_ranks_init(b, 2, ENOUGH_MS);
    for (uint32_t i = 0; i < 2; i++) {
        mr_test_ranks_set(i ? b : a, 2, "MASTER_ADDR", "127.0.0.1");
        mr_test_ranks_set(i ? b : a, 2, "MASTER_PORT", number);
        mr_test_ranks_set(i ? b : a, 2, "TORCHELASTIC_RUN_ID", i ? "one" : "another");
    }
    mr_test_ranks_start(a, 2);
    mr_test_ranks_join(b, 2);
    mr_test_ranks_wait(a, 2);
    mr_test_ranks_expect_all(a, 2, "gloo");
    mr_test_ranks_expect_all(b, 2, "gloo");
    assert_true(mr_store_port(a[0].rendezvous.store) != mr_store_port(b[0].rendezvous.store));
    mr_test_ranks_leave(a, 2);
    mr_test_ranks_leave(b, 2);
}

static void set_restart(struct mr_test_rank *ranks, uint32_t n, uint16_t port, const char *restart)
{
    char number[16];
    snprintf(number, sizeof number, "%u", port);
    mr_test_ranks_set(ranks, n, "MASTER_ADDR", "127.0.0.1");
    mr_test_ranks_set(ranks, n, "MASTER_PORT", number);
    mr_test_ranks_set(ranks, n, "TORCHELASTIC_RUN_ID", "one");
    mr_test_ranks_set(ranks, n, "TORCHELASTIC_RESTART_COUNT", restart);
}

/*
 * The previous attempt's store is still there when the next attempt begins, as after
 * --max-restarts.
 */
static void a_restart_skips_the_store_of_the_previous_attempt(void **state)
{
    (void)state;
    struct mr_test_rank before[2], after[2];
    uint16_t port = mr_test_free_ports(4);
    mr_test_ranks_init(before, 2, ENOUGH_MS);
    mr_test_ranks_init(after, 2, ENOUGH_MS);
    set_restart(before, 2, port, "0");
    set_restart(after, 2, port, "1");
    mr_test_ranks_join(before, 2);
    mr_test_ranks_expect_all(before, 2, "gloo");
    mr_test_ranks_join(after, 2);
    mr_test_ranks_expect_all(after, 2, "gloo");
    assert_false(mr_store_broken(before[0].rendezvous.client, NULL, NULL));
    mr_test_ranks_leave(after, 2);
    mr_test_ranks_leave(before, 2);
}

/* Rank 0 of three, in a child that is killed while it waits for rank 2. */
static pid_t fork_rank_0(const struct mr_test_rank *template)
{
    pid_t child = fork();
    if (child != 0)
        return child;
    struct mr_rendezvous rendezvous;
    struct mr_rendezvous_means means = template->means;
    struct mr_test_rank own = *template;
    means.user = own.environment;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(30);
    mr_rendezvous_join_by(&means, &own.options, &rendezvous, NULL);
    _exit(1);
}

static void a_rank_0_that_dies_before_all_have_joined_is_named(void **state)
{
    (void)state;
    struct mr_test_rank ranks[3];
    mr_test_ranks_init(ranks, 3, ENOUGH_MS);
    mr_test_ranks_address(ranks, 3);
    pid_t child = fork_rank_0(&ranks[0]);
    assert_true(child > 0);
    ranks[0].is_absent = ranks[2].is_absent = true;
    uint64_t begun = mr_clock_now_ns();
    mr_test_ranks_start(ranks, 3);
    mr_clock_sleep_ms(600);
    kill(child, SIGKILL);
    waitpid(child, NULL, 0);
    mr_test_ranks_wait(ranks, 3);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(15000000000)); /* long before the timeout */
    mr_test_ranks_expect_error(&ranks[1], 1, MR_ERR_PEER, "rank 0 disconnected");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* it forks, so it runs before there are threads */
        cmocka_unit_test(a_rank_0_that_dies_before_all_have_joined_is_named),
        cmocka_unit_test(a_blocked_resolver_ends_at_the_timeout),
        cmocka_unit_test(a_second_group_of_the_same_ranks_is_pointed_to_split),
        cmocka_unit_test(two_torchrun_jobs_can_share_a_port_range),
        cmocka_unit_test(a_restart_skips_the_store_of_the_previous_attempt),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
