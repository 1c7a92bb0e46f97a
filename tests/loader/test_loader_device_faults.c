/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A failure on a device gives a status that names the CUDA function and its error. Batches can be
 * released, destroy returns, the workers have ended and everything was returned.
 */
#include "tests/loader/stream_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "base/clock.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/assert_words.h"

static char *folder;

static int make_folder(void **state)
{
    (void)state;
    folder = mr_test_folder_filled(2, 20);
    return 0;
}

/* The life of one loader, with the first status that was not a success. */
struct life {
    mr_status created;
    mr_status status;
    mr_error error;
    uint32_t n_batches;
    uint32_t n_failed; /* errors returned on purpose */
    char failed_in[64];
    uint64_t destroy_ms;
};

static void note(struct life *life, mr_status status, const mr_error *error)
{
    if (life->status != MR_OK || status >= 0)
        return;
    life->status = status;
    life->error = *error;
}

/* Two batches are lent at a time. Each is released once, whatever that returns. */
static void run(struct life *life, mr_loader *loader, cudaStream_t stream)
{
    mr_batch *batch, *lent = NULL;
    mr_status status;
    unsigned n_refused = 0;
    while ((status = mr_loader_next_on(loader, 10000, stream, &batch)) != MR_END) {
        if (status != MR_OK) {
            note(life, status, mr_loader_error(loader));
            if (status == MR_PENDING)
                fail_msg("next() hangs");
            if (++n_refused > 2)
                break;
            continue;
        }
        life->n_batches++;
        (void)double_launch_read(stream, mr_batch_data(batch, "image"), 8, NULL, NULL);
        if (lent) {
            status = mr_batch_release_on(lent, stream);
            /* it stayed lent; next() reports a failed device */
            if (status != MR_OK && status != MR_ERR_DEVICE)
                (void)mr_batch_release(lent);
        }
        lent = batch;
    }
    if (lent)
        (void)mr_batch_release(lent);
}

/* Errors are injected once the consumer's stream exists. */
struct fault {
    const char *function;
    uint64_t nth;
    cudaError_t code;
};

static void destroy(struct life *life, mr_loader *loader)
{
    uint64_t begin_ns = mr_clock_now_ns();
    mr_loader_destroy(loader);
    life->destroy_ms = (mr_clock_now_ns() - begin_ns) / 1000000;
    assert_true(life->destroy_ms < 8000);
}

static struct life live(struct rig *rig, const mr_loader_options *options,
                        const struct fault *fault)
{
    struct life life = {.status = MR_OK};
    mr_loader *loader;
    mr_error error = {0};
    stage_open(
        &(struct double_options){.n_devices = 2, .policy = DOUBLE_RANDOM, .seed = fault->nth + 1});
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    if (fault->nth > 0)
        double_fail_at(fault->function, fault->nth, fault->code);
    life.created = mr_loader_create(rig->dataset, NULL, options, &loader, &error);
    note(&life, life.created, &error);
    if (loader) {
        run(&life, loader, stream);
        destroy(&life, loader);
    }
    life.n_failed = double_n_failed();
    if (life.n_failed > 0)
        snprintf(life.failed_in, sizeof life.failed_in, "%s", double_failed_in());
    double_fail_never();
    (void)cudaStreamSynchronize(stream);
    (void)cudaStreamDestroy(stream);
    stage_close();
    return life;
}

static mr_loader_options fault_options(void)
{
    mr_loader_options options = stage_options("cuda:0");
    options.dtype = MR_F32;
    options.n_epochs = 1;
    return options;
}

/* An error that a call returned, or that a later call found on the device. */
static void check_words(const struct life *life, const struct fault *fault)
{
    const char *text = life->error.text;
    bool memory = fault->code == cudaErrorMemoryAllocation;
    if (life->status != MR_ERR_DEVICE && !(memory && life->status == MR_ERR_NO_MEMORY))
        fail_msg("%s, call %llu: %s: %s", fault->function, (unsigned long long)fault->nth,
                 mr_status_name(life->status), text);
    if (!strstr(text, cudaGetErrorName(fault->code)) ||
        !strstr(text, cudaGetErrorString(fault->code)) || !strstr(text, "cuda:0"))
        fail_msg("%s, call %llu: '%s'", fault->function, (unsigned long long)fault->nth, text);
    if (!double_is_sticky(fault->code) && strcmp(life->failed_in, DOUBLE_RUN) != 0 &&
        !strstr(text, life->failed_in))
        fail_msg("'%s' does not name %s", text, life->failed_in);
}

