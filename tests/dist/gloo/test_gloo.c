/* SPDX-License-Identifier: Apache-2.0 */
/* The gloo module without faults: ranks as threads, and as processes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/dist/group/contract_collectives.h"
#include "tests/dist/gloo/gloo_rig.h"

#define RUN_MS 20000

struct caller {
    const struct mr_engine_table *table;
    void *engine;
    uint64_t number;
    mr_error error;
};

static mr_status call(void *user, const struct mr_collective *collective)
{
    struct caller *caller = user;
    volatile uint32_t stop = 0;
    struct mr_collective numbered = *collective;
    numbered.number = caller->number++;
    mr_status status =
        (mr_status)rig_run(caller->table, caller->engine, &numbered, RUN_MS, &stop, &caller->error);
    if (status != MR_OK)
        printf("%s\n", caller->error.text);
    return status;
}

static int run_suite(struct rig_rank *rank)
{
    struct caller caller = {.table = rank->table};
    char words[CONTRACT_WORDS];
    if (rank->table->create(&rank->setup, &caller.engine, &caller.error) != MR_OK) {
        printf("rank %u: %s\n", rank->setup.rank, caller.error.text);
        return 1;
    }
    struct contract_subject subject = {.rank = rank->setup.rank,
                                       .world_size = rank->setup.world_size,
                                       .user = &caller,
                                       .call = call};
    uint32_t n_wrong = contract_collectives_run(&subject, words);
    rank->table->destroy(caller.engine, n_wrong == 0);
    if (n_wrong > 0)
        printf("%u wrong; %s\n", n_wrong, words);
    return n_wrong > 0;
}

static void the_table_says_what_it_is(void **state)
{
    (void)state;
    const struct mr_engine_table *table = rig_table();
    assert_int_equal(table->abi, MR_ENGINE_ABI);
    assert_string_equal(table->name, "gloo");
    assert_non_null(strchr(table->version, '.'));
    assert_false(table->on_device);
    assert_non_null(table->create);
    assert_non_null(table->destroy);
    assert_non_null(table->run);
}

static void two_ranks_agree_with_the_oracle(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, run_suite, NULL), 0);
}

static void three_ranks_agree_with_the_oracle(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(3, run_suite, NULL), 0);
}

static void four_processes_agree_with_the_oracle(void **state)
{
    (void)state;
    struct rig_store *store = rig_store_create();
    pid_t children[4];
    for (uint32_t i = 0; i < 4; i++) {
        struct rig_rank rank = rig_rank_of(store, i, 4, 20000);
        children[i] = rig_child(&rank, run_suite);
    }
    for (uint32_t i = 0; i < 4; i++)
        assert_int_equal(rig_wait(children[i]), 0);
    rig_store_destroy(store);
}

static void a_world_of_one_needs_no_other_rank(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(1, run_suite, NULL), 0);
}

/* IPv6's loopback address. */
static int run_suite_by_ipv6(struct rig_rank *rank)
{
    rank->setup.local_address = "::1";
    return run_suite(rank);
}

static void ranks_find_each_other_by_ipv6(void **state)
{
    (void)state;
    FILE *file = fopen("/proc/net/if_inet6", "r");
    char line[200];
    bool found = false;
    while (file && fgets(line, sizeof line, file))
        found = found || strstr(line, "00000000000000000000000000000001") == line;
    if (file)
        fclose(file);
    if (!found)
        skip();
    assert_int_equal(rig_threads(2, run_suite_by_ipv6, NULL), 0);
}

static void the_interface_can_be_named(void **state)
{
    (void)state;
    setenv("MR_SOCKET_IFNAME", "lo", 1);
    uint32_t n_wrong = rig_threads(2, run_suite, NULL);
    unsetenv("MR_SOCKET_IFNAME");
    assert_int_equal(n_wrong, 0);
}

/* f16: 2048 + 1 is 2048, and a third rank's 1 is lost too. */
static int add_halves(struct rig_rank *rank)
{
    struct caller caller = {.table = rank->table};
    uint16_t values[4] = {rank->setup.rank == 0 ? 0x6800 : 0x3c00, 0x0001, 0x7bff, 0xfc00};
    uint16_t wide[2] = {0x3f80, 0x0001}; /* bf16: 1, and the smallest subnormal */
    if (rank->table->create(&rank->setup, &caller.engine, &caller.error) != MR_OK)
        return 1;
    struct mr_collective c = {
        .kind = MR_COLLECTIVE_ALL_REDUCE, .in = values, .out = values, .count = 4, .dtype = MR_F16};
    int wrong = call(&caller, &c) != MR_OK;
    c = (struct mr_collective){
        .kind = MR_COLLECTIVE_ALL_REDUCE, .in = wide, .out = wide, .count = 2, .dtype = MR_BF16};
    wrong |= call(&caller, &c) != MR_OK;
    rank->table->destroy(caller.engine, true);
    /*
     * 2049 is rounded to even; two of the smallest subnormals; above 65504 infinity; infinity
     * stays.
     */
    wrong |=
        values[0] != 0x6800 || values[1] != 0x0002 || values[2] != 0x7c00 || values[3] != 0xfc00;
    wrong |= wide[0] != 0x4000 || wide[1] != 0x0002;
    if (wrong)
        printf("%04x %04x %04x %04x, %04x %04x\n", values[0], values[1], values[2], values[3],
               wide[0], wide[1]);
    return wrong;
}

