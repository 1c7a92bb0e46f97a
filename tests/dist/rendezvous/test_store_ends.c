/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks that are killed, are stopped, leave, or lose their server: which rank is named, how soon,
 * and which waits end.
 */
#include "dist/rendezvous/store_client.h"
#include "dist/rendezvous/store_server.h"

#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <cmocka.h>

#include "base/clock.h"
#include "tests/dist/rendezvous/store_rig.h"

static mr_error error;

/* The time until a rank is named; above limit_ms: none was. */
static uint64_t measure_ms_until_broken(struct mr_store_client *client, uint64_t limit_ms,
                                        uint32_t *rank_out)
{
    uint64_t begun = mr_clock_now_ns();
    for (;;) {
        bool broken = mr_store_broken(client, rank_out, &error);
        uint64_t ms = (mr_clock_now_ns() - begun) / 1000000;
        if (broken || ms > limit_ms)
            return broken ? ms : limit_ms + 1;
        mr_clock_sleep_ms(2);
    }
}

static void wait_for_rank(struct mr_store_client *client, uint32_t rank)
{
    char key[32], value[8];
    uint32_t len;
    snprintf(key, sizeof key, "here%u", rank);
    assert_int_equal(mr_store_get(client, key, value, sizeof value, &len, rig_in_ms(20000), &error),
                     MR_OK);
}

static void *wait_for_missing_key(void *arg)
{
    static mr_error why;
    char value[8];
    uint32_t len;
    mr_status status =
        mr_store_get(arg, "never", value, sizeof value, &len, rig_in_ms(20000), &why);
    return status == MR_ERR_PEER ? why.text : "the get ended otherwise";
}

static void a_killed_rank_is_named_within_a_second(void **state)
{
    (void)state;
    struct rig_process well = rig_fork(), killed = rig_fork();
    struct mr_store_identity identity = rig_identity(4);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    rig_go(&well, mr_store_port(store), 1, &identity);
    rig_go(&killed, mr_store_port(store), 2, &identity);
    wait_for_rank(client, 1);
    wait_for_rank(client, 2);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_missing_key, client), 0);
    mr_clock_sleep_ms(20);
    assert_false(mr_store_broken(client, NULL, NULL));
    rig_end_process(killed.pid);
    uint32_t rank = 99;
    uint64_t ms = measure_ms_until_broken(client, 5000, &rank);
    assert_true(ms < 1000);
    assert_int_equal(rank, 2);
    assert_int_equal(error.status, MR_ERR_PEER);
    assert_non_null(strstr(error.text, "rank 2 disconnected"));
    void *why;
    pthread_join(thread, &why);
    assert_non_null(strstr(why, "key 'never': rank 2 disconnected"));
    /*
     * A present key can still be read, a missing one fails at once, and a rank that connects later
     * learns of the lost one.
     */
    wait_for_rank(client, 1);
    char value[8];
    uint64_t begun = mr_clock_now_ns();
    assert_int_equal(mr_store_get(client, "no", value, 8, NULL, rig_in_ms(20000), &error),
                     MR_ERR_PEER);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(5000000000));
    struct mr_store_client *late = rig_client(mr_store_port(store), 3, &identity);
    assert_true(measure_ms_until_broken(late, 5000, &rank) <= 5000);
    assert_int_equal(rank, 2);
    /* The first lost rank stays the first. */
    rig_end_process(well.pid);
    mr_clock_sleep_ms(50);
    assert_true(mr_store_broken(client, &rank, NULL));
    assert_int_equal(rank, 2);
    mr_store_close(late);
    mr_store_close(client);
    mr_store_stop(store);
}

/* Waits until n of them are known. */
static void wait_for_lost(struct mr_store_client *client, const uint32_t *ranks, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++) {
        uint64_t until = rig_in_ms(10000);
        while (!mr_store_broken_of(client, &ranks[i], 1, NULL, NULL) && mr_clock_now_ns() < until)
            mr_clock_sleep_ms(2);
        assert_true(mr_store_broken_of(client, &ranks[i], 1, NULL, NULL));
    }
}

