/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Faults of nccl: errors of its calls and of its communicators, ranks that die, hang, stay away or
 * differ. After each fault every rank ends within its timeout with an error, and leaves nothing on
 * the device.
 */
#include "tests/dist/nccl/nccl_world.h"
#include "tests/support/assert_words.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/run.h>

enum { N = 20000, TIMEOUT_MS = 2500, SHORT_MS = 1500, SOON_MS = 8000, RANKS = 3, VICTIM = 1 };

struct fault {
    mr_status status; /* the survivors' status; MR_OK: any error */
    const char *words;
    bool dies;           /* the victim is killed in the middle of the works */
    bool stays;          /* the victim stays away */
    bool is_async;       /* each all_reduce is asynchronous */
    uint32_t timeout_ms; /* 0: TIMEOUT_MS; shorter if the timeout ends the group */
};

static mr_status reduce_once(mr_group *group, float *buffer, bool is_async)
{
    mr_group_work *work = NULL;
    if (!is_async)
        return mr_group_all_reduce(group, buffer, N, MR_F32, MR_MEAN);
    mr_status status = mr_group_all_reduce_async(group, buffer, N, MR_F32, MR_MEAN, NULL, &work);
    if (!status)
        status = mr_group_work_wait(work, NULL);
    mr_group_work_destroy(work);
    if (!status && cudaStreamQuery(NULL) == cudaErrorNotReady)
        nccl_world_rest_ms(1);
    return status;
}

/* The device still works after the end, and every further call reports the same error. */
static void check_end(mr_group *group, float *buffer, const struct fault *fault, mr_status status)
{
    mr_error first = *mr_group_error(group);
    mr_group_work *work = NULL;
    NCCL_CHECK(group, fault->status ? status == fault->status : status < 0);
    if (fault->words)
        NCCL_SAYS(group, fault->words);
    NCCL_CHECK(group, strchr(first.text, '\n') == NULL && first.text[0] != '\0');
    NCCL_CHECK(group, mr_group_all_reduce(group, buffer, N, MR_F32, MR_SUM) == status);
    NCCL_CHECK(group, mr_group_barrier_async(group, NULL, &work) == status && work == NULL);
    NCCL_CHECK(group, mr_group_same(group, 1, "a number") == status);
    NCCL_CHECK(group, strcmp(mr_group_error(group)->text, first.text) == 0);
    NCCL_CHECK(group, cudaDeviceSynchronize() == cudaSuccess);
}

static void work_until_it_ends(mr_group *group, void *arg)
{
    const struct fault *fault = arg;
    bool is_victim = mr_group_rank(group) == VICTIM;
    float *buffer = nccl_world_floats(group, N, 1);
    mr_status status = MR_OK;
    for (int i = 0; i < 5; i++)
        NCCL_CHECK(group, reduce_once(group, buffer, false) == MR_OK);
    uint64_t begin_ms = nccl_world_now_ms();
    for (int i = 0; !status && nccl_world_now_ms() < begin_ms + SOON_MS; i++) {
        if (is_victim && fault->dies && i == 4)
            raise(SIGKILL);
        if (is_victim && fault->stays)
            nccl_world_rest_ms(fault->timeout_ms + 1000);
        status = reduce_once(group, buffer, fault->is_async);
    }
    NCCL_CHECK(group, nccl_world_now_ms() < begin_ms + SOON_MS);
    if (is_victim)
        NCCL_CHECK(group, cudaDeviceSynchronize() == cudaSuccess);
    else
        check_end(group, buffer, fault, status);
    NCCL_CHECK(group, cudaFree(buffer) == cudaSuccess);
}

/* The victim must end with victim_result. */
static void run(const struct fault *fault, struct double_nccl_options nccl,
                enum double_policy policy, int victim_result)
{
    int results[NCCL_RANKS];
    struct nccl_world world = {.n_ranks = RANKS,
                               .timeout_ms = fault->timeout_ms ? fault->timeout_ms : TIMEOUT_MS,
                               .policy = policy,
                               .seed = 3,
                               .nccl = nccl,
                               .f = work_until_it_ends,
                               .arg = (void *)fault};
    nccl_world_fork(&world, results, NULL);
    for (int r = 0; r < RANKS; r++)
        assert_int_equal(results[r], r == VICTIM ? victim_result : NCCL_FINE);
}

static void survivors_name_the_rank_that_was_killed_when_nccl_notices(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        struct fault fault = {.status = MR_ERR_PEER,
                              .words = "rank 1",
                              .dies = true,
                              .is_async = policy == DOUBLE_LATE};
        run(&fault, (struct double_nccl_options){.progress_us = 200}, (enum double_policy)policy,
            128 + SIGKILL);
    }
}

static void survivors_name_the_rank_that_was_killed_when_nccl_does_not(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        struct fault fault = {.status = MR_ERR_PEER,
                              .words = "rank 1",
                              .dies = true,
                              .is_async = policy == DOUBLE_EARLY};
        run(&fault, (struct double_nccl_options){.silent = true}, (enum double_policy)policy,
            128 + SIGKILL);
    }
}

static void a_rank_that_stays_away_ends_the_others_by_their_deadline(void **state)
{
    (void)state;
    struct fault fault = {.stays = true, .words = "all_reduce", .timeout_ms = SHORT_MS};
    run(&fault, (struct double_nccl_options){.silent = true}, DOUBLE_RANDOM, NCCL_FINE);
}

