/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Failures of an engine: errors stay, timeouts hold, and no call and no destroy waits for an engine
 * that does not return.
 */
#include "tests/dist/group/group_rig.h"

#include "dist/group/group.h"

#include <millrace/loader.h>
#include <millrace/run.h>

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

/* Every call returns the first error, with the same text. */
static void stays_dead(mr_group *group, mr_status status)
{
    float x = 0;
    mr_group_work *work;
    mr_group *part;
    char first[MR_ERROR_TEXT];
    memcpy(first, mr_group_error(group)->text, sizeof first);
    RIG_CHECK(group, mr_group_all_reduce(group, NULL, 1, MR_F32, MR_SUM) == status);
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F32, MR_SUM) == status);
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &work) == status);
    RIG_CHECK(group, work == NULL);
    RIG_CHECK(group, mr_group_split(group, 0, 0, &part) == status);
    RIG_CHECK(group, strcmp(mr_group_error(group)->text, first) == 0);
    RIG_CHECK(group, mr_group_error(group)->status == (int)status);
}

/* Rank 1's third call fails. */
static void fails_at_three(mr_group *group, void *arg)
{
    float x[1000] = {0};
    (void)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    RIG_CHECK(group, mr_group_all_reduce(group, x, 1000, MR_F32, MR_SUM) == MR_OK);
    mr_status status = mr_group_all_reduce(group, x, 1000, MR_F32, MR_MEAN);
    if (mr_group_rank(group) == 1) {
        RIG_CHECK(group, status == MR_ERR_IO);
        RIG_SAYS(group, "all_reduce 3 (1000 f32, mean): the double was told to fail");
    } else {
        RIG_CHECK(group, status == MR_ERR_TIMEOUT);
        RIG_SAYS(
            group,
            "all_reduce 3 (1000 f32, mean) timed out after 1500 ms: rank 1 has left the group");
    }
    stays_dead(group, status);
}

static void an_error_stays(void **state)
{
    (void)state;
    rig_tell("rank=1,at=3,do=error");
    rig_run(2, 1500, fails_at_three, NULL);
}

/* Works after the failed one end with its error. */
static void fails_in_the_background(mr_group *group, void *arg)
{
    mr_group_work *works[3];
    float x = 0;
    (void)arg;
    for (int i = 0; i < 3; i++)
        RIG_CHECK(group, mr_group_all_reduce_async(group, &x, 1, MR_F32, MR_SUM, NULL, &works[i]) ==
                             MR_OK);
    mr_status status = mr_group_work_sync(works[2], MR_FOREVER);
    RIG_CHECK(group, status == (mr_group_rank(group) ? MR_ERR_TIMEOUT : MR_ERR_IO));
    RIG_SAYS(group, "all_reduce 2 (1 f32, sum)");
    RIG_CHECK(group, mr_group_work_test(works[0]) == MR_OK);
    RIG_CHECK(group, mr_group_work_test(works[1]) == status);
    RIG_CHECK(group, mr_group_barrier(group) == status);
    for (int i = 0; i < 3; i++)
        mr_group_work_destroy(works[i]);
    stays_dead(group, status);
}

static void works_after_a_failure_end_with_its_error(void **state)
{
    (void)state;
    rig_tell("rank=0,at=2,do=error");
    rig_run(2, 1000, fails_in_the_background, NULL);
}

/* Rank 1 knows and leaves; rank 0 is still in the collective that reports it. */
static void ends_by_agreement(mr_group *group, void *arg)
{
    (void)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    RIG_CHECK(group, mr_group_same(group, mr_group_rank(group), "the training set") == MR_ERR_PEER);
    RIG_SAYS(group, "the training set of rank 1 differs from rank 0's");
    stays_dead(group, MR_ERR_PEER);
}

static void a_rank_that_ends_by_agreement_does_not_disturb_a_slower_rank(void **state)
{
    (void)state;
    rig_tell("rank=0,at=2,do=linger,ms=300");
    rig_run(2, 20000, ends_by_agreement, NULL);
}

static void times_out(mr_group *group, void *arg)
{
    double x = 0;
    uint64_t start = rig_now_ms();
    (void)arg;
    RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F64, MR_MAX) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start >= 990);
    RIG_CHECK(group, rig_now_ms() - start < 15000);
    RIG_SAYS(group, "all_reduce 1 (1 f64, max) timed out after 1 s");
    stays_dead(group, MR_ERR_TIMEOUT);
}

