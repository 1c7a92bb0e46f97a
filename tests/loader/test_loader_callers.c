/* SPDX-License-Identifier: Apache-2.0 */
/*
 * No call changes the state of the caller's thread: the current device, the last error (even one
 * that was not read yet) and the capture mode.
 */
#include "tests/loader/stream_rig.h"

#include <millrace/millrace.h>

struct before {
    int device;
    cudaError_t error;
    enum cudaStreamCaptureMode mode;
};

static enum cudaStreamCaptureMode capture_mode(void)
{
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed, unused;
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
    unused = mode;
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&unused), cudaSuccess);
    return mode;
}

static void set_mode(enum cudaStreamCaptureMode mode)
{
    assert_int_equal(cudaThreadExchangeStreamCaptureMode(&mode), cudaSuccess);
}

/* line: that of the call before */
static void expect_unchanged(const struct before *before, int line)
{
    int device;
    cudaError_t error = cudaPeekAtLastError();
    if (error != before->error)
        fail_msg("line %d: the last error is %s, not %s", line, cudaGetErrorName(error),
                 cudaGetErrorName(before->error));
    assert_int_equal(cudaGetDevice(&device), cudaSuccess);
    if (device != before->device)
        fail_msg("line %d: the current device is %d, not %d", line, device, before->device);
    if (capture_mode() != before->mode)
        fail_msg("line %d: the capture mode has changed", line);
}

#define UNCHANGED(call)                                                                            \
    do {                                                                                           \
        call;                                                                                      \
        expect_unchanged(before, __LINE__);                                                        \
    } while (0)

/*
 * A stream of another device makes a CUDA call fail. If an error was pending already, that failure
 * cannot be undone.
 */
static void live(struct rig *rig, const struct before *before, const mr_loader_options *options,
                 cudaStream_t own, cudaStream_t foreign)
{
    mr_loader *loader, *none;
    mr_batch *batch;
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_loader_options bad = *options;
    bad.device = "cuda:7";
    expect_unchanged(before, __LINE__);
    UNCHANGED(assert_int_equal(mr_device_count(MR_DEVICE_CUDA, NULL), 2));
    UNCHANGED(assert_int_equal(mr_loader_create(rig->dataset, NULL, &bad, &none, NULL),
                               MR_ERR_NO_DEVICE));
    UNCHANGED(
        assert_int_equal(mr_loader_create(rig->dataset, NULL, options, &loader, NULL), MR_OK));
    UNCHANGED(batch = rig_next(loader));
    UNCHANGED(stage_use(batch, own, MR_OK));
    UNCHANGED(stage_use(batch, NULL, MR_OK));
    if (!before->error)
        UNCHANGED(stage_use(batch, foreign, MR_ERR_INVALID));
    UNCHANGED(stage_release(batch, MR_OK));
    if (!before->error)
        UNCHANGED(assert_int_equal(mr_loader_next_on(loader, MR_FOREVER, foreign, &batch),
                                   MR_ERR_INVALID));
    UNCHANGED(batch = stage_next_on(loader, own));
    if (!before->error)
        UNCHANGED(stage_release_on(batch, foreign, MR_ERR_INVALID));
    UNCHANGED(stage_release_on(batch, own, MR_OK));
    UNCHANGED(batch = stage_next_on(loader, NULL));
    UNCHANGED(stage_release_on(batch, NULL, MR_OK));
    UNCHANGED(batch = stage_next_on(loader, NULL));
    UNCHANGED(stage_release(batch, MR_OK));
    UNCHANGED(assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK));
    UNCHANGED(assert_int_equal(mr_loader_set_epoch(loader, 5), MR_OK));
    UNCHANGED(mr_loader_cancel(loader));
    UNCHANGED(rig_expect(loader, MR_ERR_CANCELED));
    UNCHANGED(batch = stage_next_on(loader, own));
    UNCHANGED(mr_loader_destroy(loader));
    UNCHANGED(stage_release_on(batch, own, MR_OK)); /* frees all */
}

static void nothing_of_the_callers_thread_changes(void **state)
{
    static const enum cudaStreamCaptureMode modes[] = {cudaStreamCaptureModeGlobal,
                                                       cudaStreamCaptureModeThreadLocal,
                                                       cudaStreamCaptureModeRelaxed};
    const struct rig_mode *run = rig_modes;
    for (unsigned m = 0; m < 3; m++)
        for (int device = 0; device < 2; device++)
            for (unsigned pending = 0; pending < 2; pending++) {
                stage_open(&(struct double_options){
                    .n_devices = 2, .policy = DOUBLE_RANDOM, .seed = m + 1});
                cudaStream_t own =
                    stage_stream(1, m % 2 ? cudaStreamDefault : cudaStreamNonBlocking);
                cudaStream_t foreign = stage_stream(0, cudaStreamNonBlocking);
                struct before before = {.device = device, .mode = modes[m]};
                assert_int_equal(cudaSetDevice(device), cudaSuccess);
                set_mode(modes[m]);
                if (pending) {
                    void *memory;
                    double_fail_at("cudaMalloc", 1, before.error = cudaErrorMemoryAllocation);
                    assert_int_equal(cudaMalloc(&memory, 16), cudaErrorMemoryAllocation);
                }
                mr_loader_options options = rig_options_of(&run[m % 2]);
                options.device = "cuda:1";
                options.dtype = MR_F16;
                live(*state, &before, &options, own, foreign);
                if (pending) /* unchanged, and read once */
                    assert_int_equal(cudaGetLastError(), cudaErrorMemoryAllocation);
                assert_int_equal(cudaGetLastError(), cudaSuccess);
                set_mode(cudaStreamCaptureModeGlobal);
                stage_end_stream(own);
                stage_end_stream(foreign);
                stage_close();
            }
}

/* Each context would take hundreds of MB of device 0, for each rank. */
static void no_other_device_gets_a_context(void **state)
{
    for (unsigned lent_last = 0; lent_last < 2; lent_last++) {
        stage_open(&(struct double_options){.n_devices = 2});
        mr_loader_options options = stage_options("cuda:1");
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *batch = NULL;
        for (int i = 0; i < 6; i++) {
            if (batch)
                mr_batch_release(batch);
            batch = rig_next(loader);
        }
        if (!lent_last)
            mr_batch_release(batch);
        mr_loader_destroy(loader);
        if (lent_last)
            mr_batch_release(batch);
        assert_true(double_has_context(1));
        assert_false(double_has_context(0));
        stage_close();
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(no_other_device_gets_a_context),
        RIG_TEST(nothing_of_the_callers_thread_changes),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
