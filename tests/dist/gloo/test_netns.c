/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks on two and three hosts, over gloo. They connect. Cut links, late ranks, wrong tokens and
 * taken ports end every rank in time, with a line that names the cause. Nothing reports a cut link,
 * so only the clock ends an all_reduce over it.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/dist/gloo/netns_rig.h"
#include "tests/fault/rank_program.h"
#include "tests/support/processes.h"

/* SLACK_MS: time for a process to start and to end on a loaded machine. */
enum { SLACK_MS = 8000, SILENCE_MS = 10000, RANKS = 4 };

/* A group: rank r is on host hosts[r]. */
struct world {
    char init[32]; /* empty: env:// with MASTER_ADDR, MASTER_PORT and the other variables */
    uint16_t port; /* for the environment */
    uint32_t n_ranks;
    uint32_t timeout_ms;
    uint32_t seconds; /* how long to run all_reduces */
    uint32_t hosts[RANKS];
    const char *tokens[RANKS]; /* NULL: none */
    struct mr_rank_program ranks[RANKS];
};

static void start_rank(struct world *world, uint32_t rank, uint32_t n_ranks)
{
    struct mr_rank_words argv = {0}, settings = {0};
    mr_rank_words_add(&argv, "%s", MR_TEST_NETNS_RANK);
    mr_rank_words_add(&argv, "%s", world->init[0] ? world->init : "env://");
    if (world->init[0]) {
        mr_rank_words_add(&argv, "%u", rank);
        mr_rank_words_add(&argv, "%u", n_ranks);
    } else {
        mr_rank_words_add(&argv, "-");
        mr_rank_words_add(&argv, "-");
        mr_rank_words_add(&settings, "RANK=%u", rank);
        mr_rank_words_add(&settings, "WORLD_SIZE=%u", n_ranks);
        mr_rank_words_add(&settings, "MASTER_ADDR=10.77.0.%u", world->hosts[0] + 1);
        mr_rank_words_add(&settings, "MASTER_PORT=%u", world->port);
    }
    mr_rank_words_add(&argv, "%u", world->timeout_ms);
    mr_rank_words_add(&argv, "%u", world->seconds);
    if (world->tokens[rank])
        mr_rank_words_add(&settings, "MR_TOKEN=%s", world->tokens[rank]);
    mr_rank_program_start(&world->ranks[rank], &argv, &settings, mr_netns_host(world->hosts[rank]));
}

static void start(struct world *world)
{
    for (uint32_t r = 0; r < world->n_ranks; r++)
        start_rank(world, r, world->n_ranks);
}

static void show(const struct world *world)
{
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        char *said = mr_rank_program_said(&world->ranks[r]);
        print_message("rank %u, status %d, %u ms:\n%s", r, world->ranks[r].end,
                      world->ranks[r].took_ms, said);
        free(said);
    }
}

static void expect_words(const struct world *world, uint32_t rank, const char *words)
{
    if (!mr_rank_program_says(&world->ranks[rank], words)) {
        show(world);
        fail_msg("rank %u does not say '%s'", rank, words);
    }
}

/* All ranks must end within limit_ms from now, with this status. */
static void finish(struct world *world, uint32_t limit_ms, int end)
{
    uint64_t until_ms = mr_rank_program_now_ms() + limit_ms;
    bool in_time = true, as_expected = true;
    for (uint32_t r = 0; r < world->n_ranks; r++) {
        uint64_t now_ms = mr_rank_program_now_ms();
        in_time &= mr_rank_program_wait(&world->ranks[r],
                                        now_ms < until_ms ? (uint32_t)(until_ms - now_ms) : 0);
        as_expected &= world->ranks[r].end == end;
    }
    if (!in_time || !as_expected) {
        show(world);
        fail_msg("%s within %u ms", in_time ? "not all ended as they should" : "not all ended",
                 limit_ms);
    }
}

