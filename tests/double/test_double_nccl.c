/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The double of NCCL by itself: ranks are threads of one process, each with its own fake device.
 * Failed checks of ranks are counted, because cmocka's assertions belong to the main thread.
 */
#include "tests/double/nccl_double.h"
#include "tests/double/double_fixture.h"

#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

enum { RANKS = 4, N = 1000 };

struct rank {
    pthread_t thread;
    int rank, n;
    bool nonblocking;
    ncclUniqueId id;
    void (*f)(struct rank *rank);
    ncclComm_t comm;
    cudaStream_t stream;
    float *in, *out; /* N * RANKS elements on the device */
};

static atomic_uint n_wrong;

static void check(bool holds, const struct rank *rank, int line, const char *text)
{
    if (holds)
        return;
    atomic_fetch_add(&n_wrong, 1);
    (void)fprintf(stderr, "line %d: rank %d: %s does not hold\n", line, rank->rank, text);
}
#define CHECK(rank, condition) check(condition, rank, __LINE__, #condition)

static void rest_ms(unsigned ms)
{
    nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000L}, NULL);
}

/* Wait until the call is no longer in progress; at most 20 s. */
static ncclResult_t settle(ncclComm_t comm)
{
    ncclResult_t result = ncclInProgress;
    for (int i = 0; i < 20000 && result == ncclInProgress; i++) {
        if (ncclCommGetAsyncError(comm, &result) != ncclSuccess)
            return ncclInternalError;
        if (result == ncclInProgress)
            rest_ms(1);
    }
    return result;
}

static void *run_rank(void *arg)
{
    struct rank *rank = arg;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    config.blocking = !rank->nonblocking;
    CHECK(rank, cudaSetDevice(rank->rank) == cudaSuccess);
    CHECK(rank, cudaStreamCreateWithFlags(&rank->stream, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(rank, cudaMalloc((void **)&rank->in, N * RANKS * sizeof(float)) == cudaSuccess);
    CHECK(rank, cudaMalloc((void **)&rank->out, N * RANKS * sizeof(float)) == cudaSuccess);
    ncclResult_t made = ncclCommInitRankConfig(&rank->comm, rank->n, rank->id, rank->rank, &config);
    CHECK(rank, made == (rank->nonblocking ? ncclInProgress : ncclSuccess));
    CHECK(rank, settle(rank->comm) == ncclSuccess);
    rank->f(rank);
    CHECK(rank, !rank->comm || ncclCommDestroy(rank->comm) == ncclSuccess);
    CHECK(rank, cudaStreamSynchronize(rank->stream) == cudaSuccess);
    CHECK(rank, cudaFree(rank->in) == cudaSuccess && cudaFree(rank->out) == cudaSuccess);
    CHECK(rank, cudaStreamDestroy(rank->stream) == cudaSuccess);
    return NULL;
}

static void run(int n, bool nonblocking, void (*f)(struct rank *rank))
{
    struct rank ranks[RANKS];
    ncclUniqueId id;
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    atomic_store(&n_wrong, 0);
    for (int i = 0; i < n; i++) {
        ranks[i] = (struct rank){.rank = i, .n = n, .nonblocking = nonblocking, .id = id, .f = f};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, run_rank, &ranks[i]), 0);
    }
    for (int i = 0; i < n; i++)
        pthread_join(ranks[i].thread, NULL);
    assert_int_equal(atomic_load(&n_wrong), 0);
    assert_int_equal(double_nccl_n_comms(), 0);
}

static void open_with(enum double_policy policy, const struct double_nccl_options *options)
{
    struct double_options machine = {.policy = policy, .seed = 7, .n_devices = RANKS};
    double_open(&machine);
    double_nccl_set(options);
}

static void close_with(uint32_t n_misuses)
{
    uint32_t n = double_close();
    if (n != n_misuses || double_found(DOUBLE_MISUSE) != n_misuses)
        fail_msg("%u found: %s", n, double_report());
}

