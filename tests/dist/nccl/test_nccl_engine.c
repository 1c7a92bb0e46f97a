/* SPDX-License-Identifier: Apache-2.0 */
/* The nccl engine below a group: order between streams, host memory, and sums on the device. */
#include "tests/dist/nccl/nccl_rig.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>

static const enum double_policy policies[] = {DOUBLE_LATE, DOUBLE_EARLY, DOUBLE_RANDOM};

/* Run f with each policy of the double. */
static void run_with_policies(uint32_t n, rig_main *f)
{
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        rig_open(n, policies[i]);
        rig_engines(n, f, NULL);
        rig_close();
    }
}

static struct mr_collective device_sum(void *buffer, uint64_t count, void *stream)
{
    return (struct mr_collective){.kind = MR_COLLECTIVE_ALL_REDUCE,
                                  .in = buffer,
                                  .out = buffer,
                                  .count = count,
                                  .dtype = MR_I32,
                                  .op = MR_SUM,
                                  .stream = stream};
}

/*
 * A kernel, a collective and a reader, each in another stream. The host waits only for the reader.
 */
static void fill_sum_and_read(struct rig_rank *rank)
{
    enum { N = 1000 };
    static const uint32_t each = 0x01010101;
    cudaStream_t before;
    cudaStream_t after;
    uint32_t *buffer;
    uint32_t host[N];
    void *ticket = NULL;
    RIG_CHECK(rank, cudaStreamCreateWithFlags(&before, cudaStreamNonBlocking) == cudaSuccess);
    RIG_CHECK(rank, cudaStreamCreateWithFlags(&after, cudaStreamNonBlocking) == cudaSuccess);
    RIG_CHECK(rank, cudaMalloc((void **)&buffer, sizeof host) == cudaSuccess);
    for (uint32_t round = 0; round < 5; round++) {
        RIG_CHECK(rank, double_launch_fill(before, buffer, sizeof host,
                                           (uint8_t)(rank->rank + 1)) == cudaSuccess);
        RIG_CHECK(rank, rig_issue(rank, device_sum(buffer, N, before), &ticket) == MR_OK);
        RIG_CHECK(rank, rank->calls->wait(rank->engine, ticket, after, &rank->error) == MR_OK);
        rank->calls->drop(rank->engine, ticket);
        RIG_CHECK(rank, cudaMemcpyAsync(host, buffer, sizeof host, cudaMemcpyDeviceToHost, after) ==
                            cudaSuccess);
        RIG_CHECK(rank, cudaStreamSynchronize(after) == cudaSuccess);
        RIG_CHECK(rank, host[0] == 6 * each && host[N - 1] == 6 * each);
    }
    cudaStreamDestroy(before);
    cudaStreamDestroy(after);
    cudaFree(buffer);
}

static void a_collective_is_ordered_between_two_streams(void **state)
{
    (void)state;
    run_with_policies(3, fill_sum_and_read);
}

static void use_host_memory(struct rig_rank *rank)
{
    uint32_t n = rank->setup.world_size;
    double sum[2] = {rank->rank, 1};
    int32_t gathered[RIG_RANKS * 2] = {0};
    int32_t own[2] = {(int32_t)rank->rank, 7};
    int64_t root = rank->rank == 1 ? 99 : 0;
    float mean = (float)rank->rank;
    RIG_CHECK(rank, rig_call(rank, rig_sum(sum, 2)) == MR_OK);
    RIG_CHECK(rank, sum[0] == n * (n - 1) / 2.0 && sum[1] == n);
    struct mr_collective c = {.kind = MR_COLLECTIVE_ALL_GATHER,
                              .in = own,
                              .out = gathered,
                              .count = 2,
                              .dtype = MR_I32,
                              .on_host = true};
    RIG_CHECK(rank, rig_call(rank, c) == MR_OK);
    for (uint32_t i = 0; i < n; i++)
        RIG_CHECK(rank, gathered[2 * i] == (int32_t)i && gathered[2 * i + 1] == 7);
    c = (struct mr_collective){.kind = MR_COLLECTIVE_BROADCAST,
                               .root = 1,
                               .in = &root,
                               .out = &root,
                               .count = 1,
                               .dtype = MR_I64,
                               .on_host = true};
    RIG_CHECK(rank, rig_call(rank, c) == MR_OK && root == 99);
    c = rig_sum((double *)(void *)&mean, 1);
    c.dtype = MR_F32;
    c.op = MR_MEAN;
    RIG_CHECK(rank, rig_call(rank, c) == MR_OK && mean == (float)(n - 1) / 2);
    c = (struct mr_collective){.kind = MR_COLLECTIVE_REDUCE_SCATTER,
                               .in = gathered,
                               .out = own,
                               .count = 2,
                               .dtype = MR_I32,
                               .op = MR_MAX,
                               .on_host = true};
    RIG_CHECK(rank, rig_call(rank, c) == MR_OK && own[0] == (int32_t)rank->rank && own[1] == 7);
    c = (struct mr_collective){.kind = MR_COLLECTIVE_BARRIER, .dtype = MR_F32};
    RIG_CHECK(rank, rig_call(rank, c) == MR_OK);
    c = rig_sum(sum, 2);
    c.count = ((size_t)1 << 20) / sizeof(double) + 1;
    RIG_CHECK(rank, rig_call(rank, c) == MR_ERR_INVALID && strstr(rank->error.text, "1 MiB"));
}