static void forget(struct world *world)
{
    for (uint32_t r = 0; r < world->n_ranks; r++)
        mr_rank_program_free(&world->ranks[r]);
    assert_int_equal(mr_rank_program_leftovers(2000), 0);
}

/* ---- meeting ---- */

static void meet(struct world world)
{
    char words[40];
    world.timeout_ms = 20000;
    world.seconds = 0;
    start(&world);
    finish(&world, 20000 + SLACK_MS, 0);
    for (uint32_t r = 0; r < world.n_ranks; r++) {
        snprintf(words, sizeof words, "rank %u of %u is in\n", r, world.n_ranks);
        expect_words(&world, r, words);
    }
    forget(&world);
}

static void hosts_meet_over_tcp(void **state)
{
    (void)state;
    meet((struct world){.init = "tcp://10.77.0.1:2568", .n_ranks = 2, .hosts = {0, 1}});
    meet((struct world){.init = "tcp://10.77.0.2:2568", .n_ranks = 4, .hosts = {1, 0, 2, 0}});
}

static void hosts_meet_over_the_environment(void **state)
{
    (void)state;
    meet((struct world){.port = 2569, .n_ranks = 2, .hosts = {0, 1}});
    meet((struct world){.port = 2569, .n_ranks = 3, .hosts = {2, 0, 1}});
}

/* `millrace launch` on each of two hosts, two ranks each. */
static void launches_on_two_hosts_make_one_world(void **state)
{
    (void)state;
#ifdef MR_TEST_MILLRACE
    struct world world = {.n_ranks = 2}; /* of launchers */
    for (uint32_t host = 0; host < 2; host++) {
        struct mr_rank_words argv = {0};
        mr_rank_words_add(&argv, "%s", MR_TEST_MILLRACE);
        mr_rank_words_add(&argv, "launch");
        mr_rank_words_add(&argv, "--nproc=2");
        mr_rank_words_add(&argv, "--nnodes=2");
        mr_rank_words_add(&argv, "--node-rank=%u", host);
        mr_rank_words_add(&argv, "--rendezvous=10.77.0.1:2576");
        mr_rank_words_add(&argv, "--");
        mr_rank_words_add(&argv, "%s", MR_TEST_NETNS_RANK);
        mr_rank_words_add(&argv, "env://");
        mr_rank_words_add(&argv, "-");
        mr_rank_words_add(&argv, "-");
        mr_rank_words_add(&argv, "20000");
        mr_rank_words_add(&argv, "0");
        mr_rank_program_start(&world.ranks[host], &argv, NULL, mr_netns_host(host));
    }
    finish(&world, 20000 + SLACK_MS, 0);
    for (uint32_t r = 0; r < 4; r++) {
        char words[40];
        snprintf(words, sizeof words, "%u: rank %u of 4 is in\n", r, r);
        expect_words(&world, r / 2, words);
    }
    forget(&world);
#else
    print_message("this build has no millrace command\n");
    skip();
#endif
}

/* ---- cut links ---- */

static void wait_until_running(struct world *world)
{
    for (uint32_t r = 0; r < world->n_ranks; r++)
        if (!mr_rank_program_expect(&world->ranks[r], " goes\n", 20000 + SLACK_MS)) {
            show(world);
            fail_msg("rank %u does not go", r);
        }
}

static void expect_rank_named(const struct world *world, uint32_t rank, uint32_t other)
{
    char words[24];
    snprintf(words, sizeof words, "rank %u", other);
    char *said = mr_rank_program_said(&world->ranks[rank]);
    const char *line = strstr(said, "ended: ");
    bool is_named = line && strstr(line, words);
    free(said);
    if (!is_named) {
        show(world);
        fail_msg("rank %u does not name rank %u", rank, other);
    }
}

/* Worlds of three ranks, all cut at the same time. Only the last one shares hosts with another. */
struct cut_case {
    uint32_t first_host, cut_rank;
    enum netns_cut how;
    uint32_t timeout_ms;
    struct world world;
};

