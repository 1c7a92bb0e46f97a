/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Page-locked host batches (pin_memory) if there is no CUDA or it refuses, and if a device or a
 * CUDA call fails; also which GPU is opened, and forked children.
 */
#include "tests/loader/stream_rig.h"
#include "tests/support/assert_words.h"

#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <millrace/millrace.h>

enum { N_BATCHES = 13, LONG_MS = 20000 };

static void take_one(mr_loader *loader)
{
    mr_batch *batch = rig_next(loader);
    rig_check(batch);
    stage_release(batch, MR_OK);
}

/*
 * The batches are lent as without the option, and one log line says why. With a GPU, their streams
 * still count.
 */
static void refuse_on(struct rig *rig, const struct double_options *options, bool has_gpu,
                      const char *words)
{
    mr_loader_options wanted = stage_pin_options();
    stage_open(options);
    rig_log_capture();
    mr_loader *loader = rig_loader(rig, &wanted);
    assert_false(mr_loader_resolved(loader)->pin_memory);
    assert_int_equal(rig_log_count("pin_memory: the batches are not page-locked: "), 1);
    assert_int_equal(rig_log_count(words), 1);
    rig_log_end();
    for (unsigned i = 0; i < N_BATCHES; i++) {
        mr_batch *batch = rig_next(loader);
        rig_check(batch);
        stage_use(batch, NULL, MR_OK);
        stage_release_on(batch, NULL, MR_OK);
    }
    assert_int_equal(double_calls("cudaEventSynchronize") > 0, has_gpu);
    mr_loader_destroy(loader);
    stage_close();
}

static void if_it_is_refused_batches_are_pageable_and_a_line_says_why(void **state)
{
    refuse_on(*state, &(struct double_options){.driver_version = -1}, false, "no NVIDIA driver");
    refuse_on(*state, &(struct double_options){.driver_version = 11020}, false,
              "supports CUDA 11.2, this program needs");
    refuse_on(*state, &(struct double_options){.no_device = true}, false, "no CUDA device");
    refuse_on(*state, &(struct double_options){.registration_bytes = 100}, true,
              "cudaHostRegister of");
}

static void on_other_devices_it_logs_nothing(void **state)
{
    stage_open(&(struct double_options){0});
    mr_loader_options wanted = stage_pin_options();
    wanted.device = "cuda:0";
    rig_log_capture();
    mr_loader *loader = rig_loader(*state, &wanted);
    assert_false(mr_loader_resolved(loader)->pin_memory);
    assert_int_equal(rig_log_count("pin_memory"), 0);
    rig_log_end();
    take_one(loader);
    mr_loader_destroy(loader);
    stage_close();
}

/* Which GPU is opened. A context on another GPU would take several hundred MB of it. */
static void the_context_is_on_the_gpu_of_local_rank_or_the_current_one(void **state)
{
    for (int rank = 0; rank < 2; rank++) {
        stage_open(&(struct double_options){.n_devices = 3});
        mr_loader_options wanted = stage_pin_options();
        if (rank)
            assert_int_equal(setenv("LOCAL_RANK", "1", 1), 0);
        else
            assert_int_equal(cudaSetDevice(2), cudaSuccess);
        mr_loader *loader = stage_pinned_loader(*state, &wanted);
        unsetenv("LOCAL_RANK");
        take_one(loader);
        assert_int_equal(double_has_context(0), false);
        assert_int_equal(double_has_context(1), rank == 1);
        assert_int_equal(double_has_context(2), rank == 0);
        mr_loader_destroy(loader);
        assert_false(double_has_context(0));
        stage_close();
    }
}

static int misuse(mr_batch *lent)
{
    if (mr_batch_use(lent, NULL) != MR_ERR_STATE ||
        !strstr(mr_batch_error(lent)->text, "forked child"))
        return 1;
    if (mr_batch_release_on(lent, NULL) != MR_ERR_STATE)
        return 2;
    return mr_batch_release(lent) == MR_ERR_STATE ? 0 : 3;
}

