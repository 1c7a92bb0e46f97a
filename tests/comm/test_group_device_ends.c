/* SPDX-License-Identifier: Apache-2.0 */
/* What does not end on a device: destroy does not wait for it for long, and an engine that hangs is given up. Waiting
 * for that takes seconds, so it has a program of its own. */
#include "tests/comm/group_rig.h"

#include <string.h>
#include <unistd.h>

#include <millrace/loader.h>

#include "tests/comm/device_engine_double.h"

static struct device_double *told;

static float buffers[RIG_RANKS];

/* Never ends on either rank; the handles live on. */
static void leaves_works(mr_group *group, void *arg)
{
    mr_work **works = arg;
    uint32_t rank = mr_group_rank(group);
    RIG_CHECK(group, mr_all_reduce_async(group, &buffers[rank], 1, MR_F32, MR_SUM, NULL, &works[rank]) == MR_OK);
}

static void works_outlive_their_group(void **state)
{
    (void)state;
    mr_work *works[2];
    uint64_t start = rig_now_ms();
    told = rig_use_device();
    for (int r = 0; r < 2; r++)
        atomic_store(&told->ranks[r].is_held, true);
    rig_run(2, 60000, leaves_works, works);
    assert_true(rig_now_ms() - start < 5000);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(mr_work_test(works[r]), MR_ERR_STATE);
        assert_int_equal(mr_work_sync(works[r], MR_FOREVER), MR_ERR_STATE);
        assert_int_equal(mr_work_wait(works[r], NULL), MR_ERR_STATE);
        mr_work_free(works[r]);
        assert_int_equal(atomic_load(&told->ranks[r].n_tickets), 0);
        assert_int_equal(atomic_load(&told->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&told->ranks[r].n_other_ends), 1);
    }
    assert_int_equal(atomic_load(&told->n_misuses), 0);
}

/* The abort that the deadline calls for does not return: who waits is let go all the same. */
static void abort_hangs(mr_group *group, void *arg)
{
    mr_work *work = NULL;
    uint64_t start = rig_now_ms();
    uint32_t rank = mr_group_rank(group);
    (void)arg;
    atomic_store(&told->ranks[rank].is_held, true);
    RIG_CHECK(group, mr_all_reduce_async(group, &buffers[rank], 1, MR_F32, MR_SUM, NULL, &work) == MR_OK);
    RIG_CHECK(group, mr_work_sync(work, MR_FOREVER) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start < 6000);
    RIG_SAYS(group, "all_reduce 1 (1 f32, sum) timed out after 300 ms");
    mr_work_free(work);
    RIG_CHECK(group, mr_barrier(group) == MR_ERR_TIMEOUT);
}

static void an_engine_whose_abort_hangs_is_given_up(void **state)
{
    (void)state;
    uint64_t start = rig_now_ms();
    told = rig_use_device();
    for (int r = 0; r < 2; r++)
        atomic_store(&told->ranks[r].abort_ms, 6000);
    rig_run(2, 300, abort_hangs, NULL);
    assert_true(rig_now_ms() - start < 5900);
    for (int r = 0; r < 2; r++)
        assert_int_equal(atomic_load(&told->ranks[r].n_other_ends), 0); /* nobody touches it again */
    while (atomic_load(&told->ranks[0].n_aborts) + atomic_load(&told->ranks[1].n_aborts) < 2)
        usleep(10000);
    usleep(200000); /* the watches leave */
    assert_int_equal(atomic_load(&told->n_misuses), 0);
    for (int r = 0; r < 2; r++)
        assert_int_equal(atomic_load(&told->ranks[r].n_other_ends), 0);
}

/* An issue that minds neither deadline nor stop, but abort. */
static void connects_deaf(mr_group *group, void *arg)
{
    uint64_t start = rig_now_ms();
    (void)arg;
    RIG_CHECK(group, mr_barrier(group) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start < 7000);
    RIG_SAYS(group, "barrier 1 timed out after 300 ms");
}

static void an_issue_that_does_not_come_back_is_aborted(void **state)
{
    (void)state;
    told = rig_use_device();
    for (int r = 0; r < 2; r++) {
        atomic_store(&told->ranks[r].is_connecting, true);
        atomic_store(&told->ranks[r].ignores_stop, true);
    }
    rig_run(2, 300, connects_deaf, NULL);
    assert_int_equal(atomic_load(&told->n_misuses), 0);
    for (int r = 0; r < 2; r++) {
        assert_int_equal(atomic_load(&told->ranks[r].n_aborts), 1);
        assert_int_equal(atomic_load(&told->ranks[r].n_other_ends), 1);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(works_outlive_their_group),
        cmocka_unit_test(an_issue_that_does_not_come_back_is_aborted),
        cmocka_unit_test(an_engine_whose_abort_hangs_is_given_up),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