static void fill(struct rank *rank, float value)
{
    static _Thread_local float values[N * RANKS];
    for (int i = 0; i < N * RANKS; i++)
        values[i] = value + (float)(i % N);
    CHECK(rank, cudaMemcpyAsync(rank->in, values, sizeof values, cudaMemcpyHostToDevice,
                                rank->stream) == cudaSuccess);
}

/* Check that the n floats from element on are (value + i modulo N) times factor. */
static void expect(struct rank *rank, int n, float value, float factor)
{
    static _Thread_local float values[N * RANKS];
    CHECK(rank, cudaMemcpyAsync(values, rank->out, sizeof values, cudaMemcpyDeviceToHost,
                                rank->stream) == cudaSuccess);
    CHECK(rank, cudaStreamSynchronize(rank->stream) == cudaSuccess);
    for (int i = 0; i < n; i++)
        if (values[i] != (value + (float)(i % N)) * factor) {
            check(false, rank, i, "a value");
            return;
        }
}

/* Finish a call that may run_rank in progress: after this its operation is in the stream. */
static void done(struct rank *rank, ncclResult_t result, int line)
{
    check(result == ncclSuccess || result == ncclInProgress, rank, line, "a call");
    check(settle(rank->comm) == ncclSuccess, rank, line, "its end");
}
#define DONE(rank, call) done(rank, call, __LINE__)

static void call_all(struct rank *r)
{
    float n = (float)r->n, mean = (n - 1) / 2;
    int last = r->n - 1, next = (r->rank + 1) % r->n, previous = (r->rank + r->n - 1) % r->n;
    fill(r, (float)r->rank);
    DONE(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream));
    expect(r, N, mean, n);
    DONE(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclAvg, r->comm, r->stream));
    expect(r, N, mean, 1);
    DONE(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclMax, r->comm, r->stream));
    expect(r, N, (float)last, 1);
    DONE(r, ncclReduce(r->in, r->out, N, ncclFloat32, ncclMin, last, r->comm, r->stream));
    expect(r, r->rank == last ? N : 0, 0, 1);
    DONE(r, ncclBroadcast(r->in, r->out, N, ncclFloat32, last, r->comm, r->stream));
    expect(r, N, (float)last, 1);
    DONE(r, ncclReduceScatter(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream));
    expect(r, N, mean, n);
    DONE(r, ncclAllGather(r->in, r->out, N, ncclFloat32, r->comm, r->stream));
    expect(r, N, 0, 1);
    DONE(r, ncclAllReduce(r->in, r->out, 0, ncclFloat32, ncclSum, r->comm, r->stream));
    CHECK(r, ncclGroupStart() == ncclSuccess);
    CHECK(r, ncclSend(r->in, N, ncclFloat32, next, r->comm, r->stream) == ncclSuccess);
    CHECK(r, ncclRecv(r->out, N, ncclFloat32, previous, r->comm, r->stream) == ncclSuccess);
    CHECK(r, ncclGroupEnd() == ncclSuccess);
    expect(r, N, (float)previous, 1);
}

static void all_operations_give_what_nccl_gives(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        for (int n = 1; n <= RANKS; n++) {
            open_with((enum double_policy)policy, &(struct double_nccl_options){.delay_us = 300});
            run(n, false, call_all);
            close_with(0);
        }
    }
}

static void a_nonblocking_communicator_is_in_progress_for_a_while(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        open_with((enum double_policy)policy, &(struct double_nccl_options){.progress_us = 2000});
        run(3, true, call_all);
        close_with(0);
    }
}

static void call_too_early(struct rank *r)
{
    ncclResult_t result = ncclSuccess;
    for (int i = 0; i < 200 && result == ncclSuccess; i++)
        result = ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream);
    CHECK(r, result == ncclInProgress);
    CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream) ==
                 ncclInvalidArgument);
    CHECK(r, settle(r->comm) == ncclSuccess);
}

