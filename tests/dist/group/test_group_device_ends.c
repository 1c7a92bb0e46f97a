/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives that do not end on a device: destroy waits for them only for a limited time, and a
 * hanging engine is given up. This takes seconds, so it is a separate program.
 */
#include "tests/dist/group/group_rig.h"

#include <string.h>
#include <unistd.h>

#include <millrace/loader.h>
#include <millrace/run.h>

#include "dist/group/work.h"
#include "tests/dist/group/device_engine_double.h"

static struct device_double *orders;

static float buffers[RIG_RANKS];

/* They never end on either rank; the handles stay valid. */
static void leaves_works(mr_group *group, void *arg)
{
    mr_group_work **works = arg;
    uint32_t rank = mr_group_rank(group);
    RIG_CHECK(group, mr_group_all_reduce_async(group, &buffers[rank], 1, MR_F32, MR_SUM, NULL,
                                               &works[rank]) == MR_OK);
}

static void works_outlive_their_group(void **state)
{
    (void)state;
    mr_group_work *works[2];
    uint64_t start = rig_now_ms();
    orders = rig_use_device();
    for (int r = 0; r < 2; r++)
        atomic_store(&orders->ranks[r].is_held, true);
    rig_run(2, 60000, leaves_works, works);
    assert_true(rig_now_ms() - start < 20000);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(mr_group_work_test(works[r]), MR_ERR_STATE);
        assert_int_equal(mr_group_work_sync(works[r], MR_FOREVER), MR_ERR_STATE);
        assert_int_equal(mr_group_work_wait(works[r], NULL), MR_ERR_STATE);
        mr_group_work_destroy(works[r]);
        assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&orders->ranks[r].n_other_ends), 1);
    }
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
}

/* Ranks 1 and 2 know at once, and rank 1 leaves; rank 0's device is slow. */
static void ends_by_agreement(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    (void)arg;
    if (rank == 0)
        atomic_store(&orders->ranks[0].is_held, true);
    RIG_CHECK(group, mr_group_same(group, rank == 1 ? 8 : 7, "the training set") == MR_ERR_PEER);
    RIG_SAYS(group, "the training set of rank 1 differs from rank 0's");
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
    if (rank == 2) {
        usleep(400000);
        atomic_store(&orders->ranks[0].is_held, false);
    }
}

static void a_rank_that_ends_by_agreement_does_not_disturb_a_slower_rank(void **state)
{
    (void)state;
    orders = rig_use_device();
    atomic_store(&orders->is_strict, true);
    rig_run(3, 20000, ends_by_agreement, NULL);
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    for (int r = 0; r < 3; r++) {
        assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_healthy_ends), 1);
    }
}

/* Works under way when all ranks end the group still end, or time out. */
static void leaves_pending_works(mr_group *group, void *arg)
{
    uint32_t rank = mr_group_rank(group);
    mr_group_work *work = NULL;
    mr_error error = {.status = MR_ERR_PEER, .text = "as agreed"};
    bool ends = *(bool *)arg;
    atomic_store(&orders->ranks[rank].is_held, true);
    RIG_CHECK(group, mr_group_all_reduce_async(group, &buffers[rank], 1, MR_F32, MR_SUM, NULL,
                                               &work) == MR_OK);
    RIG_CHECK(group, mr_work_end_group(group, &error) == MR_ERR_PEER);
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
    RIG_CHECK(group, mr_group_work_sync(work, 100) == MR_PENDING);
    RIG_CHECK(group, mr_group_work_wait(work, NULL) == MR_OK);
    atomic_store(&orders->ranks[rank].is_held, !ends);
    RIG_CHECK(group, mr_group_work_sync(work, MR_FOREVER) == (ends ? MR_OK : MR_ERR_PEER));
    mr_group_work_destroy(work);
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_PEER);
    RIG_SAYS(group, "as agreed");
}

static void pending_works_still_end_when_all_ranks_end_the_group(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool ends = i == 0;
        orders = rig_use_device();
        rig_run(2, 1000, leaves_pending_works, &ends);
        assert_int_equal(atomic_load(&orders->n_misuses), 0);
        for (int r = 0; r < 2; r++) {
            assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), 0);
            assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), !ends);
            assert_int_equal(atomic_load(&orders->ranks[r].n_healthy_ends), ends);
        }
    }
}

/*
 * Rank 1 has no memory for its collective. Only rank 1 fails, and rank 0 need not wait for its
 * deadline.
 */
static void fails_alone(mr_group *group, void *arg)
{
    mr_error error = {.status = MR_ERR_NO_MEMORY, .text = "no memory"};
    mr_group_work *work = NULL;
    uint64_t start = rig_now_ms();
    (void)arg;
    if (mr_group_rank(group) == 0) {
        RIG_CHECK(group, mr_group_all_reduce(group, &buffers[0], 1, MR_F32, MR_SUM) == MR_ERR_PEER);
        RIG_CHECK(group, rig_now_ms() - start < 5000);
        return;
    }
    atomic_store(&orders->ranks[1].is_held, true);
    RIG_CHECK(group, mr_group_all_reduce_async(group, &buffers[1], 1, MR_F32, MR_SUM, NULL,
                                               &work) == MR_OK);
    RIG_CHECK(group, mr_work_fail_group(group, &error) == MR_ERR_NO_MEMORY);
    RIG_CHECK(group, mr_group_work_sync(work, MR_FOREVER) == MR_ERR_NO_MEMORY);
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_NO_MEMORY);
    RIG_SAYS(group, "no memory");
    mr_group_work_destroy(work);
}