static void a_failed_call_ends_the_loader_and_is_named(void **state)
{
    static const char *const functions[] = {
        "cudaMemcpyAsync",       "cudaEventRecord",  "cudaStreamWaitEvent",
        "cudaEventSynchronize",  "cudaLaunchKernel", "cudaEventElapsedTime",
        "cudaStreamIsCapturing", "cudaMalloc",       "cudaEventCreateWithFlags"};
    static const cudaError_t codes[] = {cudaErrorNotSupported, cudaErrorIllegalAddress,
                                        cudaErrorMemoryAllocation};
    static const uint64_t nths[] = {1, 2, 3, 5, 9, 14, 22};
    mr_loader_options options = fault_options();
    unsigned n_reported = 0;
    for (unsigned f = 0; f < sizeof functions / sizeof *functions; f++)
        for (unsigned c = 0; c < 3; c++)
            for (unsigned n = 0; n < sizeof nths / sizeof *nths; n++) {
                struct fault fault = {functions[f], nths[n], codes[c]};
                struct life life = live(*state, &options, &fault);
                if (life.status != MR_OK)
                    check_words(&life, &fault);
                else /* the call was not made, or only after the last batch had arrived */
                    assert_int_equal(life.n_batches, 13);
                n_reported += life.status != MR_OK;
            }
    assert_true(n_reported > 150);
}

/*
 * Any call either reports the failure or only releases something. Nothing is left behind; live()
 * checks that.
 */
static void any_call_may_fail(void **state)
{
    static const cudaError_t codes[] = {cudaErrorNotSupported, cudaErrorLaunchFailure};
    mr_loader_options options = fault_options();
    for (unsigned c = 0; c < 2; c++)
        for (uint64_t nth = 1; nth < 2000; nth += 1 + nth / 12) {
            struct fault fault = {NULL, nth, codes[c]};
            struct life life = live(*state, &options, &fault);
            if (life.status == MR_OK)
                assert_int_equal(life.n_batches, 13);
            else if (life.status != MR_ERR_NO_DEVICE)
                assert_words(life.error.text, cudaGetErrorName(codes[c]));
        }
}

static void a_failure_while_running_on_the_device_is_reported(void **state)
{
    mr_loader_options options = fault_options();
    unsigned n_reported = 0;
    for (uint64_t nth = 1; nth < 45; nth += 1 + nth / 8) {
        struct fault fault = {DOUBLE_RUN, nth, cudaErrorECCUncorrectable};
        struct life life = live(*state, &options, &fault);
        assert_int_equal(life.n_failed, 1);
        if (life.status == MR_OK)
            continue; /* the last operations are only the consumer's */
        check_words(&life, &fault);
        n_reported++;
    }
    assert_true(n_reported > 10);
}

static void after_a_sticky_error_everything_ends(void **state)
{
    char spec[600];
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    (void)state;
    for (unsigned early = 0; early < 2; early++) {
        stage_open(&(struct double_options){.n_devices = 2, .policy = DOUBLE_RANDOM, .seed = 4});
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        mr_loader_options options = MR_LOADER_OPTIONS_INIT;
        options.batch_size = 4;
        options.num_workers = 2;
        options.device = "cuda:0";
        mr_dataset *dataset = mr_test_dataset(spec);
        mr_loader *loader = mr_test_loader(dataset, "train:16", &options);
        mr_batch *lent[2] = {stage_next_on(loader, stream), stage_next_on(loader, stream)}, *batch;
        assert_true(mr_test_count_workers(getpid()) > 0);
        double_break_device(0, cudaErrorIllegalAddress);
        mr_status status;
        while ((status = mr_loader_next_on(loader, 10000, stream, &batch)) == MR_OK)
            (void)mr_batch_release(batch);
        assert_int_equal(status, MR_ERR_DEVICE);
        assert_words(mr_loader_error(loader)->text, "cudaErrorIllegalAddress");
        assert_words(mr_loader_error(loader)->text, ": cuda");
        /* batches that had arrived before */
        while ((status = mr_loader_next(loader, 10000, &batch)) == MR_OK)
            (void)mr_batch_release(batch);
        assert_int_equal(status, MR_ERR_DEVICE);
        assert_int_equal(mr_loader_next(loader, 10000, &batch), MR_ERR_DEVICE); /* and stays so */
        struct life life;
        if (early) /* batches may outlive it */
            destroy(&life, loader);
        for (unsigned i = 0; i < 2; i++)
            assert_int_equal(mr_batch_release_on(lent[i], stream), MR_ERR_DEVICE);
        if (!early)
            destroy(&life, loader);
        assert_int_equal(mr_test_count_workers(getpid()), 0);
        mr_dataset_destroy(dataset);
        (void)cudaStreamDestroy(stream);
        stage_close();
    }
}