static void a_call_while_another_is_in_progress_is_reported(void **state)
{
    (void)state;
    open_with(DOUBLE_EARLY, &(struct double_nccl_options){.progress_us = 100000, .seed = 5});
    run(2, true, call_too_early);
    close_with(2);
}

/* The other rank comes late: meanwhile the host is free, and the stream's event has not ended. */
static void come_late(struct rank *r)
{
    cudaEvent_t event;
    fill(r, 1);
    CHECK(r, cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
    if (r->rank == 1)
        rest_ms(100);
    CHECK(r,
          ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclSuccess);
    CHECK(r, cudaEventRecord(event, r->stream) == cudaSuccess);
    for (int i = 0; i < 200 && r->rank == 0; i++)
        CHECK(r, cudaEventQuery(event) == cudaErrorNotReady);
    CHECK(r, cudaEventSynchronize(event) == cudaSuccess);
    expect(r, N, 1, 2);
    CHECK(r, cudaEventDestroy(event) == cudaSuccess);
}

static void an_operation_waits_in_its_stream_and_the_host_is_free(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        open_with((enum double_policy)policy, NULL);
        run(2, false, come_late);
        close_with(0);
    }
}

/*
 * Without a wait between the two streams, and with the input written before the operation has
 * ended.
 */
static void forget_to_wait(struct rank *r)
{
    cudaStream_t other;
    CHECK(r, cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(r,
          ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclSuccess);
    CHECK(r, double_launch_read(other, r->out, N, NULL, NULL) == cudaSuccess);
    CHECK(r, double_launch_fill(other, r->in, N, 0) == cudaSuccess);
    CHECK(r,
          cudaStreamSynchronize(other) == cudaSuccess && cudaStreamDestroy(other) == cudaSuccess);
}

static void a_stream_that_does_not_wait_is_reported(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        open_with((enum double_policy)policy, NULL);
        run(1, false, forget_to_wait);
        (void)double_close();
        assert_true(double_found(DOUBLE_UNORDERED) >= 2);
        assert_int_equal(double_found(DOUBLE_MISUSE), 0);
    }
}

/* The other rank never comes; what follows in the stream runs after the abort. */
static void abort_one(struct rank *r)
{
    ncclResult_t error;
    ncclComm_t comm = r->comm;
    if (r->rank == 0) {
        CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, comm, r->stream) ==
                     ncclSuccess);
        CHECK(r, cudaStreamQuery(r->stream) == cudaErrorNotReady);
        rest_ms(50);
        CHECK(r, cudaStreamQuery(r->stream) == cudaErrorNotReady);
    }
    CHECK(r, ncclCommAbort(comm) == ncclSuccess);
    CHECK(r, cudaStreamSynchronize(r->stream) == cudaSuccess);
    if (r->rank == 0) {
        CHECK(r, ncclCommGetAsyncError(comm, &error) == ncclInvalidArgument);
        CHECK(r, ncclCommAbort(comm) == ncclInvalidArgument);
        CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, comm, r->stream) ==
                     ncclInvalidArgument);
    }
    r->comm = NULL;
}

static void an_abort_ends_what_hangs_and_later_use_is_reported(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        open_with((enum double_policy)policy, &(struct double_nccl_options){.silent = true});
        run(2, false, abort_one);
        close_with(3);
    }
}

static void *open_gate_later(void *arg)
{
    rest_ms(100);
    atomic_store((atomic_bool *)arg, true);
    double_open_gate(0);
    return NULL;
}

