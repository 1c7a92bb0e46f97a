/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ranks as processes, one of which is killed in the middle. The other ranks end soon, with an error
 * that names it.
 */
#include "tests/dist/group/group_rig.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <millrace/loader.h>

struct death {
    uint32_t dead;
    bool is_async;
};

/* One rank dies in the fifth all_reduce. The other ranks have a minute, and need about a second. */
static void reduces_until_a_death(mr_group *group, void *arg)
{
    const struct death *death = arg;
    double x[64] = {0};
    char words[32];
    mr_status status = MR_OK;
    uint64_t start = 0;
    for (int i = 0; i < 10 && !status; i++) {
        mr_group_work *work = NULL;
        start = rig_now_ms();
        if (!death->is_async)
            status = mr_group_all_reduce(group, x, 64, MR_F64, MR_SUM);
        else if (!mr_group_all_reduce_async(group, x, 64, MR_F64, MR_SUM, NULL, &work))
            status = mr_group_work_sync(work, MR_FOREVER);
        mr_group_work_destroy(work);
    }
    snprintf(words, sizeof words, "rank %u", death->dead);
    RIG_CHECK(group, rig_now_ms() - start < 20000);
    RIG_CHECK(group, status == MR_ERR_PEER);
    RIG_SAYS(group, "all_reduce 5 (64 f64, sum): ");
    RIG_SAYS(group, words);
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
}

static void survive(uint32_t n_ranks, struct death death)
{
    int results[RIG_RANKS];
    char order[64];
    snprintf(order, sizeof order, "rank=%u,at=5,do=vanish", death.dead);
    rig_tell(order);
    rig_fork(n_ranks, 60000, reduces_until_a_death, &death, results);
    for (uint32_t r = 0; r < n_ranks; r++)
        assert_int_equal(results[r], r == death.dead ? 128 + SIGKILL : 0);
}

static void a_death_in_a_collective_is_named(void **state)
{
    (void)state;
    survive(2, (struct death){.dead = 1});
    survive(4, (struct death){.dead = 2});
}

static void a_death_is_named_in_the_background(void **state)
{
    (void)state;
    survive(3, (struct death){.dead = 1, .is_async = true});
}

/* With rank 0 the store is lost too. */
static void the_death_of_rank_0_is_named(void **state)
{
    (void)state;
    survive(3, (struct death){.dead = 0});
}

/* The report arrives while no collective is under way: the next call returns it at once. */
static void calls_after_a_death(mr_group *group, void *arg)
{
    (void)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    if (mr_group_rank(group) == 1)
        raise(SIGKILL);
    uint64_t until = rig_now_ms() + 1000;
    while (rig_now_ms() < until)
        ;
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
    RIG_CHECK(group, rig_now_ms() < until + 20000);
    RIG_SAYS(group, "rank 1");
}

static void a_death_between_collectives_is_named(void **state)
{
    (void)state;
    int results[RIG_RANKS];
    rig_tell(NULL);
    rig_fork(2, 60000, calls_after_a_death, NULL, results);
    assert_int_equal(results[0], 0);
    assert_int_equal(results[1], 128 + SIGKILL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_death_in_a_collective_is_named),
        cmocka_unit_test(a_death_is_named_in_the_background),
        cmocka_unit_test(the_death_of_rank_0_is_named),
        cmocka_unit_test(a_death_between_collectives_is_named),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