static void a_rank_that_fails_alone_disconnects(void **state)
{
    (void)state;
    orders = rig_use_device();
    atomic_store(&orders->is_strict, true);
    atomic_store(&orders->ranks[0].is_held, true);
    rig_run(2, 20000, fails_alone, NULL);
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(atomic_load(&orders->ranks[r].n_tickets), 0);
        assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 1);
    }
}

/* From a millisecond to forever. */
static void waits_for_300_ms(mr_group *group, void *arg)
{
    uint32_t timeout_ms = *(uint32_t *)arg;
    uint32_t rank = mr_group_rank(group);
    bool is_short = timeout_ms < 300;
    mr_group_work *work = NULL;
    atomic_store(&orders->ranks[rank].is_held, true);
    RIG_CHECK(group, mr_group_all_reduce_async(group, &buffers[rank], 1, MR_F32, MR_SUM, NULL,
                                               &work) == MR_OK);
    /* the store is queried for late ranks */
    mr_status status = mr_group_work_sync(work, is_short ? 10000 : 300);
    RIG_CHECK(group, status == (is_short ? MR_ERR_TIMEOUT : MR_PENDING));
    if (is_short)
        RIG_SAYS(group, "timed out after 1 ms");
    atomic_store(&orders->ranks[rank].is_held, false);
    RIG_CHECK(group, mr_group_work_sync(work, timeout_ms) == (is_short ? MR_ERR_TIMEOUT : MR_OK));
    mr_group_work_destroy(work);
}

static void timeouts_can_be_short_and_long(void **state)
{
    (void)state;
    uint32_t times_ms[] = {1, 24 * 3600 * 1000, MR_FOREVER - 1, MR_FOREVER};
    for (size_t i = 0; i < sizeof times_ms / sizeof *times_ms; i++) {
        orders = rig_use_device();
        rig_run(2, times_ms[i], waits_for_300_ms, &times_ms[i]);
        assert_int_equal(atomic_load(&orders->n_misuses), 0);
    }
}

/* The abort after the deadline does not return, but the waiter does. */
static void abort_hangs(mr_group *group, void *arg)
{
    mr_group_work *work = NULL;
    uint64_t start = rig_now_ms();
    uint32_t rank = mr_group_rank(group);
    (void)arg;
    atomic_store(&orders->ranks[rank].is_held, true);
    RIG_CHECK(group, mr_group_all_reduce_async(group, &buffers[rank], 1, MR_F32, MR_SUM, NULL,
                                               &work) == MR_OK);
    RIG_CHECK(group, mr_group_work_sync(work, MR_FOREVER) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start < 6000);
    RIG_SAYS(group, "all_reduce 1 (1 f32, sum) timed out after 300 ms");
    mr_group_work_destroy(work);
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_TIMEOUT);
}

static void an_engine_whose_abort_hangs_is_given_up(void **state)
{
    (void)state;
    uint64_t start = rig_now_ms();
    orders = rig_use_device();
    for (int r = 0; r < 2; r++)
        atomic_store(&orders->ranks[r].abort_ms, 6000);
    rig_run(2, 300, abort_hangs, NULL);
    assert_true(rig_now_ms() - start < 5900);
    for (int r = 0; r < 2; r++)
        /* the engine is not touched again */
        assert_int_equal(atomic_load(&orders->ranks[r].n_other_ends), 0);
    while (atomic_load(&orders->ranks[0].n_aborts) + atomic_load(&orders->ranks[1].n_aborts) < 2)
        usleep(10000);
    usleep(200000); /* the watches end */
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    for (int r = 0; r < 2; r++)
        assert_int_equal(atomic_load(&orders->ranks[r].n_other_ends), 0);
}

/* An issue that ignores deadline and stop, but not abort. */
static void connects_without_end(mr_group *group, void *arg)
{
    uint64_t start = rig_now_ms();
    (void)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start < 7000);
    RIG_SAYS(group, "barrier 1 timed out after 300 ms");
}

static void an_issue_that_does_not_return_is_aborted(void **state)
{
    (void)state;
    orders = rig_use_device();
    for (int r = 0; r < 2; r++) {
        atomic_store(&orders->ranks[r].is_connecting, true);
        atomic_store(&orders->ranks[r].ignores_stop, true);
    }
    rig_run(2, 300, connects_without_end, NULL);
    assert_int_equal(atomic_load(&orders->n_misuses), 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(atomic_load(&orders->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&orders->ranks[r].n_other_ends), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_outlive_their_group),
        cmocka_unit_test(a_rank_that_ends_by_agreement_does_not_disturb_a_slower_rank),
        cmocka_unit_test(pending_works_still_end_when_all_ranks_end_the_group),
        cmocka_unit_test(a_rank_that_fails_alone_disconnects),
        cmocka_unit_test(timeouts_can_be_short_and_long),
        cmocka_unit_test(an_issue_that_does_not_return_is_aborted),
        cmocka_unit_test(an_engine_whose_abort_hangs_is_given_up),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