/* Another stream of the device waits for a gate. */
static void abort_behind_a_gate(struct rank *r)
{
    atomic_bool is_open = false;
    pthread_t thread;
    cudaStream_t other;
    CHECK(r, cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(r, double_launch_gate(other, 0) == cudaSuccess);
    CHECK(r, double_launch_fill(other, r->in, N, 1) == cudaSuccess);
    CHECK(r, pthread_create(&thread, NULL, open_gate_later, &is_open) == 0);
    CHECK(r, ncclCommAbort(r->comm) == ncclSuccess);
    CHECK(r, atomic_load(&is_open));
    r->comm = NULL;
    pthread_join(thread, NULL);
    CHECK(r, cudaStreamDestroy(other) == cudaSuccess);
}

/* Only the abort has waited for the other stream, so freeing what that stream wrote is reported. */
static void an_abort_waits_for_the_device_and_orders_nothing(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        open_with((enum double_policy)policy, NULL);
        run(1, false, abort_behind_a_gate);
        (void)double_close();
        assert_int_equal(double_found(DOUBLE_UNORDERED), 1);
        assert_int_equal(double_found(DOUBLE_MISUSE), 0);
    }
}

/* In place there is nothing to do, and no operation is issued; a mean of floats still writes. */
static void call_alone(struct rank *r)
{
    struct double_counts before = double_count(DOUBLE_ALL_THREADS), after;
    CHECK(r, ncclGroupStart() == ncclSuccess);
    CHECK(r,
          ncclAllReduce(r->in, r->in, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclSuccess);
    CHECK(r, ncclBroadcast(r->in, r->in, N, ncclInt32, 0, r->comm, r->stream) == ncclSuccess);
    after = double_count(DOUBLE_ALL_THREADS);
    CHECK(r, after.copies == before.copies && after.kernels == before.kernels);
    CHECK(r, ncclAllGather(r->in, r->out, N, ncclFloat32, r->comm, r->stream) == ncclSuccess);
    CHECK(r,
          ncclAllReduce(r->in, r->in, N, ncclFloat32, ncclAvg, r->comm, r->stream) == ncclSuccess);
    after = double_count(DOUBLE_ALL_THREADS); /* not only at the group's end */
    CHECK(r, after.copies == before.copies + 2 && after.kernels == before.kernels);
    CHECK(r, ncclGroupEnd() == ncclSuccess);
    CHECK(r, cudaStreamSynchronize(r->stream) == cudaSuccess);
}

static void one_rank_copies_or_does_nothing(void **state)
{
    (void)state;
    struct double_nccl_options options = {
        .progress_us = 100000, .hang = "all_gather", .hang_at = 1};
    open_with(DOUBLE_LATE, &options);
    run(1, true, call_alone);
    close_with(0);
}

/* Wait until the communicator has this error; at most 10 s. */
static bool comes_to(ncclComm_t comm, ncclResult_t error)
{
    ncclResult_t now = ncclSuccess;
    for (int i = 0; i < 10000 && now != error; i++) {
        if (ncclCommGetAsyncError(comm, &now) != ncclSuccess)
            return false;
        rest_ms(now != error);
    }
    return now == error;
}

static void lose_the_last(struct rank *r)
{
    if (r->rank == r->n - 1) {
        CHECK(r, ncclCommAbort(r->comm) == ncclSuccess);
        r->comm = NULL;
        return;
    }
    CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream) !=
                 ncclInvalidArgument);
    CHECK(r, comes_to(r->comm, ncclRemoteError));
    CHECK(r, strstr(ncclGetLastError(r->comm), "rank 2 is gone") != NULL);
    CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream) ==
                 ncclRemoteError);
    CHECK(r, ncclCommAbort(r->comm) == ncclSuccess);
    r->comm = NULL;
}

static void a_rank_that_disconnects_is_noticed(void **state)
{
    (void)state;
    open_with(DOUBLE_EARLY, NULL);
    run(3, false, lose_the_last);
    close_with(0);
}