/* A release that a failed device refuses is reported once, and the batch is returned. */
static void a_release_that_fails_returns_the_batch(void **state)
{
    stage_open(&(struct double_options){0});
    mr_loader_options options = stage_options("cuda:0");
    mr_loader *loader = rig_loader(*state, &options);
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    mr_batch *batch = stage_next_on(loader, stream);
    double_fail_from("cudaEventRecord", 1, cudaErrorNotSupported);
    assert_int_equal(mr_batch_release(batch), MR_ERR_DEVICE);
    double_fail_never();
    mr_status status;
    while ((status = mr_loader_next_on(loader, 10000, stream, &batch)) == MR_OK)
        stage_release(batch, MR_OK);
    /* it is unknown when its buffer may be written again */
    assert_int_equal(status, MR_ERR_DEVICE);
    assert_words(mr_loader_error(loader)->text, "cudaEventRecord");
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    stage_close();
}

static void memory_is_page_locked_in_pieces_if_the_whole_is_refused(void **state)
{
    mr_loader_options options = stage_options("cuda:0");
    struct seen *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &options, 1);
    for (uint64_t slots = 1; slots <= 4; slots *= 2) {
        /* a slot's data is one page here */
        stage_open(&(struct double_options){.registration_bytes = slots * 4096});
        cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
        struct seen *seen = seen_create();
        mr_loader *loader = rig_loader(*state, &options);
        seen_epoch_on(seen, loader, &stream);
        stage_sync(stream);
        seen_expect_same(seen, expected);
        assert_true(double_calls("cudaHostRegister") > mr_loader_resolved(loader)->n_slots / slots);
        assert_int_equal(double_count(DOUBLE_ALL_THREADS).pageable, 0);
        mr_loader_destroy(loader);
        stage_end_stream(stream);
        seen_free(seen);
        stage_close();
    }
    seen_free(expected);
}

static uint64_t locked_bytes(mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    return stats.page_locked_bytes;
}

/*
 * An epoch where page-locking is refused: the same bytes, which CUDA may read late, and one log
 * line.
 */
static void deliver_pageable(struct rig *rig, const struct double_options *machine,
                             cudaError_t code, const struct seen *expected)
{
    mr_loader_options options = fault_options();
    stage_open(machine);
    rig_log_capture();
    cudaStream_t stream = stage_stream(0, cudaStreamNonBlocking);
    if (code != cudaSuccess)
        double_fail_from("cudaHostRegister", 1, code);
    struct seen *seen = seen_create();
    mr_loader *loader = rig_loader(rig, &options);
    seen_epoch_on(seen, loader, &stream);
    stage_sync(stream);
    seen_expect_same(seen, expected);
    assert_int_equal(locked_bytes(loader), 0);
    assert_true(double_count(DOUBLE_ALL_THREADS).pageable > 0);
    assert_int_equal(
        rig_log_count(
            "the slots are not page-locked, so copies are slower: cuda:0: cudaHostRegister of"),
        1);
    assert_int_equal(rig_log_count("(cudaError"), 1);
    rig_log_end();
    double_fail_never();
    mr_loader_destroy(loader);
    stage_end_stream(stream);
    seen_free(seen);
    stage_close();
}

static void if_page_locking_is_refused_copies_are_pageable_and_a_line_says_why(void **state)
{
    mr_loader_options options = fault_options();
    struct double_options machine = {0};
    struct seen *expected = seen_on_host(((struct rig *)*state)->dataset, NULL, &options, 1);
    for (unsigned i = 0; stage_policy(i, &machine); i++) {
        machine.registration_bytes = 0;
        deliver_pageable(*state, &machine, cudaErrorHostMemoryAlreadyRegistered, expected);
        machine.no_registration = true;
        deliver_pageable(*state, &machine, cudaSuccess, expected);
        machine.no_registration = false;
        machine.registration_bytes = 4095;
        deliver_pageable(*state, &machine, cudaSuccess, expected);
    }
    seen_free(expected);
}

/* Otherwise the registration would allocate them one by one, holding the driver's locks. */
static void pages_are_populated_before_they_are_locked(void **state)
{
    for (unsigned pin = 0; pin < 2; pin++) {
        stage_open(&(struct double_options){0});
        mr_loader_options options = pin ? stage_pin_options() : stage_options("cuda:0");
        options.n_slots = 64;
        mr_loader *loader = rig_loader(*state, &options);
        mr_batch *batch = rig_next(loader);
        assert_true(locked_bytes(loader) >= 64 * 4096);
        assert_int_equal(double_count(DOUBLE_ALL_THREADS).absent_pages, 0);
        stage_release(batch, MR_OK);
        mr_loader_destroy(loader);
        stage_close();
    }
}