static void a_few_numbers_of_the_host_are_staged(void **state)
{
    (void)state;
    run_with_policies(4, use_host_memory);
}

enum { STREAMS = 11, NAMES = 3, ROUNDS = 4 };

/*
 * Rounds of adds from more streams than slots. Each round begins before the reduction of the last
 * one is waited for.
 */
static void add_and_take(struct rig_rank *rank)
{
    cudaStream_t streams[STREAMS];
    void *tickets[ROUNDS];
    double results[ROUNDS][2 * NAMES];
    void *sums = NULL;
    float *values;
    float host[STREAMS];
    for (uint32_t i = 0; i < STREAMS; i++) {
        host[i] = (float)(1 + i + 100 * rank->rank);
        RIG_CHECK(rank,
                  cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking) == cudaSuccess);
    }
    RIG_CHECK(rank, cudaMalloc((void **)&values, sizeof host) == cudaSuccess);
    RIG_CHECK(rank, cudaMemcpy(values, host, sizeof host, cudaMemcpyHostToDevice) == cudaSuccess);
    RIG_CHECK(rank,
              rank->calls->sums_create(rank->engine, 2 * NAMES, &sums, &rank->error) == MR_OK);
    for (uint32_t round = 0; round < ROUNDS; round++) {
        for (uint32_t i = 0; i < STREAMS; i++)
            for (uint32_t name = 0; name < NAMES; name++)
                RIG_CHECK(rank, rank->calls->sums_add(
                                    rank->engine, sums, 2 * name, values + i, MR_F32, name + 0.5,
                                    streams[(i + name) % STREAMS], &rank->error) == MR_OK);
        for (uint32_t i = 0; i < 2 * NAMES; i++)
            results[round][i] = 1000;
        struct mr_collective c = rig_sum(results[round], 2 * NAMES);
        c.sums = sums;
        RIG_CHECK(rank, rig_issue(rank, c, &tickets[round]) == MR_OK);
    }
    double total = 0;
    for (uint32_t r = 0; r < rank->setup.world_size; r++)
        for (uint32_t i = 0; i < STREAMS; i++)
            total += 1 + i + 100 * r;
    for (uint32_t round = 0; round < ROUNDS; round++) {
        RIG_CHECK(rank, rig_poll(rank, tickets[round]) == MR_OK);
        rank->calls->drop(rank->engine, tickets[round]);
        for (uint32_t name = 0; name < NAMES; name++) {
            RIG_CHECK(rank, results[round][2 * name] == total + 1000 * rank->setup.world_size);
            RIG_CHECK(rank, results[round][2 * name + 1] ==
                                (STREAMS * (name + 0.5) + 1000) * rank->setup.world_size);
        }
    }
    rank->calls->sums_destroy(rank->engine, sums);
    for (uint32_t i = 0; i < STREAMS; i++)
        cudaStreamDestroy(streams[i]);
    cudaFree(values);
}

static void sums_on_the_device_are_ordered_and_exact(void **state)
{
    (void)state;
    run_with_policies(2, add_and_take);
}

static bool passes(cudaStream_t stream)
{
    uint64_t end_ms = rig_now_ms() + 3000;
    while (cudaStreamQuery(stream) == cudaErrorNotReady && rig_now_ms() < end_ms)
        mr_clock_sleep_ms(1);
    return cudaStreamQuery(stream) == cudaSuccess;
}

/*
 * Rank 1 is late, so rank 0's reduction is queued after a collective that does not end. Rank 0's
 * next add does not wait for it.
 */