static void meet_errors(struct rank *r)
{
    CHECK(r,
          ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream) == ncclSuccess);
    ncclResult_t second = ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream);
    CHECK(r, second == (r->rank == 1 ? ncclSystemError : ncclSuccess));
    CHECK(r, r->rank != 1 || ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm,
                                           r->stream) == ncclSuccess);
    CHECK(r, cudaStreamSynchronize(r->stream) == cudaSuccess);
    CHECK(r, ncclBroadcast(r->in, r->out, N, ncclFloat32, 0, r->comm, r->stream) == ncclSuccess);
    CHECK(r, r->rank != 1 || comes_to(r->comm, ncclUnhandledCudaError));
    rest_ms(50);
    CHECK(r, cudaStreamQuery(r->stream) == cudaErrorNotReady);
    CHECK(r, ncclCommAbort(r->comm) == ncclSuccess);
    r->comm = NULL;
}

static void errors_come_where_they_were_requested(void **state)
{
    (void)state;
    struct double_nccl_options options = {.only_rank = 2,
                                          .fail = "AllReduce",
                                          .fail_at = 2,
                                          .fail_with = ncclSystemError,
                                          .async_after = 2,
                                          .async = ncclUnhandledCudaError,
                                          .silent = true};
    open_with(DOUBLE_EARLY, &options);
    run(2, false, meet_errors);
    assert_int_equal(double_nccl_n_failed(), 2);
    close_with(0);
}

static void hang_at_the_second(struct rank *r)
{
    for (int i = 0; i < 2; i++)
        CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, r->stream) ==
                     ncclSuccess);
    rest_ms(50);
    CHECK(r, cudaStreamQuery(r->stream) == cudaErrorNotReady);
    CHECK(r, ncclCommAbort(r->comm) == ncclSuccess);
    r->comm = NULL;
}

static void differ(struct rank *r)
{
    size_t n = r->rank == 0 ? N : N - 1;
    CHECK(r,
          ncclAllReduce(r->in, r->out, n, ncclFloat32, ncclSum, r->comm, r->stream) == ncclSuccess);
    rest_ms(50);
    CHECK(r, cudaStreamQuery(r->stream) == cudaErrorNotReady);
    CHECK(r, ncclCommAbort(r->comm) == ncclSuccess);
    r->comm = NULL;
}

static void one_that_hangs_and_ranks_that_differ_hang_all(void **state)
{
    (void)state;
    struct double_nccl_options options = {
        .only_rank = 1, .hang = "all_reduce", .hang_at = 2, .silent = true};
    open_with(DOUBLE_EARLY, &options);
    run(2, false, hang_at_the_second);
    close_with(0);
    open_with(DOUBLE_EARLY, &(struct double_nccl_options){.silent = true});
    run(2, false, differ);
    close_with(0);
}

/* The first rank leaves at once; the others exchange a message. */
static void leave_one_by_one(struct rank *r)
{
    fill(r, (float)r->rank);
    DONE(r, ncclBroadcast(r->in, r->out, N, ncclFloat32, 0, r->comm, r->stream));
    if (r->rank == 0)
        return;
    rest_ms(30);
    if (r->rank == 1)
        DONE(r, ncclSend(r->in, N, ncclFloat32, 2, r->comm, r->stream));
    else
        DONE(r, ncclRecv(r->out, N, ncclFloat32, 1, r->comm, r->stream));
    expect(r, r->rank == 2 ? N : 0, 1, 1);
}

