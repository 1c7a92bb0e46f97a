/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An engine that ignores deadline and stop. Waiting for it takes seconds, so it is a separate
 * program.
 */
#include "tests/dist/group/group_rig.h"

#include <millrace/loader.h>

struct hanging {
    mr_group_work *work; /* rank 0's */
};

/* Rank 1 waits until the watch gives the engine up; rank 0's group is destroyed at once. */
static void hang(mr_group *group, void *arg)
{
    struct hanging *hanging = arg;
    mr_group_work *works[2];
    uint64_t start = rig_now_ms();
    if (mr_group_rank(group) == 0) {
        RIG_CHECK(group, mr_group_barrier_async(group, NULL, &hanging->work) == MR_OK);
        RIG_CHECK(group, mr_group_work_sync(hanging->work, 100) == MR_PENDING);
        return;
    }
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &works[0]) == MR_OK);
    RIG_CHECK(group, mr_group_barrier_async(group, NULL, &works[1]) == MR_OK);
    RIG_CHECK(group, mr_group_work_sync(works[1], MR_FOREVER) == MR_ERR_TIMEOUT);
    RIG_CHECK(group, rig_now_ms() - start < 7000);
    RIG_SAYS(group, "barrier 1 timed out after 300 ms; the engine does not return");
    mr_group_work_destroy(works[0]);
    mr_group_work_destroy(works[1]);
}

static void an_engine_that_hangs_is_given_up(void **state)
{
    (void)state;
    struct hanging hanging = {0};
    uint64_t start = rig_now_ms();
    rig_tell("at=1,do=hang,ms=12000");
    rig_run(2, 300, hang, &hanging);
    assert_true(rig_now_ms() - start < 9000);
    assert_int_equal(mr_group_work_test(hanging.work), MR_ERR_STATE);
    mr_group_work_destroy(hanging.work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_engine_that_hangs_is_given_up),
    };
    rig_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