static void add_meanwhile(struct rig_rank *rank)
{
    void *sums = NULL;
    void *tickets[2];
    cudaStream_t stream;
    double *value;
    double plain = 1;
    double result[2] = {0, 0};
    struct mr_collective c = rig_sum(result, 2);
    RIG_CHECK(rank, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    RIG_CHECK(rank, cudaMalloc((void **)&value, sizeof *value) == cudaSuccess);
    RIG_CHECK(rank, cudaMemsetAsync(value, 0, sizeof *value, stream) == cudaSuccess);
    RIG_CHECK(rank, rank->calls->sums_create(rank->engine, 2, &sums, &rank->error) == MR_OK);
    RIG_CHECK(rank, rank->calls->sums_add(rank->engine, sums, 0, value, MR_F64, 1, stream,
                                          &rank->error) == MR_OK);
    if (rank->rank == 1)
        pthread_barrier_wait(rank->arg);
    c.sums = sums;
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&plain, 1), &tickets[0]) == MR_OK);
    RIG_CHECK(rank, rig_issue(rank, c, &tickets[1]) == MR_OK);
    RIG_CHECK(rank, rank->calls->sums_add(rank->engine, sums, 0, value, MR_F64, 5, stream,
                                          &rank->error) == MR_OK);
    if (rank->rank == 0) {
        RIG_CHECK(rank, passes(stream));
        RIG_CHECK(rank, rank->calls->test(rank->engine, tickets[1], &rank->error) == MR_PENDING);
        pthread_barrier_wait(rank->arg);
    }
    for (int i = 0; i < 2; i++) {
        RIG_CHECK(rank, rig_poll(rank, tickets[i]) == MR_OK);
        rank->calls->drop(rank->engine, tickets[i]);
    }
    RIG_CHECK(rank, plain == 2 && result[1] == 2);
    rank->calls->sums_destroy(rank->engine, sums);
    RIG_CHECK(rank, cudaStreamSynchronize(stream) == cudaSuccess);
    cudaStreamDestroy(stream);
    cudaFree(value);
}

static void an_add_does_not_wait_for_the_reduction_before_it(void **state)
{
    (void)state;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    rig_open(2, DOUBLE_EARLY);
    rig_engines(2, add_meanwhile, &barrier);
    rig_close();
    pthread_barrier_destroy(&barrier);
}

static void begin_again(struct rig_rank *rank)
{
    void *sums = NULL;
    void *again = NULL;
    double *value;
    double result[2] = {0, 0};
    const double seven = 7;
    RIG_CHECK(rank, cudaMalloc((void **)&value, sizeof *value) == cudaSuccess);
    RIG_CHECK(rank, cudaMemcpy(value, &seven, sizeof seven, cudaMemcpyHostToDevice) == cudaSuccess);
    RIG_CHECK(rank, rank->calls->sums_create(rank->engine, 2, &sums, &rank->error) == MR_OK);
    RIG_CHECK(rank, rank->calls->sums_add(rank->engine, sums, 0, value, MR_F64, 1, NULL,
                                          &rank->error) == MR_OK);
    RIG_CHECK(rank, rank->calls->sums_add(rank->engine, sums, 1, value, MR_F64, 1, NULL,
                                          &rank->error) == MR_ERR_INVALID);
    rank->calls->sums_destroy(rank->engine, sums);
    RIG_CHECK(rank, rank->calls->sums_create(rank->engine, 2, &again, &rank->error) == MR_OK);
    RIG_CHECK(rank, again == sums);
    RIG_CHECK(rank, rank->calls->sums_add(rank->engine, again, 0, value, MR_F64, 3, NULL,
                                          &rank->error) == MR_OK);
    struct mr_collective c = rig_sum(result, 2);
    c.sums = again;
    RIG_CHECK(rank, rig_call(rank, c) == MR_OK);
    RIG_CHECK(rank, result[0] == 14 && result[1] == 6);
    c.op = MR_MAX;
    RIG_CHECK(rank, rig_call(rank, c) == MR_ERR_INVALID);
    rank->calls->sums_destroy(rank->engine, again);
    cudaFree(value);
}

static void reused_sums_begin_at_zero(void **state)
{
    (void)state;
    run_with_policies(2, begin_again);
}