static uint32_t entries(const char *path)
{
    uint32_t n = 0;
    DIR *folder = opendir(path);
    assert_non_null(folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    return n;
}

static void nothing_is_left_of_ended_communicators(void **state)
{
    (void)state;
    uint32_t fds = entries("/proc/self/fd"), threads = entries("/proc/self/task");
    for (int i = 0; i < 20; i++) {
        open_with(DOUBLE_EARLY, NULL);
        run(3, i % 2 == 0, leave_one_by_one);
        close_with(0);
    }
    for (int i = 0; i < 2000 && entries("/proc/self/task") > threads; i++)
        rest_ms(10);
    assert_int_equal(entries("/proc/self/task"), threads);
    assert_int_equal(entries("/proc/self/fd"), fds);
}

static void *join_on_device_zero(void *arg)
{
    struct rank *rank = arg;
    CHECK(rank, cudaSetDevice(0) == cudaSuccess);
    ncclResult_t result = ncclCommInitRank(&rank->comm, 2, rank->id, rank->rank);
    CHECK(rank, result == ncclInvalidUsage);
    CHECK(rank, rank->comm == NULL);
    return NULL;
}

static void two_ranks_on_one_device_are_refused(void **state)
{
    (void)state;
    struct rank ranks[2];
    ncclUniqueId id;
    open_with(DOUBLE_EARLY, NULL);
    assert_int_equal(ncclGetUniqueId(&id), ncclSuccess);
    atomic_store(&n_wrong, 0);
    for (int i = 0; i < 2; i++) {
        ranks[i] = (struct rank){.rank = i, .id = id};
        assert_int_equal(pthread_create(&ranks[i].thread, NULL, join_on_device_zero, &ranks[i]), 0);
    }
    for (int i = 0; i < 2; i++)
        pthread_join(ranks[i].thread, NULL);
    assert_int_equal(atomic_load(&n_wrong), 0);
    close_with(0);
}

static void stray(struct rank *r)
{
    cudaStream_t captured, elsewhere;
    cudaGraph_t graph;
    CHECK(r, cudaStreamCreateWithFlags(&captured, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(r, cudaStreamBeginCapture(captured, cudaStreamCaptureModeThreadLocal) == cudaSuccess);
    CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, captured) ==
                 ncclInvalidArgument);
    CHECK(r, cudaStreamEndCapture(captured, &graph) == cudaSuccess &&
                 cudaGraphDestroy(graph) == cudaSuccess);
    CHECK(r, cudaSetDevice(1) == cudaSuccess);
    CHECK(r, cudaStreamCreateWithFlags(&elsewhere, cudaStreamNonBlocking) == cudaSuccess);
    CHECK(r, ncclAllReduce(r->in, r->out, N, ncclFloat32, ncclSum, r->comm, elsewhere) ==
                 ncclInvalidArgument);
    CHECK(r, cudaStreamDestroy(elsewhere) == cudaSuccess && cudaSetDevice(0) == cudaSuccess);
    CHECK(r, cudaStreamDestroy(captured) == cudaSuccess);
    CHECK(r, ncclAllReduce(r->in, r->out, RANKS * N + 1, ncclFloat32, ncclSum, r->comm,
                           r->stream) != ncclSuccess);
}

static void wrong_streams_and_memory_are_reported(void **state)
{
    (void)state;
    open_with(DOUBLE_EARLY, NULL);
    run(1, false, stray);
    close_with(3);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(all_operations_give_what_nccl_gives),
        cmocka_unit_test(a_nonblocking_communicator_is_in_progress_for_a_while),
        cmocka_unit_test(a_call_while_another_is_in_progress_is_reported),
        cmocka_unit_test(an_operation_waits_in_its_stream_and_the_host_is_free),
        cmocka_unit_test(a_stream_that_does_not_wait_is_reported),
        cmocka_unit_test(an_abort_ends_what_hangs_and_later_use_is_reported),
        cmocka_unit_test(an_abort_waits_for_the_device_and_orders_nothing),
        cmocka_unit_test(one_rank_copies_or_does_nothing),
        cmocka_unit_test(a_rank_that_disconnects_is_noticed),
        cmocka_unit_test(errors_come_where_they_were_requested),
        cmocka_unit_test(one_that_hangs_and_ranks_that_differ_hang_all),
        cmocka_unit_test(nothing_is_left_of_ended_communicators),
        cmocka_unit_test(two_ranks_on_one_device_are_refused),
        cmocka_unit_test(wrong_streams_and_memory_are_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
