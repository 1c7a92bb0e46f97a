/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How engines over nccl begin and end: refusals, absent ranks, errors, aborts, adopted
 * communicators.
 */
#include "tests/dist/nccl/nccl_rig.h"

#include "base/clock.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

static void *abort_engine(void *arg)
{
    struct rig_rank *rank = arg;
    mr_clock_sleep_ms(50);
    rank->calls->abort(rank->engine);
    return NULL;
}

/* Rank 1 stays away from the collective. */
static void wait_for_nobody(struct rig_rank *rank)
{
    pthread_t thread;
    double sum = 1;
    double more = 1;
    void *ticket = NULL;
    void *another = NULL;
    if (rank->rank == 1) {
        mr_clock_sleep_ms(200);
        rig_destroy(rank, false);
        return;
    }
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&sum, 1), &ticket) == MR_OK);
    RIG_CHECK(rank, rank->calls->test(rank->engine, ticket, &rank->error) == MR_PENDING);
    RIG_CHECK(rank, rank->calls->health(rank->engine, &rank->error) == MR_OK);
    RIG_CHECK(rank, pthread_create(&thread, NULL, abort_engine, rank) == 0);
    RIG_CHECK(rank, rig_poll(rank, ticket) == MR_ERR_CANCELED && sum == 1);
    pthread_join(thread, NULL);
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&more, 1), &another) == MR_ERR_CANCELED && !another);
    RIG_CHECK(rank, rank->calls->health(rank->engine, &rank->error) == MR_ERR_CANCELED);
    rank->calls->drop(rank->engine, ticket);
    uint64_t begin_ms = rig_now_ms();
    rig_destroy(rank, false);
    RIG_CHECK(rank, rig_now_ms() - begin_ms < 15000);
}

static void an_abort_ends_a_collective_under_way(void **state)
{
    (void)state;
    static const enum double_policy policies[] = {DOUBLE_LATE, DOUBLE_EARLY, DOUBLE_RANDOM};
    for (size_t i = 0; i < sizeof policies / sizeof *policies; i++) {
        rig_open(2, policies[i]);
        rig_engines(2, wait_for_nobody, NULL);
        rig_close();
    }
}

struct gate {
    pthread_t thread;
    /* otherwise it opens after LATE_MS, so that the test fails and does not hang */
    atomic_bool may_open;
    atomic_bool was_late;
};
enum { LATE_MS = 3000 };

static void *open_gate(void *arg)
{
    struct gate *gate = arg;
    uint64_t begin_ms = rig_now_ms();
    while (!atomic_load(&gate->may_open) && !atomic_load(&gate->was_late)) {
        mr_clock_sleep_ms(1);
        atomic_store(&gate->was_late, rig_now_ms() - begin_ms > LATE_MS);
    }
    double_open_gate(0);
    return NULL;
}

/*
 * Another stream of the device waits at a gate. NCCL's abort waits for that stream; a call in
 * progress does not.
 */