static void a_device_that_hangs_ends_all_by_their_deadline(void **state)
{
    (void)state;
    for (int is_async = 0; is_async < 2; is_async++) {
        struct fault fault = {.words = "all_reduce", .is_async = is_async, .timeout_ms = SHORT_MS};
        struct double_nccl_options nccl = {
            .only_rank = VICTIM + 1, .hang = "all_reduce", .hang_at = 9, .silent = true};
        run(&fault, nccl, DOUBLE_EARLY, NCCL_FINE);
    }
}

static void an_error_of_a_call_ends_the_group(void **state)
{
    (void)state;
    const ncclResult_t errors[] = {ncclUnhandledCudaError, ncclSystemError, ncclInternalError};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct fault fault = {.words = "rank 1"};
        struct double_nccl_options nccl = {
            .only_rank = VICTIM + 1, .fail = "AllReduce", .fail_at = 9, .fail_with = errors[i]};
        run(&fault, nccl, DOUBLE_RANDOM, NCCL_FINE);
    }
}

static void an_error_of_the_communicator_ends_the_group(void **state)
{
    (void)state;
    const ncclResult_t errors[] = {ncclRemoteError, ncclUnhandledCudaError};
    for (size_t i = 0; i < sizeof errors / sizeof *errors; i++) {
        struct fault fault = {.is_async = i == 1, .words = "all_reduce"};
        struct double_nccl_options nccl = {
            .only_rank = VICTIM + 1, .async_after = 9, .async = errors[i]};
        run(&fault, nccl, DOUBLE_LATE, NCCL_FINE);
    }
}

static void call_differently(mr_group *group, void *arg)
{
    float *buffer = nccl_world_floats(group, N, 1);
    uint64_t count = mr_group_rank(group) == VICTIM ? N - 1 : N;
    (void)arg;
    NCCL_CHECK(group, mr_group_all_reduce(group, buffer, N, MR_F32, MR_SUM) == MR_OK);
    NCCL_CHECK(group, mr_group_all_reduce(group, buffer, count, MR_F32, MR_SUM) == MR_ERR_PEER);
    NCCL_SAYS(group, "rank 1");
    NCCL_SAYS(group, "19999");
    NCCL_CHECK(group, cudaFree(buffer) == cudaSuccess);
}

static void ranks_that_differ_are_named_with_mr_comm_check(void **state)
{
    (void)state;
    struct nccl_world world = {.n_ranks = RANKS, .timeout_ms = TIMEOUT_MS, .f = call_differently};
    setenv("MR_COMM_CHECK", "1", 1);
    nccl_world_run(&world);
    unsetenv("MR_COMM_CHECK");
}

static void do_nothing(mr_group *group, void *arg)
{
    (void)group;
    (void)arg;
}

/* One rank's call fails. It has no group, and the other ranks must not wait for it. */
static void a_rank_that_cannot_begin_ends_the_others(void **state)
{
    (void)state;
    mr_error words[NCCL_RANKS];
    int results[NCCL_RANKS];
    struct nccl_world world = {.n_ranks = RANKS, .timeout_ms = TIMEOUT_MS, .f = do_nothing};
    world.nccl = (struct double_nccl_options){
        .only_rank = VICTIM + 1, .fail = "CommInitRankConfig", .fail_at = 1};
    uint64_t begin_ms = nccl_world_now_ms();
    nccl_world_fork(&world, results, words);
    assert_in_range(nccl_world_now_ms() - begin_ms, 0, SOON_MS);
    for (int r = 0; r < RANKS; r++) {
        assert_int_equal(results[r], NCCL_NO_GROUP);
        if (r == VICTIM)
            assert_words(words[r].text, "ncclCommInitRankConfig");
    }
}

/* The CUDA device fails in the middle of the works. */
static void break_the_device(mr_group *group, void *arg)
{
    float *buffer = nccl_world_floats(group, N, 1);
    mr_status status = MR_OK;
    uint64_t begin_ms = nccl_world_now_ms();
    (void)arg;
    for (int i = 0; !status && nccl_world_now_ms() < begin_ms + SOON_MS; i++) {
        if (mr_group_rank(group) == VICTIM && i == 4)
            double_break_device(VICTIM, cudaErrorIllegalAddress);
        status = mr_group_all_reduce(group, buffer, N, MR_F32, MR_SUM);
    }
    if (mr_group_rank(group) == VICTIM)
        NCCL_CHECK(group, status == MR_ERR_DEVICE);
    else
        NCCL_CHECK(group, status == MR_ERR_PEER || status == MR_ERR_TIMEOUT);
    (void)cudaDeviceSynchronize();
    (void)cudaFree(buffer);
}

static void a_device_that_breaks_ends_the_group(void **state)
{
    (void)state;
    struct nccl_world world = {.n_ranks = RANKS, .timeout_ms = TIMEOUT_MS, .f = break_the_device};
    nccl_world_run(&world);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(survivors_name_the_rank_that_was_killed_when_nccl_notices),
        cmocka_unit_test(survivors_name_the_rank_that_was_killed_when_nccl_does_not),
        cmocka_unit_test(a_rank_that_stays_away_ends_the_others_by_their_deadline),
        cmocka_unit_test(a_device_that_hangs_ends_all_by_their_deadline),
        cmocka_unit_test(an_error_of_a_call_ends_the_group),
        cmocka_unit_test(an_error_of_the_communicator_ends_the_group),
        cmocka_unit_test(ranks_that_differ_are_named_with_mr_comm_check),
        cmocka_unit_test(a_rank_that_cannot_begin_ends_the_others),
        cmocka_unit_test(a_device_that_breaks_ends_the_group),
    };
    nccl_world_init();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