static void repeat(struct rig_rank *rank)
{
    double sum[2] = {1, 2};
    void *buffer;
    void *ticket;
    RIG_CHECK(rank, cudaMalloc(&buffer, 64) == cudaSuccess);
    RIG_CHECK(rank, cudaMemset(buffer, 0, 64) == cudaSuccess);
    for (uint32_t i = 0; i < 20; i++) {
        struct double_counts counts = double_count(double_thread());
        RIG_CHECK(rank, rig_call(rank, rig_sum(sum, 2)) == MR_OK);
        RIG_CHECK(rank, rig_issue(rank, device_sum(buffer, 16, NULL), &ticket) == MR_OK);
        RIG_CHECK(rank, rig_poll(rank, ticket) == MR_OK);
        rank->calls->drop(rank->engine, ticket);
        struct double_counts now = double_count(double_thread());
        RIG_CHECK(rank, i < 2 || now.allocations == counts.allocations);
        RIG_CHECK(rank, now.blocking == counts.blocking);
    }
    cudaFree(buffer);
}

static void after_the_first_step_nothing_is_allocated_and_nothing_blocks(void **state)
{
    (void)state;
    run_with_policies(2, repeat);
}

static void keep_device_and_error(struct rig_rank *rank)
{
    int device = -1;
    double sum = 1;
    void *ticket = NULL;
    RIG_CHECK(rank, cudaSetDevice(2) == cudaSuccess);
    /* an error that the caller has made */
    RIG_CHECK(rank, cudaFree((void *)(uintptr_t)64) != cudaSuccess);
    cudaError_t pending = cudaPeekAtLastError();
    RIG_CHECK(rank, pending != cudaSuccess);
    double_forget();
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&sum, 1), &ticket) == MR_OK);
    RIG_CHECK(rank, cudaGetLastError() == pending);
    RIG_CHECK(rank, rig_poll(rank, ticket) == MR_OK && sum == 2);
    RIG_CHECK(rank, cudaPeekAtLastError() == cudaSuccess);
    rank->calls->drop(rank->engine, ticket);
    RIG_CHECK(rank, cudaGetDevice(&device) == cudaSuccess && device == 2);
}

static void use_a_stream_of_another_device(struct rig_rank *rank)
{
    cudaStream_t stream = NULL;
    void *buffer;
    void *ticket = NULL;
    RIG_CHECK(rank, cudaMalloc(&buffer, 64) == cudaSuccess);
    RIG_CHECK(rank, cudaSetDevice(1) == cudaSuccess && cudaStreamCreate(&stream) == cudaSuccess);
    RIG_CHECK(rank, rig_issue(rank, device_sum(buffer, 16, stream), &ticket) == MR_ERR_INVALID &&
                        !ticket);
    RIG_CHECK(rank, strstr(rank->error.text, "the stream is not one of cuda:0"));
    RIG_CHECK(rank, cudaGetLastError() == cudaSuccess);
    double_forget(); /* the double reports it too */
    RIG_CHECK(rank, rig_call(rank, device_sum(buffer, 16, NULL)) == MR_OK);
    RIG_CHECK(rank, cudaStreamDestroy(stream) == cudaSuccess && cudaFree(buffer) == cudaSuccess);
}

static void a_stream_of_another_device_is_refused(void **state)
{
    (void)state;
    rig_open(2, DOUBLE_EARLY);
    rig_engines(1, use_a_stream_of_another_device, NULL);
    rig_close();
}

static void the_callers_device_and_last_error_do_not_change(void **state)
{
    (void)state;
    rig_open(3, DOUBLE_EARLY);
    rig_engines(2, keep_device_and_error, NULL);
    rig_close();
}

static void refuse_capture(struct rig_rank *rank)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    void *buffer;
    void *ticket = NULL;
    void *sums = NULL;
    double one = 1;
    RIG_CHECK(rank, cudaMalloc(&buffer, 64) == cudaSuccess);
    RIG_CHECK(rank, cudaMemset(buffer, 0, 64) == cudaSuccess);
    RIG_CHECK(rank, cudaDeviceSynchronize() == cudaSuccess);
    RIG_CHECK(rank, rank->calls->sums_create(rank->engine, 2, &sums, &rank->error) == MR_OK);
    RIG_CHECK(rank, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    RIG_CHECK(rank, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    RIG_CHECK(rank, rig_issue(rank, device_sum(buffer, 16, stream), &ticket) == MR_ERR_STATE);
    RIG_CHECK(rank, strstr(rank->error.text, "captured") && !ticket);
    RIG_CHECK(rank, rank->calls->sums_add(rank->engine, sums, 0, buffer, MR_F64, 1, stream,
                                          &rank->error) == MR_ERR_STATE);
    /* errors inside the library do not change it */
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&one, 1), &ticket) == MR_OK);
    RIG_CHECK(rank, rank->calls->wait(rank->engine, ticket, stream, &rank->error) == MR_ERR_STATE);
    RIG_CHECK(rank, rig_poll(rank, ticket) == MR_OK);
    rank->calls->drop(rank->engine, ticket);
    RIG_CHECK(rank, cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    RIG_CHECK(rank, cudaGraphDestroy(graph) == cudaSuccess);
    RIG_CHECK(rank, rig_call(rank, device_sum(buffer, 16, stream)) == MR_OK);
    rank->calls->sums_destroy(rank->engine, sums);
    cudaStreamDestroy(stream);
    cudaFree(buffer);
}