static void all_lost_ranks_are_known_and_the_first_has_the_reason(void **state)
{
    (void)state;
    struct rig_process processes[6];
    struct mr_store_identity identity = rig_identity(7);
    static const uint32_t killed[] = {4, 1, 2, 5}, others[] = {3, 5, 1}, well[] = {0, 3, 6};
    uint32_t rank = 99;
    for (int i = 0; i < 6; i++)
        processes[i] = rig_fork();
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    for (uint32_t r = 1; r < 7; r++) {
        rig_go(&processes[r - 1], mr_store_port(store), r, &identity);
        wait_for_rank(client, r);
    }
    assert_false(mr_store_broken_of(client, killed, 4, &rank, &error));
    for (int i = 0; i < 4; i++) {
        rig_end_process(processes[killed[i] - 1].pid);
        wait_for_lost(client, &killed[i], 1);
    }
    assert_true(mr_store_broken(client, &rank, &error));
    assert_int_equal(rank, 4);
    assert_string_equal(error.text,
                        "rank 4 disconnected without a goodbye; ranks 1-2, 5 are lost too");
    assert_true(mr_store_broken_of(client, others, 3, &rank, &error));
    assert_int_equal(rank, 1);
    assert_string_equal(error.text, "rank 1 disconnected without a goodbye; rank 5 is lost too");
    assert_true(mr_store_broken_of(client, killed, 1, &rank, &error));
    assert_string_equal(error.text, "rank 4 disconnected without a goodbye");
    assert_false(mr_store_broken_of(client, well, 3, NULL, NULL));
    assert_false(mr_store_broken_of(client, killed, 0, NULL, NULL));
    /* A rank that counts as lost is refused when it greets again. */
    int fd = rig_socket(mr_store_port(store));
    assert_int_equal(rig_greet(fd, 4, &identity), MR_STORE_RANK_BROKE);
    close(fd);
    rig_end_process(processes[2].pid);
    rig_end_process(processes[5].pid);
    mr_store_close(client);
    mr_store_stop(store);
}

static void a_stopped_rank_is_named_as_silent(void **state)
{
    (void)state;
    struct rig_process stopped = rig_fork();
    struct mr_store_identity identity = rig_identity(2);
    identity.silence_ms = 800;
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    rig_go(&stopped, mr_store_port(store), 1, &identity);
    uint32_t rank = 99;
    wait_for_rank(client, 1);
    assert_true(measure_ms_until_broken(client, 1600, &rank) > 1600); /* beats keep it alive */
    rig_stop_process(stopped.pid);
    assert_true(measure_ms_until_broken(client, 10000, &rank) <= 10000);
    assert_int_equal(rank, 1);
    assert_non_null(strstr(error.text, "rank 1 fell silent: nothing received from it for 0.8 s"));
    rig_end_process(stopped.pid);
    mr_store_close(client);
    mr_store_stop(store);
}

static void a_rank_that_says_goodbye_is_not_lost(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(51);
    struct mr_store *store = rig_start(&identity);
    struct mr_store_client *client = rig_client(mr_store_port(store), 0, &identity);
    uint8_t value[8];
    for (uint32_t i = 0; i < 50; i++) {
        struct mr_store_client *other = rig_client(mr_store_port(store), i + 1, &identity);
        assert_int_equal(mr_store_set(other, "a", "b", 1, &error), MR_OK);
        mr_store_close(other);
    }
    mr_clock_sleep_ms(100);
    assert_int_equal(mr_store_get(client, "a", value, sizeof value, NULL, rig_in_ms(5000), &error),
                     MR_OK);
    assert_false(mr_store_broken(client, NULL, NULL));
    /* Rank 0 is not lost either if its server stops properly; a waiting get then ends. */
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_missing_key, client), 0);
    mr_clock_sleep_ms(50);
    mr_store_stop(store);
    void *why;
    pthread_join(thread, &why);
    assert_string_equal(why, "key 'never': rank 0 has closed the store");
    assert_int_equal(mr_store_set(client, "a", "b", 1, &error), MR_ERR_PEER);
    mr_clock_sleep_ms(50);
    assert_false(mr_store_broken(client, NULL, NULL));
    mr_store_close(client);
}