/*
 * All other ranks name the one that was cut off. That one reaches no rank, and not the store, which
 * is in rank 0.
 */
static void expect_names(const struct world *world, uint32_t cut_rank)
{
    for (uint32_t r = 0; r < world->n_ranks; r++)
        if (r != cut_rank)
            expect_rank_named(world, r, cut_rank);
        else if (r != 0)
            expect_rank_named(world, r, 0);
        else
            expect_words(world, r, "ended: all_reduce ");
}

static void begin(struct cut_case *c, uint32_t port)
{
    struct world *world = &c->world;
    snprintf(world->init, sizeof world->init, "tcp://10.77.0.%u:%u", c->first_host + 1, port);
    world->n_ranks = 3;
    world->timeout_ms = c->timeout_ms;
    world->seconds = 50;
    for (uint32_t r = 0; r < 3; r++)
        world->hosts[r] = c->first_host + r;
    start(world);
}

static void a_rank_that_is_cut_off_in_an_all_reduce_is_named(void **state)
{
    static struct cut_case cases[] = {
        {.first_host = 0, .cut_rank = 1, .how = NETNS_SILENT, .timeout_ms = 30000},
        {.first_host = 3, .cut_rank = 2, .how = NETNS_DOWN, .timeout_ms = 30000},
        {.first_host = 6, .cut_rank = 0, .how = NETNS_SILENT, .timeout_ms = 30000},
        /* less than the time after which a silent rank is reported */
        {.first_host = 0, .cut_rank = 1, .how = NETNS_SILENT, .timeout_ms = 6000},
    };
    enum { N_CASES = sizeof cases / sizeof *cases };
    (void)state;
    for (uint32_t i = 0; i < N_CASES; i++)
        begin(&cases[i], 2570 + i);
    for (uint32_t i = 0; i < N_CASES; i++)
        wait_until_running(&cases[i].world);
    for (uint32_t i = 0; i < N_CASES - 1; i++) /* the last one has the first one's host */
        mr_netns_cut(cases[i].first_host + cases[i].cut_rank, cases[i].how);
    finish(&cases[N_CASES - 1].world, 6000 + SLACK_MS, 3);
    for (uint32_t i = 0; i < N_CASES - 1; i++)
        finish(&cases[i].world, SILENCE_MS + SLACK_MS - 6000, 3);
    mr_netns_mend();
    for (uint32_t i = 0; i < N_CASES; i++) {
        expect_names(&cases[i].world, cases[i].cut_rank);
        forget(&cases[i].world);
    }
}

/* ---- late and absent ranks ---- */

/* The addresses it tried, how often, and for how long. */
static void expect_attempts(const struct world *world, uint32_t rank, const char *address)
{
    expect_words(world, rank, address);
    expect_words(world, rank, "times");
    expect_words(world, rank, " s");
}

static void a_rank_that_arrives_within_the_deadline_is_waited_for(void **state)
{
    (void)state;
    for (uint32_t late = 0; late < 2; late++) {
        struct world world = {.init = "tcp://10.77.0.1:2572",
                              .n_ranks = 2,
                              .timeout_ms = 20000,
                              .seconds = 0,
                              .hosts = {0, 1}};
        start_rank(&world, 1 - late, 2);
        mr_test_sleep_ms(1500);
        start_rank(&world, late, 2);
        finish(&world, 20000 + SLACK_MS, 0);
        forget(&world);
    }
}

/* Rank 2 of three arrives after the others have given up. */
static void a_rank_that_arrives_after_the_deadline_is_named(void **state)
{
    (void)state;
    struct world world = {
        .init = "tcp://10.77.0.1:2573", .n_ranks = 2, .timeout_ms = 2000, .hosts = {0, 1, 2}};
    start_rank(&world, 0, 3);
    start_rank(&world, 1, 3);
    finish(&world, world.timeout_ms + SLACK_MS, 2);
    expect_words(&world, 0, "rank 2 of 3 did not join within 1500 ms at 10.77.0.1:2573");
    expect_words(&world, 1, "rank 2 of 3 did not join within 1500 ms at 10.77.0.1:2573");
    forget(&world);
    start_rank(&world, 2, 3);
    world.ranks[0] = world.ranks[2];
    world.n_ranks = 1;
    finish(&world, world.timeout_ms + SLACK_MS, 2);
    expect_attempts(&world, 0, "10.77.0.1 port 2573");
    forget(&world);
}

