/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The order of nccl's works and streams, checked by values and by the double's vector clocks. A
 * collective comes after the work in its stream, and a stream that waits for the collective comes
 * after it.
 *
 * Invariant: no host thread waits between a kernel and the collective. The double counts such a
 * wait as an order, and the test would show nothing.
 */
#include "tests/dist/nccl/nccl_world.h"

#include <stdatomic.h>
#include <stdlib.h>

#include <millrace/loader.h>

enum { N = 3000, ROUNDS = 5 };

struct streams {
    cudaStream_t made, used; /* the stream that writes a buffer, and the one that reads its sum */
};

static void open_streams(const mr_group *group, struct streams *s)
{
    NCCL_CHECK(group, cudaStreamCreateWithFlags(&s->made, cudaStreamNonBlocking) == cudaSuccess);
    NCCL_CHECK(group, cudaStreamCreateWithFlags(&s->used, cudaStreamNonBlocking) == cudaSuccess);
}

static void close_streams(const mr_group *group, const struct streams *s)
{
    NCCL_CHECK(group, cudaStreamDestroy(s->made) == cudaSuccess &&
                          cudaStreamDestroy(s->used) == cudaSuccess);
}

/* The bytes are 1, so an element is 0x01010101, and its sum over ranks has no carry. */
static void reduce_after_a_kernel(mr_group *group, void *arg)
{
    struct streams s;
    uint32_t n = mr_group_world_size(group);
    float *buffer = nccl_world_floats(group, N, 0);
    (void)arg;
    open_streams(group, &s);
    for (int round = 0; round < ROUNDS; round++) {
        mr_group_work *work = NULL;
        uint64_t sum = 0;
        int32_t *expected = malloc(N * sizeof *expected);
        NCCL_CHECK(group, double_launch_fill(s.made, buffer, N * sizeof *buffer, 1) == cudaSuccess);
        NCCL_CHECK(group, mr_group_all_reduce_async(group, buffer, N, MR_I32, MR_SUM, s.made,
                                                    &work) == MR_OK);
        NCCL_CHECK(group, mr_group_work_wait(work, s.used) == MR_OK);
        NCCL_CHECK(group,
                   double_launch_sum(s.used, buffer, N * sizeof *buffer, &sum) == cudaSuccess);
        mr_group_work_destroy(work);
        NCCL_CHECK(group, cudaStreamSynchronize(s.used) == cudaSuccess);
        for (int i = 0; expected && i < N; i++)
            expected[i] = (int32_t)(0x01010101 * n);
        NCCL_CHECK(group, expected && sum == double_sum(expected, N * sizeof *expected));
        free(expected);
    }
    close_streams(group, &s);
    NCCL_CHECK(group, cudaFree(buffer) == cudaSuccess);
}

static void a_stream_that_waits_for_a_work_sees_its_result(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        struct nccl_world world = {
            .n_ranks = 2, .policy = (enum double_policy)policy, .f = reduce_after_a_kernel};
        for (world.seed = 1; world.seed <= 2; world.seed++) {
            world.nccl = (struct double_nccl_options){
                .delay_us = 500, .progress_us = 400, .seed = world.seed};
            nccl_world_threads(&world);
        }
    }
}

/* Without the wait the double reports it. This shows that the test above can fail. */
static void forget_to_wait(mr_group *group, void *arg)
{
    struct streams s;
    mr_group_work *work = NULL;
    float *buffer = nccl_world_floats(group, N, 0);
    (void)arg;
    open_streams(group, &s);
    NCCL_CHECK(group,
               mr_group_all_reduce_async(group, buffer, N, MR_I32, MR_SUM, s.made, &work) == MR_OK);
    NCCL_CHECK(group, double_launch_fill(s.used, buffer, N * sizeof *buffer, 1) == cudaSuccess);
    NCCL_CHECK(group, mr_group_work_sync(work, MR_FOREVER) == MR_OK);
    mr_group_work_destroy(work);
    NCCL_CHECK(group, cudaStreamSynchronize(s.used) == cudaSuccess);
    NCCL_CHECK(group, mr_group_barrier(group) == MR_OK);
    NCCL_CHECK(group, double_found(DOUBLE_UNORDERED) > 0);
    close_streams(group, &s);
    NCCL_CHECK(group, cudaFree(buffer) == cudaSuccess);
}

static void a_stream_that_does_not_wait_is_reported(void **state)
{
    (void)state;
    struct nccl_world world = {.n_ranks = 2, .expects_reports = true, .f = forget_to_wait};
    nccl_world_threads(&world);
    assert_int_equal(double_found(DOUBLE_MISUSE), 0);
}

/*
 * Many collectives at once, of several sizes, which end in another order than they began, like
 * buckets of a backward pass.
 */
