/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Groups over the real gloo module: the suite of all collectives, split groups, and ranks that die.
 */
#include "tests/dist/group/group_rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/dist/group/contract_collectives.h"

static void meet_contract(mr_group *group, void *arg)
{
    (void)arg;
    char words[CONTRACT_WORDS];
    RIG_CHECK(group, strcmp(mr_group_backend(group), "gloo") == 0);
    uint32_t n_wrong = contract_group_run(group, NULL, words);
    if (n_wrong > 0)
        fprintf(stderr, "%u wrong; %s\n", n_wrong, words);
    RIG_CHECK(group, n_wrong == 0);
}

static void groups_of_threads_meet_the_contract(void **state)
{
    (void)state;
    rig_run(2, 20000, meet_contract, NULL);
    rig_run(3, 20000, meet_contract, NULL);
}

static void groups_of_processes_meet_the_contract(void **state)
{
    (void)state;
    int results[RIG_RANKS];
    rig_fork(4, 20000, meet_contract, NULL, results);
    for (uint32_t rank = 0; rank < 4; rank++)
        assert_int_equal(results[rank], 0);
}

static void work_in_halves(mr_group *group, void *arg)
{
    (void)arg;
    mr_group *half = NULL;
    uint32_t rank = mr_group_rank(group);
    RIG_CHECK(group, mr_group_split(group, rank % 2, 100 - rank, &half) == MR_OK);
    double sum = rank, all = rank;
    RIG_CHECK(group, mr_group_world_size(half) == 2 && mr_group_rank(half) == (rank < 2));
    RIG_CHECK(half, mr_group_all_reduce(half, &sum, 1, MR_F64, MR_SUM) == MR_OK);
    RIG_CHECK(group, sum == (rank % 2 ? 4 : 2));
    RIG_CHECK(group, mr_group_all_reduce(group, &all, 1, MR_F64, MR_SUM) == MR_OK);
    RIG_CHECK(group, all == 6);
    mr_group_destroy(half);
}

static void halves_of_a_group_work_beside_it(void **state)
{
    (void)state;
    rig_run(4, 20000, work_in_halves, NULL);
}

/* Long all_reduces; rank 1 ends in the middle of one. */
static void lose_rank_one(mr_group *group, void *arg)
{
    (void)arg;
    size_t n = 1u << 19;
    double *values = calloc(n, sizeof *values);
    mr_status status = MR_OK;
    if (mr_group_rank(group) == 1)
        alarm(1); /* dies by SIGALRM */
    uint64_t end_ms = rig_now_ms() + 10000;
    while (status == MR_OK && rig_now_ms() < end_ms)
        status = mr_group_all_reduce(group, values, n, MR_F64, MR_SUM);
    RIG_CHECK(group, status == MR_ERR_PEER);
    RIG_SAYS(group, "rank 1");
    free(values);
}

static void survivors_name_the_rank_that_died(void **state)
{
    (void)state;
    int results[RIG_RANKS];
    rig_fork(3, 20000, lose_rank_one, NULL, results);
    assert_int_equal(results[0], 0);
    assert_int_equal(results[1], 128 + SIGALRM);
    assert_int_equal(results[2], 0);
}

/* Creation must not return on one rank before all ranks have connected. */
static void leave_at_once(mr_group *group, void *arg)
{
    (void)group;
    (void)arg;
}

static void a_rank_may_leave_as_soon_as_it_has_its_group(void **state)
{
    (void)state;
    for (int i = 0; i < 20; i++) {
        int results[RIG_RANKS];
        rig_fork(3, 20000, leave_at_once, NULL, results);
        for (uint32_t rank = 0; rank < 3; rank++)
            assert_int_equal(results[rank], 0);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(groups_of_processes_meet_the_contract),
        cmocka_unit_test(a_rank_may_leave_as_soon_as_it_has_its_group),
        cmocka_unit_test(survivors_name_the_rank_that_died),
        cmocka_unit_test(groups_of_threads_meet_the_contract),
        cmocka_unit_test(halves_of_a_group_work_beside_it),
    };
    rig_init();
    setenv("MR_MODULE_PATH", MR_TEST_GLOO_FOLDER, 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
