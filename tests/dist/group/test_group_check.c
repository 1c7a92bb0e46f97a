/* SPDX-License-Identifier: Apache-2.0 */
/*
 * MR_COMM_CHECK=1: ranks that differ or are missing are named, in the same way on all ranks. Equal
 * calls work.
 */
#include "tests/dist/group/group_rig.h"

#include <signal.h>
#include <stdlib.h>

static void call_the_same(mr_group *group, void *arg)
{
    uint32_t n = mr_group_world_size(group);
    float x[4] = {1, 1, 1, 1};
    (void)arg;
    for (int i = 0; i < 5; i++) {
        RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
        RIG_CHECK(group, mr_group_broadcast(group, x, 4, MR_F32, n - 1) == MR_OK);
        if (mr_group_rank(group) == 0)
            RIG_CHECK(group, mr_group_send(group, x, 4, MR_F32, n - 1) == MR_OK);
        if (mr_group_rank(group) == n - 1)
            RIG_CHECK(group, mr_group_recv(group, x, 4, MR_F32, 0) == MR_OK);
    }
    RIG_CHECK(group, mr_group_all_reduce(group, x, 4, MR_F32, MR_SUM) == MR_OK);
    RIG_CHECK(group, x[0] == (float)n);
}

static void equal_calls_work(void **state)
{
    (void)state;
    rig_run(2, 20000, call_the_same, NULL);
    rig_run(4, 20000, call_the_same, NULL);
}

static void one_differs(mr_group *group, void *arg)
{
    float x[1000] = {0};
    (void)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    mr_status status = mr_group_rank(group) == 2
                           ? mr_group_broadcast(group, x, 1000, MR_F32, 1)
                           : mr_group_all_reduce(group, x, 1000, MR_F32, MR_SUM);
    RIG_CHECK(group, status == MR_ERR_PEER);
    RIG_SAYS(group, "ranks differ in call 2: rank 0 calls all_reduce (1000 f32, sum), "
                    "rank 2 calls broadcast (1000 f32, root 1)");
}

static void a_rank_that_differs_is_named(void **state)
{
    (void)state;
    rig_run(3, 20000, one_differs, NULL);
}

/* Count, dtype and operation are compared too. */
static void counts_differ(mr_group *group, void *arg)
{
    double x[4] = {0};
    uint32_t rank = mr_group_rank(group);
    (void)arg;
    mr_status status = mr_group_all_reduce(group, x, rank == 1 ? 2 : 4, rank == 3 ? MR_I64 : MR_F64,
                                           rank == 2 ? MR_MIN : MR_MAX);
    RIG_CHECK(group, status == MR_ERR_PEER);
    RIG_SAYS(group, "rank 1 calls all_reduce (2 f64, max), rank 2 calls all_reduce (4 f64, min), "
                    "rank 3 calls all_reduce (4 i64, max)");
}

static void count_dtype_and_operation_are_compared(void **state)
{
    (void)state;
    rig_run(4, 20000, counts_differ, NULL);
}

static void messages_differ(mr_group *group, void *arg)
{
    double x[4] = {0};
    (void)arg;
    mr_status status = mr_group_rank(group) == 1   ? mr_group_send(group, x, 3, MR_F64, 0)
                       : mr_group_rank(group) == 0 ? mr_group_recv(group, x, 4, MR_F64, 1)
                                                   : MR_ERR_PEER;
    RIG_CHECK(group, status == MR_ERR_PEER);
    if (mr_group_rank(group) < 2)
        RIG_SAYS(group,
                 "rank 1 calls send (3 f64, to rank 0), rank 0 calls send (4 f64, to rank 0)");
}

static void both_ends_of_a_message_are_compared(void **state)
{
    (void)state;
    rig_run(3, 20000, messages_differ, NULL);
}

static void one_is_missing(mr_group *group, void *arg)
{
    uint32_t missing = *(uint32_t *)arg;
    RIG_CHECK(group, mr_group_barrier(group) == MR_OK);
    if (mr_group_rank(group) == missing) {
        uint64_t until = rig_now_ms() + 1800; /* it is busy elsewhere, but connected */
        while (rig_now_ms() < until)
            ;
        return;
    }
    RIG_CHECK(group, mr_group_barrier(group) == MR_ERR_TIMEOUT);
    RIG_SAYS(group, missing ? "barrier 2 timed out after 1 s: rank 2 did not join"
                            : "barrier 2 timed out after 1 s: rank 0 did not join");
}

static void a_rank_that_does_not_join_is_named(void **state)
{
    (void)state;
    for (uint32_t missing = 0; missing < 3; missing += 2)
        rig_run(3, 1000, one_is_missing, &missing);
}

static void leaves_during_check(mr_group *group, void *arg)
{
    mr_group_work **work = arg;
    if (mr_group_rank(group) == 0)
        RIG_CHECK(group, mr_group_barrier_async(group, NULL, work) == MR_OK);
}

static void destroy_ends_a_check(void **state)
{
    (void)state;
    mr_group_work *work = NULL;
    uint64_t start = rig_now_ms();
    rig_run(2, 60000, leaves_during_check, &work);
    assert_true(rig_now_ms() - start < 20000);
    assert_int_equal(mr_group_work_test(work), MR_ERR_STATE);
    mr_group_work_destroy(work);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(equal_calls_work),
        cmocka_unit_test(a_rank_that_differs_is_named),
        cmocka_unit_test(count_dtype_and_operation_are_compared),
        cmocka_unit_test(both_ends_of_a_message_are_compared),
        cmocka_unit_test(a_rank_that_does_not_join_is_named),
        cmocka_unit_test(destroy_ends_a_check),
    };
    rig_init();
    setenv("MR_COMM_CHECK", "1", 1);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