static void a_stalled_rank_is_waited_for_until_the_timeout(void **state)
{
    (void)state;
    rig_tell("rank=2,at=1,do=stall");
    rig_run(4, 1000, times_out, NULL);
}

/*
 * Ranks 1 and 3 do not join the second collective until the other ranks have given up. Rank 2 waits
 * longer than rank 0.
 */
static void stays_away(mr_group *group, void *arg)
{
    atomic_uint *n_told = arg;
    uint32_t rank = mr_group_rank(group);
    float x = 0;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    if (rank % 2 == 0) {
        group->timeout_ms = rank == 0 ? 1000 : 4000;
        RIG_CHECK(group, mr_group_all_reduce(group, &x, 1, MR_F32, MR_SUM) == MR_ERR_TIMEOUT);
        RIG_SAYS(group,
                 rank == 0
                     ? "all_reduce 2 (1 f32, sum) timed out after 1 s: rank 1, 3 did not join"
                     : "all_reduce 2 (1 f32, sum) timed out after 4 s: rank 1, 3 did not join");
        atomic_fetch_add(n_told, 1);
    }
    while (atomic_load(n_told) < 2)
        usleep(1000);
}

static void ranks_that_did_not_join_are_named(void **state)
{
    (void)state;
    atomic_uint n_told = 0;
    rig_tell(NULL);
    rig_run(4, 20000, stays_away, &n_told);
}

/* Two of three ranks have left, and were not lost. The third names them. */
static void is_left_alone(mr_group *group, void *arg)
{
    (void)arg;
    if (mr_group_rank(group) == 1)
        RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_TIMEOUT);
    if (mr_group_rank(group) == 1)
        RIG_SAYS(group, "barrier 1 timed out after 500 ms: ranks 0, 2 have left the group");
}

static void ranks_that_have_left_are_named(void **state)
{
    (void)state;
    rig_tell(NULL);
    rig_run(3, 500, is_left_alone, NULL);
}

/* Destroy quickly ends works that are under way or queued. Their handles stay valid. */
struct outliving {
    mr_group_work *running;
    mr_group_work *waiting;
};

static void leaves_works(mr_group *group, void *arg)
{
    struct outliving *works = arg;
    if (mr_group_rank(group) == 1)
        return;
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &works->running) == MR_OK);
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &works->waiting) == MR_OK);
    RIG_CHECK(group, mr_group_work_sync(works->running, 50) == MR_PENDING);
}

static void works_outlive_their_group(void **state)
{
    (void)state;
    struct outliving works = {0};
    uint64_t start = rig_now_ms();
    rig_tell("rank=0,at=1,do=stall");
    rig_run(2, 60000, leaves_works, &works);
    assert_true(rig_now_ms() - start < 20000);
    assert_int_equal(mr_group_work_test(works.running), MR_ERR_STATE);
    assert_int_equal(mr_group_work_sync(works.waiting, MR_FOREVER), MR_ERR_STATE);
    mr_group_work_destroy(works.waiting);
    mr_group_work_destroy(works.running);
}

static void never(mr_group *group, void *arg)
{
    (void)arg;
    RIG_CHECK(group, !"created");
}

static void a_failed_creation_leaves_nothing_behind(void **state)
{
    (void)state;
    mr_error results[RIG_RANKS];
    rig_tell("rank=1,create=error");
    rig_create(2, 700, never, NULL, results);
    assert_int_equal(results[1].status, MR_ERR_IO);
    assert_string_equal(results[1].text, "the double was told not to begin");
    assert_int_equal(results[0].status, MR_ERR_TIMEOUT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_error_stays),
        cmocka_unit_test(works_after_a_failure_end_with_its_error),
        cmocka_unit_test(a_rank_that_ends_by_agreement_does_not_disturb_a_slower_rank),
        cmocka_unit_test(a_stalled_rank_is_waited_for_until_the_timeout),
        cmocka_unit_test(ranks_that_did_not_join_are_named),
        cmocka_unit_test(ranks_that_have_left_are_named),
        cmocka_unit_test(works_outlive_their_group),
        cmocka_unit_test(a_failed_creation_leaves_nothing_behind),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