static void creation_without_room_on_the_device_names_the_size(void **state)
{
    char spec[600];
    snprintf(spec, sizeof spec, "imagefolder:%s", folder);
    mr_dataset *files = mr_test_dataset(spec);
    for (uint64_t have = 1; have < 60000; have *= 4) {
        stage_open(&(struct double_options){.device_bytes = have});
        mr_loader_options options = stage_options("cuda:0");
        options.batch_size = 100;
        options.dtype = MR_F32;
        rig_refuses(*state, &options, MR_ERR_NO_MEMORY, "cudaMalloc of ");
        options.start = MR_START_EXEC;
        mr_loader *loader;
        mr_error error;
        assert_int_equal(mr_loader_create(files, NULL, &options, &loader, &error),
                         MR_ERR_NO_MEMORY);
        assert_null(loader);
        assert_words(error.text, "cudaErrorMemoryAllocation");
        assert_int_equal(mr_test_count_workers(getpid()), 0);
        stage_close();
    }
    mr_dataset_destroy(files);
}

static void refuse_on(struct rig *rig, const struct double_options *machine, const char *device,
                      const char *words)
{
    stage_open(machine);
    mr_loader_options options = stage_options(device);
    rig_refuses(rig, &options, MR_ERR_NO_DEVICE, words);
    stage_close();
}

static void a_machine_without_a_usable_gpu_is_reported(void **state)
{
    refuse_on(*state, &(struct double_options){.driver_version = -1}, "cuda:0", "no NVIDIA driver");
    refuse_on(*state, &(struct double_options){.driver_version = 11020}, "cuda:0",
              "supports CUDA 11.2, this program needs");
    refuse_on(*state, &(struct double_options){.no_device = true}, "cuda:0", "no CUDA device");
    refuse_on(*state, &(struct double_options){.n_devices = 2}, "cuda:2",
              "'cuda:2' does not exist; 2 visible");
    unsetenv("LOCAL_RANK");
    refuse_on(*state, &(struct double_options){.n_devices = 2}, "cuda:local",
              "LOCAL_RANK is not set");
}

static void expect_auto(struct rig *rig, const char *resolved)
{
    mr_loader_options options = stage_options("auto");
    mr_loader *loader = rig_loader(rig, &options);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    assert_string_equal(mr_loader_resolved(loader)->device, resolved);
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    assert_int_equal(stats.n_buffers, strcmp(resolved, "host") == 0 ? 0 : 3);
    mr_batch *batch = rig_next(loader);
    rig_check(batch);
    assert_int_equal(mr_batch_array(batch, "image")->device.kind,
                     strcmp(resolved, "host") == 0 ? MR_DEVICE_HOST : MR_DEVICE_CUDA);
    stage_release(batch, MR_OK);
    mr_loader_destroy(loader);
}

static void auto_chooses_the_host_and_logs_once_why(void **state)
{
    static const struct double_options machines[] = {
        {.driver_version = -1}, {.driver_version = 11020}, {.no_device = true}};
    unsetenv("LOCAL_RANK");
    rig_log_capture();
    for (unsigned i = 0; i < 3; i++) {
        stage_open(&machines[i]);
        expect_auto(*state, "host");
        expect_auto(*state, "host");
        stage_close();
    }
    assert_int_equal(rig_log_count("'auto' is the host: no NVIDIA driver"), 1);
    assert_int_equal(rig_log_count("'auto'"), 1);
    stage_open(&(struct double_options){.n_devices = 2});
    expect_auto(*state, "cuda:0");
    stage_close();
    assert_int_equal(rig_log_count("'auto'"), 1);
    rig_log_end();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        RIG_TEST(auto_chooses_the_host_and_logs_once_why),
        RIG_TEST(a_failed_call_ends_the_loader_and_is_named),
        RIG_TEST(any_call_may_fail),
        RIG_TEST(a_failure_while_running_on_the_device_is_reported),
        cmocka_unit_test(after_a_sticky_error_everything_ends),
        RIG_TEST(a_release_that_fails_returns_the_batch),
        RIG_TEST(memory_is_page_locked_in_pieces_if_the_whole_is_refused),
        RIG_TEST(if_page_locking_is_refused_copies_are_pageable_and_a_line_says_why),
        RIG_TEST(pages_are_populated_before_they_are_locked),
        RIG_TEST(creation_without_room_on_the_device_names_the_size),
        RIG_TEST(a_machine_without_a_usable_gpu_is_reported),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