static void abort_a_call_in_progress(struct rig_rank *rank)
{
    struct gate gate = {.may_open = false};
    pthread_t thread;
    cudaStream_t stream;
    double sum = 1;
    void *ticket = NULL;
    RIG_CHECK(rank, cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
    if (rank->rank == 0)
        RIG_CHECK(rank, double_launch_gate(stream, 0) == cudaSuccess);
    RIG_CHECK(rank, rank->rank == 1 || pthread_create(&gate.thread, NULL, open_gate, &gate) == 0);
    RIG_CHECK(rank, pthread_create(&thread, NULL, abort_engine, rank) == 0);
    RIG_CHECK(rank, rig_issue(rank, rig_sum(&sum, 1), &ticket) == MR_ERR_CANCELED && !ticket);
    RIG_CHECK(rank, !atomic_load(&gate.was_late));
    pthread_join(thread, NULL);
    atomic_store(&gate.may_open, true);
    if (rank->rank == 0)
        pthread_join(gate.thread, NULL);
    rig_destroy(rank, false);
    RIG_CHECK(rank, cudaStreamSynchronize(stream) == cudaSuccess &&
                        cudaStreamDestroy(stream) == cudaSuccess);
}

static void an_abort_that_waits_delays_no_call_in_progress(void **state)
{
    (void)state;
    rig_open(2, DOUBLE_EARLY);
    /*
     * With this seed both ranks connect within 0.2 s, and their calls are in progress for over 3 s.
     */
    double_nccl_set(
        &(struct double_nccl_options){.seed = 3796, .progress_us = 4000000, .silent = true});
    rig_engines(2, abort_a_call_in_progress, NULL);
    rig_close();
}

/* Values added since the last reduction, in two streams that have not been waited for. */
static void leave_adds_behind(struct rig_rank *rank)
{
    bool is_healthy = *(const bool *)rank->arg;
    cudaStream_t streams[2];
    void *sums[2] = {NULL, NULL};
    double *value;
    RIG_CHECK(rank, cudaMalloc((void **)&value, sizeof *value) == cudaSuccess);
    RIG_CHECK(rank, cudaMemset(value, 0, sizeof *value) == cudaSuccess &&
                        cudaDeviceSynchronize() == cudaSuccess);
    for (int i = 0; i < 2; i++) {
        RIG_CHECK(rank,
                  cudaStreamCreateWithFlags(&streams[i], cudaStreamNonBlocking) == cudaSuccess);
        RIG_CHECK(rank, rank->calls->sums_create(rank->engine, 2, &sums[i], &rank->error) == MR_OK);
        RIG_CHECK(rank, rank->calls->sums_add(rank->engine, sums[i], 0, value, MR_F64, 1,
                                              streams[i], &rank->error) == MR_OK);
    }
    rank->calls->sums_destroy(rank->engine, sums[0]);
    if (!is_healthy)
        rank->calls->abort(rank->engine);
    rank->calls->sums_destroy(rank->engine, sums[1]);
    rig_destroy(rank, is_healthy);
    for (int i = 0; i < 2; i++)
        RIG_CHECK(rank, cudaStreamSynchronize(streams[i]) == cudaSuccess &&
                            cudaStreamDestroy(streams[i]) == cudaSuccess);
    RIG_CHECK(rank, cudaFree(value) == cudaSuccess);
}

static void sums_are_freed_after_all_adds(void **state)
{
    (void)state;
    static const enum double_policy policies[] = {DOUBLE_LATE, DOUBLE_EARLY, DOUBLE_RANDOM};
    for (size_t i = 0; i < 2 * sizeof policies / sizeof *policies; i++) {
        bool is_healthy = i % 2 == 0;
        rig_open(2, policies[i / 2]);
        rig_engines(2, leave_adds_behind, &is_healthy);
        rig_close();
    }
}

static void be_on_one_gpu(struct rig_rank *rank)
{
    rank->setup.device = rank->rank == 0 || rank->rank == 2 ? "cuda:1" : "cuda:0";
    RIG_CHECK(rank, rig_create(rank) == MR_ERR_INVALID && !rank->engine);
    RIG_CHECK(rank, strstr(rank->error.text, "ranks 0 and 2 are both on cuda:1 (GPU-"));
}

static void two_ranks_on_one_gpu_are_refused_by_all(void **state)
{
    (void)state;
    rig_open(2, DOUBLE_EARLY);
    rig_threads(3, be_on_one_gpu, NULL);
    rig_close();
}

static void be_too_many(struct rig_rank *rank)
{
    rank->setup.local_rank = 2;
    RIG_CHECK(rank, rig_create(rank) == MR_ERR_NO_DEVICE && !rank->engine);
    RIG_CHECK(rank, strstr(rank->error.text, "local rank is 2, but only 2 GPUs"));
    rank->setup.device = "cuda:5";
    RIG_CHECK(rank, rig_create(rank) == MR_ERR_NO_DEVICE && strstr(rank->error.text, "cuda:5"));
}

static void more_ranks_than_gpus_are_refused(void **state)
{
    (void)state;
    rig_open(2, DOUBLE_EARLY);
    rig_threads(1, be_too_many, NULL);
    rig_close();
}

/*
 * The launcher shows each rank only its own GPU: "cuda:local" is that one, whatever the local rank.
 */
static void see_one(struct rig_rank *rank)
{
    rank->setup.local_rank = 5;
    RIG_CHECK(rank, rig_create(rank) == MR_OK);
    RIG_CHECK(rank, double_has_context(0));
    rig_destroy(rank, true);
}

/* Both ranks see the same GPU. */
static void share_one(struct rig_rank *rank)
{
    RIG_CHECK(rank, rig_create(rank) == MR_ERR_INVALID && !rank->engine);
    RIG_CHECK(rank, strstr(rank->error.text, "ranks 0 and 1 are both on cuda:0 (GPU-"));
}

static void the_only_gpu_that_is_visible_is_the_local_one(void **state)
{
    (void)state;
    rig_open(1, DOUBLE_EARLY);
    rig_threads(1, see_one, NULL);
    rig_threads(2, share_one, NULL);
    rig_close();
}

/* Rank 1 stores its card and then stops. */
static void connect_to_nobody(struct rig_rank *rank)
{
    bool *breaks = rank->arg;
    uint64_t begin_ms = rig_now_ms();
    rank->setup.deadline_ns = mr_clock_now_ns() + (*breaks ? 8000 : 700) * UINT64_C(1000000);
    if (rank->rank == 1) {
        double_nccl_set(&(struct double_nccl_options){.fail = "CommInitRankConfig",
                                                      .fail_at = 1,
                                                      .fail_with = ncclSystemError,
                                                      .only_rank = 2});
        RIG_CHECK(rank, rig_create(rank) == MR_ERR_PEER &&
                            strstr(rank->error.text, "ncclCommInitRankConfig"));
        mr_clock_sleep_ms(100);
        if (*breaks)
            rig_break(rank);
        return;
    }
    RIG_CHECK(rank, rig_create(rank) == (*breaks ? MR_ERR_PEER : MR_ERR_TIMEOUT) && !rank->engine);
    RIG_CHECK(rank,
              strstr(rank->error.text, *breaks ? "rank 1 disconnected" : "ncclCommInitRankConfig"));
    RIG_CHECK(rank, rig_now_ms() - begin_ms < 6000);
}

static void a_rank_that_does_not_connect_ends_the_others(void **state)
{
    (void)state;
    for (int i = 0; i < 2; i++) {
        bool breaks = i == 1;
        rig_open(2, DOUBLE_EARLY);
        rig_threads(2, connect_to_nobody, &breaks);
        rig_close();
    }
}

static ncclUniqueId adopted_id;

static void adopt(struct rig_rank *rank)
{
    ncclComm_t comm = NULL;
    double sum = 1;
    int count = 0;
    RIG_CHECK(rank, cudaSetDevice((int)rank->rank) == cudaSuccess);
    RIG_CHECK(rank, ncclCommInitRank(&comm, (int)rank->setup.world_size, adopted_id,
                                     (int)rank->rank) == ncclSuccess);
    rank->setup.adopt = &comm;
    rank->setup.rank = 1 - rank->rank;
    RIG_CHECK(rank,
              rig_create(rank) == MR_ERR_INVALID && strstr(rank->error.text, "nccl_comm has rank"));
    rank->setup.rank = rank->rank;
    rank->setup.device = rank->rank == 0 ? "cuda:1" : "cuda:0";
    RIG_CHECK(rank, rig_create(rank) == MR_ERR_INVALID &&
                        strstr(rank->error.text, "nccl_comm is on cuda:"));
    rank->setup.device = rank->rank == 0 ? NULL : "cuda:local";
    RIG_CHECK(rank, rig_create(rank) == MR_OK);
    RIG_CHECK(rank, rig_call(rank, rig_sum(&sum, 1)) == MR_OK && sum == 2);
    rig_destroy(rank, rank->rank == 0);
    RIG_CHECK(rank, ncclCommCount(comm, &count) == ncclSuccess && count == 2);
    RIG_CHECK(rank, ncclCommDestroy(comm) == ncclSuccess);
}

static void an_adopted_communicator_still_belongs_to_the_caller(void **state)
{
    (void)state;
    rig_open(2, DOUBLE_EARLY);
    assert_int_equal(ncclGetUniqueId(&adopted_id), ncclSuccess);
    rig_threads(2, adopt, NULL);
    rig_close();
}

static void meet_errors(struct rig_rank *rank)
{
    double sum = 1;
    void *ticket = NULL;
    pthread_barrier_wait(rank->arg); /* both ranks are connected */
    if (rank->rank == 0)
        RIG_CHECK(rank, rig_issue(rank, rig_sum(&sum, 1), &ticket) == MR_ERR_DEVICE &&
                            strstr(rank->error.text, "ncclAllReduce: ") && !ticket);
    rig_destroy(rank, false);
}

static void an_error_of_nccl_is_named(void **state)
{
    (void)state;
    pthread_barrier_t barrier;
    pthread_barrier_init(&barrier, NULL, 2);
    rig_open(2, DOUBLE_EARLY);
    double_nccl_set(&(struct double_nccl_options){
        .fail = "AllReduce", .fail_at = 1, .fail_with = ncclUnhandledCudaError, .only_rank = 1});
    rig_engines(2, meet_errors, &barrier);
    rig_close();
    pthread_barrier_destroy(&barrier);
}

static void meet_async_error(struct rig_rank *rank)
{
    double sum = 1;
    void *ticket = NULL;
    int32_t status = MR_OK;
    RIG_CHECK(rank, rig_call(rank, rig_sum(&sum, 1)) == MR_OK);
    if (rig_issue(rank, rig_sum(&sum, 1), &ticket) == MR_OK)
        for (uint32_t i = 0; i < 500 && status == MR_OK; i++) {
            status = rank->calls->health(rank->engine, &rank->error);
            mr_clock_sleep_ms(1);
        }
    RIG_CHECK(rank, ticket == NULL || status == MR_ERR_PEER);
    rank->calls->abort(rank->engine);
    rank->calls->drop(rank->engine, ticket);
    rig_destroy(rank, false);
}

static void health_reports_later_errors(void **state)
{
    (void)state;
    rig_open(2, DOUBLE_EARLY);
    double_nccl_set(&(struct double_nccl_options){.async_after = 1, .async = ncclRemoteError});
    rig_engines(2, meet_async_error, NULL);
    rig_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(an_abort_ends_a_collective_under_way),
        cmocka_unit_test(an_abort_that_waits_delays_no_call_in_progress),
        cmocka_unit_test(sums_are_freed_after_all_adds),
        cmocka_unit_test(two_ranks_on_one_gpu_are_refused_by_all),
        cmocka_unit_test(more_ranks_than_gpus_are_refused),
        cmocka_unit_test(the_only_gpu_that_is_visible_is_the_local_one),
        cmocka_unit_test(a_rank_that_does_not_connect_ends_the_others),
        cmocka_unit_test(an_adopted_communicator_still_belongs_to_the_caller),
        cmocka_unit_test(an_error_of_nccl_is_named),
        cmocka_unit_test(health_reports_later_errors),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