static void overlap(mr_group *group, void *arg)
{
    enum { BUCKETS = 6 };
    float *buckets[BUCKETS];
    mr_group_work *works[BUCKETS];
    struct streams s;
    float n = (float)mr_group_world_size(group);
    (void)arg;
    open_streams(group, &s);
    for (int i = 0; i < BUCKETS; i++)
        buckets[i] = nccl_world_floats(group, N + (size_t)i, (float)(i + 1));
    for (int i = 0; i < BUCKETS; i++)
        NCCL_CHECK(group,
                   mr_group_all_reduce_async(group, buckets[i], N + (uint64_t)i, MR_F32, MR_SUM,
                                             i % 2 ? s.made : s.used, &works[i]) == MR_OK);
    for (int i = BUCKETS; i-- > 0;) {
        NCCL_CHECK(group, i % 3 ? mr_group_work_sync(works[i], MR_FOREVER) == MR_OK
                                : mr_group_work_wait(works[i], NULL) == MR_OK);
        mr_group_work_destroy(works[i]);
    }
    for (int i = 0; i < BUCKETS; i++) {
        NCCL_EXPECT(group, buckets[i], N + (size_t)i, n * (float)(i + 1));
        NCCL_CHECK(group, cudaFree(buckets[i]) == cudaSuccess);
    }
    close_streams(group, &s);
}

static void buckets_are_reduced_at_the_same_time(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        struct nccl_world world = {
            .n_ranks = 3, .policy = (enum double_policy)policy, .seed = 9, .f = overlap};
        world.nccl.delay_us = 300;
        nccl_world_threads(&world);
    }
}

/*
 * Rank 1 arrives when rank 0 has checked, or after 10 s. An asynchronous call must not block the
 * host.
 */
static void arrive_late(mr_group *group, void *arg)
{
    mr_group_work *work = NULL;
    float *buffer = nccl_world_floats(group, N, 1);
    _Atomic bool *has_looked = arg;
    for (unsigned ms = 0; mr_group_rank(group) == 1 && ms < 10000 && !atomic_load(has_looked);
         ms += 10)
        nccl_world_rest_ms(10);
    NCCL_CHECK(group,
               mr_group_all_reduce_async(group, buffer, N, MR_F32, MR_SUM, NULL, &work) == MR_OK);
    NCCL_CHECK(group, mr_group_rank(group) == 1 || mr_group_work_test(work) == MR_PENDING);
    NCCL_CHECK(group, mr_group_rank(group) == 1 || mr_group_work_sync(work, 10) == MR_PENDING);
    atomic_store(has_looked, true);
    NCCL_CHECK(group, mr_group_work_sync(work, MR_FOREVER) == MR_OK);
    mr_group_work_destroy(work);
    NCCL_EXPECT(group, buffer, N, 2);
    NCCL_CHECK(group, cudaFree(buffer) == cudaSuccess);
}

static void the_host_does_not_wait_for_a_rank_that_is_late(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        _Atomic bool has_looked = false;
        struct nccl_world world = {.n_ranks = 2,
                                   .policy = (enum double_policy)policy,
                                   .f = arrive_late,
                                   .arg = &has_looked};
        nccl_world_threads(&world);
    }
}

/* A stream in a capture is refused, and its capture continues. */
static void capture(mr_group *group, void *arg)
{
    struct streams s;
    cudaGraph_t graph = NULL;
    mr_group_work *work = NULL;
    float *buffer = nccl_world_floats(group, N, 1);
    (void)arg;
    open_streams(group, &s);
    NCCL_CHECK(group,
               cudaStreamBeginCapture(s.made, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    NCCL_CHECK(group, mr_group_all_reduce_async(group, buffer, N, MR_F32, MR_SUM, s.made, &work) ==
                          MR_ERR_STATE);
    NCCL_CHECK(group, work == NULL);
    NCCL_SAYS(group, "captured");
    NCCL_CHECK(group, double_launch_add_one(s.made, buffer, 4) == cudaSuccess);
    NCCL_CHECK(group, cudaStreamEndCapture(s.made, &graph) == cudaSuccess &&
                          cudaGraphDestroy(graph) == cudaSuccess);
    NCCL_CHECK(group, mr_group_all_reduce(group, buffer, N, MR_F32, MR_SUM) == MR_OK);
    NCCL_EXPECT(group, buffer, N, (float)mr_group_world_size(group));
    close_streams(group, &s);
    NCCL_CHECK(group, cudaFree(buffer) == cudaSuccess);
}

static void a_stream_that_captures_is_refused(void **state)
{
    (void)state;
    struct nccl_world world = {.n_ranks = 2, .policy = DOUBLE_EARLY, .f = capture};
    nccl_world_threads(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_stream_that_waits_for_a_work_sees_its_result),
        cmocka_unit_test(a_stream_that_does_not_wait_is_reported),
        cmocka_unit_test(buckets_are_reduced_at_the_same_time),
        cmocka_unit_test(the_host_does_not_wait_for_a_rank_that_is_late),
        cmocka_unit_test(a_stream_that_captures_is_refused),
    };
    nccl_world_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