static void a_stream_that_is_captured_is_refused_and_stays_captured(void **state)
{
    (void)state;
    /* the strictest capture: other threads must not even allocate */
    run_with_policies(1, refuse_capture);
}

static void *watch(void *arg)
{
    struct rig_rank *rank = ((void **)arg)[0];
    void *ticket = ((void **)arg)[1];
    mr_error error;
    /* not known as the watch's thread yet */
    RIG_CHECK(rank, rank->calls->test(rank->engine, ticket, &error) == MR_PENDING);
    RIG_CHECK(rank, rank->calls->health(rank->engine, &error) == MR_OK);
    while (rank->calls->test(rank->engine, ticket, &error) == MR_PENDING)
        mr_clock_sleep_ms(1);
    RIG_CHECK(rank, rank->calls->test(rank->engine, ticket, &error) == MR_OK);
    return NULL;
}

/* The caller chooses its device only after it has joined. */
static void touch_one_device(struct rig_rank *rank)
{
    double sum = 3;
    void *of_watch[2] = {rank};
    pthread_t thread;
    rank->setup.device = "cuda:1";
    RIG_CHECK(rank, rig_create(rank) == MR_OK);
    RIG_CHECK(rank, cudaSetDevice(1) == cudaSuccess);
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&sum, 1), &of_watch[1]) == MR_OK);
    RIG_CHECK(rank, pthread_create(&thread, NULL, watch, of_watch) == 0);
    pthread_join(thread, NULL);
    RIG_CHECK(rank, sum == 3);
    rank->calls->drop(rank->engine, of_watch[1]);
    rig_destroy(rank, true);
    RIG_CHECK(rank, double_has_context(1) && !double_has_context(0));
}

static void no_other_device_gets_a_context(void **state)
{
    (void)state;
    rig_open(2, DOUBLE_EARLY);
    rig_threads(1, touch_one_device, NULL);
    rig_close();
}

/* A capture that would include the default stream. */
static void refuse_default_stream(struct rig_rank *rank)
{
    cudaStream_t stream;
    cudaGraph_t graph;
    void *buffer;
    RIG_CHECK(rank, cudaMalloc(&buffer, 64) == cudaSuccess);
    RIG_CHECK(rank, cudaStreamCreate(&stream) == cudaSuccess);
    RIG_CHECK(rank, cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal) == cudaSuccess);
    RIG_CHECK(rank, rig_call(rank, device_sum(buffer, 16, NULL)) == MR_ERR_STATE);
    RIG_CHECK(rank, cudaStreamEndCapture(stream, &graph) == cudaSuccess);
    RIG_CHECK(rank, cudaGraphDestroy(graph) == cudaSuccess);
    cudaStreamDestroy(stream);
    cudaFree(buffer);
}

static void the_default_stream_is_refused_while_another_is_captured(void **state)
{
    (void)state;
    run_with_policies(1, refuse_default_stream);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_collective_is_ordered_between_two_streams),
        cmocka_unit_test(a_few_numbers_of_the_host_are_staged),
        cmocka_unit_test(sums_on_the_device_are_ordered_and_exact),
        cmocka_unit_test(an_add_does_not_wait_for_the_reduction_before_it),
        cmocka_unit_test(reused_sums_begin_at_zero),
        cmocka_unit_test(after_the_first_step_nothing_is_allocated_and_nothing_blocks),
        cmocka_unit_test(a_stream_of_another_device_is_refused),
        cmocka_unit_test(the_callers_device_and_last_error_do_not_change),
        cmocka_unit_test(a_stream_that_is_captured_is_refused_and_stays_captured),
        cmocka_unit_test(no_other_device_gets_a_context),
        cmocka_unit_test(the_default_stream_is_refused_while_another_is_captured),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