/*
 * Rank 0 does not arrive, so the others find no store. In the second pass its host does not exist
 * either.
 */
static void without_rank_0_the_others_name_the_addresses_they_tried(void **state)
{
    (void)state;
    for (uint32_t pass = 0; pass < 2; pass++) {
        struct world world = {.timeout_ms = 2000, .hosts = {0, 1}};
        snprintf(world.init, sizeof world.init, "tcp://10.77.0.%d:2574", pass == 0 ? 1 : 99);
        start_rank(&world, 1, 2);
        world.ranks[0] = world.ranks[1];
        world.n_ranks = 1;
        finish(&world, world.timeout_ms + SLACK_MS, 2);
        expect_attempts(&world, 0, pass == 0 ? "10.77.0.1 port 2574" : "10.77.0.99 port 2574");
        forget(&world);
    }
}

/* ---- refused ranks ---- */

static void a_wrong_token_is_refused_and_named(void **state)
{
    (void)state;
    struct world world = {.port = 2575,
                          .n_ranks = 3,
                          .timeout_ms = 2000,
                          .hosts = {0, 1, 2},
                          .tokens = {"open sesame", "open barley", "open sesame"}};
    start(&world);
    finish(&world, world.timeout_ms + SLACK_MS, 2);
    expect_words(&world, 0, "rank 1 was refused: its token differs");
    expect_words(&world, 1, "token");
    expect_words(&world, 2, "rank 1 was refused: its token differs");
    for (uint32_t r = 0; r < 3; r++)
        if (mr_rank_program_says(&world.ranks[r], "barley") ||
            mr_rank_program_says(&world.ranks[r], "sesame"))
            fail_msg("rank %u tells a token", r);
    forget(&world);
}

static void a_port_that_is_taken_is_named(void **state)
{
    (void)state;
    struct world world = {.n_ranks = 2, .timeout_ms = 2000, .hosts = {0, 1}};
    char words[40];
    int fd = mr_netns_listen(0, &world.port);
    start(&world);
    finish(&world, world.timeout_ms + SLACK_MS, 2);
    snprintf(words, sizeof words, "10.77.0.1 port %u", world.port);
    expect_words(&world, 0, words);
    expect_words(&world, 0, "Address already in use");
    expect_words(&world, 1, words);
    forget(&world);
    close(fd);
}

/* After a failure too. */
static int mend(void **state)
{
    (void)state;
    mr_netns_mend();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(hosts_meet_over_tcp, mend),
        cmocka_unit_test_teardown(hosts_meet_over_the_environment, mend),
        cmocka_unit_test_teardown(launches_on_two_hosts_make_one_world, mend),
        cmocka_unit_test_teardown(a_rank_that_is_cut_off_in_an_all_reduce_is_named, mend),
        cmocka_unit_test_teardown(a_rank_that_arrives_within_the_deadline_is_waited_for, mend),
        cmocka_unit_test_teardown(a_rank_that_arrives_after_the_deadline_is_named, mend),
        cmocka_unit_test_teardown(without_rank_0_the_others_name_the_addresses_they_tried, mend),
        cmocka_unit_test_teardown(a_wrong_token_is_refused_and_named, mend),
        cmocka_unit_test_teardown(a_port_that_is_taken_is_named, mend),
    };
    if (!mr_netns_init())
        return 77;
    setenv("MR_MODULE_PATH", MR_TEST_GLOO_FOLDER, 1);
    unsetenv("MR_TOKEN");
    mr_rank_program_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