static void a_forked_child_is_refused_and_the_parent_continues(void **state)
{
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM});
    mr_loader_options wanted = stage_pin_options();
    mr_loader *loader = stage_pinned_loader(*state, &wanted);
    mr_batch *lent = stage_next_on(loader, NULL);
    pid_t pid = fork();
    if (pid == 0) {
        alarm(10);
        _exit(misuse(lent));
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFEXITED(status));
    assert_int_equal(WEXITSTATUS(status), 0);
    stage_release_on(lent, NULL, MR_OK);
    int64_t got[100];
    assert_int_equal(rig_drain(loader, false, got, 100), 92);
    mr_loader_destroy(loader);
    stage_close();
}

/* The slot never becomes free again, because it is unknown what still reads it. */
static void a_device_that_fails_ends_the_loader(void **state)
{
    for (unsigned when = 0; when < 3; when++) {
        stage_open(&(struct double_options){0});
        mr_loader_options wanted = stage_pin_options();
        mr_batch *batch, *lent[3];
        mr_loader *loader = stage_pinned_loader(*state, &wanted);
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        assert_int_equal(double_launch_gate(stream, 1), cudaSuccess);
        for (unsigned i = 0; i < 3; i++)
            lent[i] = rig_next(loader);
        if (when > 0)
            stage_use(lent[0], stream, MR_OK);
        if (when > 1)
            stage_release(lent[0], MR_OK);
        double_break_device(0, cudaErrorIllegalAddress);
        double_open_gate(1);
        if (when < 2)
            stage_release_on(lent[0], stream, MR_ERR_DEVICE);
        assert_int_equal(mr_loader_next(loader, LONG_MS, &batch), MR_ERR_DEVICE);
        assert_words(mr_loader_error(loader)->text, "cudaErrorIllegalAddress");
        stage_release(lent[1], MR_OK); /* no stream reads it */
        stage_release_on(lent[2], stream, MR_ERR_DEVICE);
        assert_int_equal(mr_loader_next(loader, 0, &batch), MR_ERR_DEVICE);
        mr_loader_destroy(loader);
        (void)cudaStreamDestroy(stream);
        (void)double_close();
    }
}

/* Each CUDA call in a loader's life fails once: nothing hangs, and the lent bytes are right. */
static bool fail_once(struct rig *rig, uint64_t nth, cudaError_t code)
{
    mr_batch *batch;
    unsigned n_failed = 0;
    stage_open(&(struct double_options){.policy = DOUBLE_RANDOM, .seed = nth});
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    mr_loader_options wanted = stage_pin_options();
    rig_log_capture();
    double_fail_at(NULL, nth, code);
    mr_loader *loader = rig_loader(rig, &wanted);
    for (unsigned k = 0; k < 5 && n_failed == 0; k++) {
        mr_status status = mr_loader_next_on(loader, LONG_MS, stream, &batch);
        n_failed += status != MR_OK;
        assert_int_not_equal(status, MR_PENDING);
        if (status == MR_OK) {
            rig_check(batch);
            status = mr_batch_release_on(batch, stream);
        }
        if (status != MR_OK && status != MR_ERR_DEVICE && batch)
            (void)mr_batch_release(batch);
    }
    bool failed = double_n_failed() > 0;
    mr_loader_destroy(loader);
    rig_log_end();
    double_fail_never();
    stage_end_stream(stream);
    stage_close();
    return failed;
}

static void any_cuda_call_may_fail(void **state)
{
    static const cudaError_t codes[] = {cudaErrorMemoryAllocation, cudaErrorInvalidValue,
                                        cudaErrorUnknown};
    for (unsigned c = 0; c < sizeof codes / sizeof *codes; c++) {
        uint64_t nth = 1;
        while (fail_once(*state, nth, codes[c]))
            nth++;
        assert_true(nth > 40); /* the calls of five steps, and of opening */
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(if_it_is_refused_batches_are_pageable_and_a_line_says_why),
        RIG_TEST(on_other_devices_it_logs_nothing),
        RIG_TEST(the_context_is_on_the_gpu_of_local_rank_or_the_current_one),
        RIG_TEST(a_forked_child_is_refused_and_the_parent_continues),
        RIG_TEST(a_device_that_fails_ends_the_loader),
        RIG_TEST(any_cuda_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