static void halves_are_rounded_to_even_and_overflow_to_infinity(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, add_halves, NULL), 0);
}

/* Messages of one pair stay in order and are not mixed with the collectives between them. */
static int exchange_messages(struct rig_rank *rank)
{
    struct caller caller = {.table = rank->table};
    if (rank->table->create(&rank->setup, &caller.engine, &caller.error) != MR_OK)
        return 1;
    int wrong = 0;
    for (int32_t i = 0; i < 50 && !wrong; i++) {
        uint32_t from = (uint32_t)i % 3, to = (from + 1) % 3;
        int32_t value = rank->setup.rank == from ? i : -1, sum = 1;
        struct mr_collective pair = {.in = &value, .out = &value, .count = 1, .dtype = MR_I32};
        struct mr_collective all = {.in = &sum, .out = &sum, .count = 1, .dtype = MR_I32};
        all.kind = MR_COLLECTIVE_ALL_REDUCE;
        pair.kind = rank->setup.rank == from ? MR_COLLECTIVE_SEND : MR_COLLECTIVE_RECV;
        pair.root = rank->setup.rank == from ? to : from;
        if (rank->setup.rank == from || rank->setup.rank == to)
            wrong = call(&caller, &pair) != MR_OK || value != i;
        wrong = wrong || call(&caller, &all) != MR_OK || sum != 3;
    }
    rank->table->destroy(caller.engine, !wrong);
    return wrong;
}

static void sends_between_collectives_do_not_disturb_them(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(3, exchange_messages, NULL), 0);
}

/* A rank that has its result leaves, and the other ranks still get theirs. */
static int leave_at_once(struct rig_rank *rank)
{
    struct caller caller = {.table = rank->table};
    if (rank->table->create(&rank->setup, &caller.engine, &caller.error) != MR_OK)
        return 1;
    size_t n = 1u << 18;
    uint64_t *values = calloc(n, sizeof *values);
    struct mr_collective c = {.kind = MR_COLLECTIVE_BROADCAST,
                              .in = values,
                              .out = values,
                              .count = n,
                              .dtype = MR_I64,
                              .root = 0};
    values[n - 1] = rank->setup.rank == 0 ? 7 : 0;
    int wrong = call(&caller, &c) != MR_OK || values[n - 1] != 7;
    rank->table->destroy(caller.engine, true);
    free(values);
    return wrong;
}

static void a_rank_that_leaves_early_loses_nothing(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++)
        assert_int_equal(rig_threads(4, leave_at_once, NULL), 0);
}

static uint32_t count_entries(const char *path)
{
    uint32_t n = 0;
    DIR *dir = opendir(path);
    assert_non_null(dir);
    while (readdir(dir))
        n++;
    closedir(dir);
    return n;
}

static void engines_leave_no_threads_and_no_files(void **state)
{
    (void)state;
    assert_int_equal(rig_threads(2, leave_at_once, NULL), 0);
    uint32_t files = count_entries("/proc/self/fd"), threads = count_entries("/proc/self/task");
    for (int i = 0; i < 50; i++)
        assert_int_equal(rig_threads(2, leave_at_once, NULL), 0);
    assert_int_equal(count_entries("/proc/self/fd"), files);
    assert_int_equal(count_entries("/proc/self/task"), threads);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_table_says_what_it_is),
        cmocka_unit_test(two_ranks_agree_with_the_oracle),
        cmocka_unit_test(three_ranks_agree_with_the_oracle),
        cmocka_unit_test(four_processes_agree_with_the_oracle),
        cmocka_unit_test(a_world_of_one_needs_no_other_rank),
        cmocka_unit_test(ranks_find_each_other_by_ipv6),
        cmocka_unit_test(the_interface_can_be_named),
        cmocka_unit_test(halves_are_rounded_to_even_and_overflow_to_infinity),
        cmocka_unit_test(sends_between_collectives_do_not_disturb_them),
        cmocka_unit_test(a_rank_that_leaves_early_loses_nothing),
        cmocka_unit_test(engines_leave_no_threads_and_no_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