/* A process with a server; its port arrives through a pipe. */
static pid_t start_server_process(const struct mr_store_identity *identity, uint16_t *port_out)
{
    int ends[2];
    assert_int_equal(pipe2(ends, 0), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        alarm(50);
        uint16_t port = mr_store_port(rig_start(identity));
        if (write(ends[1], &port, sizeof port) != sizeof port)
            _exit(1);
        for (;;)
            pause();
    }
    assert_int_equal(read(ends[0], port_out, sizeof *port_out), sizeof *port_out);
    close(ends[0]);
    close(ends[1]);
    return child;
}

static void a_dead_server_counts_as_rank_0_lost(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    uint16_t port = 0;
    pid_t server = start_server_process(&identity, &port);
    struct mr_store_client *client = rig_client(port, 1, &identity);
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, wait_for_missing_key, client), 0);
    mr_clock_sleep_ms(20);
    rig_end_process(server);
    uint32_t rank = 99;
    assert_true(measure_ms_until_broken(client, 5000, &rank) < 1000);
    assert_int_equal(rank, 0);
    assert_non_null(strstr(error.text, "rank 0 disconnected"));
    void *why;
    pthread_join(thread, &why);
    assert_non_null(strstr(why, "rank 0 disconnected"));
    assert_int_equal(mr_store_set(client, "a", "b", 1, &error), MR_ERR_PEER);
    mr_store_close(client);
}

static void a_stopped_server_counts_as_rank_0_silent(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2);
    identity.silence_ms = 800;
    uint16_t port = 0;
    pid_t server = start_server_process(&identity, &port);
    struct mr_store_client *client = rig_client(port, 1, &identity);
    uint32_t rank = 99;
    rig_stop_process(server);
    /* A set has no deadline: it ends when the server counts as silent. */
    assert_int_equal(mr_store_set(client, "a", "b", 1, &error), MR_ERR_PEER);
    assert_non_null(strstr(error.text, "rank 0 fell silent"));
    assert_true(mr_store_broken(client, &rank, &error));
    assert_int_equal(rank, 0);
    uint64_t begun = mr_clock_now_ns();
    mr_store_close(client);
    assert_true(mr_clock_now_ns() - begun < UINT64_C(3000000000));
    rig_end_process(server);
}

static void a_server_that_was_stopped_reports_no_rank_as_silent(void **state)
{
    (void)state;
    struct mr_store_identity identity = rig_identity(2), patient = identity;
    identity.silence_ms = 1500;
    patient.silence_ms = 3000; /* beats every 0.75 s */
    uint16_t port = 0;
    pid_t server = start_server_process(&identity, &port);
    struct mr_store_client *client = rig_client(port, 1, &patient);
    struct mr_store_client *other = rig_client(port, 0, &patient);
    rig_stop_process(server);
    mr_clock_sleep_ms(1900);
    kill(server, SIGCONT);
    assert_int_equal(mr_store_set(other, "a", "b", 1, &error), MR_OK);
    mr_clock_sleep_ms(100);
    assert_false(mr_store_broken(other, NULL, NULL));
    mr_store_close(client);
    mr_store_close(other);
    rig_end_process(server);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_killed_rank_is_named_within_a_second),
        cmocka_unit_test(all_lost_ranks_are_known_and_the_first_has_the_reason),
        cmocka_unit_test(a_stopped_rank_is_named_as_silent),
        cmocka_unit_test(a_rank_that_says_goodbye_is_not_lost),
        cmocka_unit_test(a_dead_server_counts_as_rank_0_lost),
        cmocka_unit_test(a_stopped_server_counts_as_rank_0_silent),
        cmocka_unit_test(a_server_that_was_stopped_reports_no_rank_as_silent),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
