/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host threads: what orders them with devices and with each other, and what each has for itself.
 * One OS thread plays them all.
 */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

enum { LEN = 100 };

static void a_copy_from_locked_memory_reads_when_it_runs(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *pinned = fixture_pinned(LEN), *memory = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    memset(pinned, 1, LEN);
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
    memset(pinned, 2, LEN);
    OK(cudaStreamSynchronize(stream));
    fixture_expect(memory, LEN, 2);
    fixture_close();
}

/* The value that arrives if the memory is overwritten right after the call. */
static uint8_t copy_and_overwrite(cudaStream_t stream, uint8_t *memory)
{
    uint8_t pageable[LEN];
    memset(pageable, 1, LEN);
    OK(cudaMemcpyAsync(memory, pageable, LEN, cudaMemcpyHostToDevice, stream));
    memset(pageable, 2, LEN);
    OK(cudaStreamSynchronize(stream));
    const uint8_t *view = double_host_view(memory);
    fixture_expect(memory, LEN, view[0]);
    return view[0];
}

/* CUDA may take the bytes at the call, but need not before the copy's turn in its stream. */
static void pageable_bytes_are_taken_between_the_call_and_the_copy(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        unsigned n_early = 0;
        fixture_open((enum double_policy)policy);
        uint8_t *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream();
        for (unsigned i = 0; i < 64; i++)
            n_early += copy_and_overwrite(stream, memory) == 1;
        assert_true(n_early == (policy == DOUBLE_EARLY ? 64 : 0) || policy == DOUBLE_RANDOM);
        assert_true(policy != DOUBLE_RANDOM || (n_early > 0 && n_early < 64));
        assert_int_equal(double_count(0).pageable, 64);
        fixture_close();
    }
}

/* The event after the copy says that the bytes were taken. */
static void pageable_memory_may_be_written_once_the_copy_has_ended(void **state)
{
    (void)state;
    for (int policy = DOUBLE_LATE; policy <= DOUBLE_RANDOM; policy++) {
        fixture_open((enum double_policy)policy);
        uint8_t *memory = fixture_device(LEN), pageable[LEN];
        cudaStream_t stream = fixture_stream();
        cudaEvent_t event = fixture_event();
        memset(pageable, 1, LEN);
        OK(cudaMemcpyAsync(memory, pageable, LEN, cudaMemcpyHostToDevice, stream));
        OK(cudaEventRecord(event, stream));
        OK(cudaEventSynchronize(event));
        memset(pageable, 2, LEN);
        OK(cudaStreamSynchronize(stream));
        fixture_expect(memory, LEN, 1);
        fixture_close();
    }
}

static void a_copy_to_pageable_memory_returns_when_it_has_ended(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN), pageable[LEN] = {0};
    cudaStream_t stream = fixture_stream();
    OK(double_launch_fill(stream, memory, LEN, 3));
    OK(cudaMemcpyAsync(pageable, memory, LEN, cudaMemcpyDeviceToHost, stream));
    assert_int_equal(pageable[LEN - 1], 3);
    assert_int_equal(double_count(0).pageable, 1);
    assert_int_equal(double_count(0).blocking, 1);
    fixture_close();
}

enum host_wait {
    NO_WAIT,
    EVENT_SYNC,
    EVENT_QUERY,
    STREAM_SYNC,
    STREAM_QUERY,
    DEVICE_SYNC,
    N_HOST_WAITS
};

static void wait_by(enum host_wait how, cudaStream_t stream, cudaEvent_t event)
{
    switch (how) {
    case EVENT_SYNC: OK(cudaEventSynchronize(event)); break;
    case STREAM_SYNC: OK(cudaStreamSynchronize(stream)); break;
    case DEVICE_SYNC: OK(cudaDeviceSynchronize()); break;
    case EVENT_QUERY:
        while (cudaEventQuery(event) != cudaSuccess)
            continue;
        break;
    case STREAM_QUERY:
        while (cudaStreamQuery(stream) != cudaSuccess)
            continue;
        break;
    default: break;
    }
}

static void the_host_may_write_what_a_copy_read_once_it_has_ended(void **state)
{
    (void)state;
    for (int i = 0; i < N_HOST_WAITS * 3; i++) {
        fixture_open((enum double_policy)(i % 3));
        uint8_t *pinned = fixture_pinned(LEN), *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream();
        cudaEvent_t event = fixture_event();
        assert_true(double_host_write(pinned, LEN));
        OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
        OK(cudaEventRecord(event, stream));
        wait_by((enum host_wait)(i / 3), stream, event);
        assert_true(double_host_write(pinned + 50, 10));
        fixture_close_with(DOUBLE_UNORDERED, i / 3 == NO_WAIT);
    }
}

static void a_query_that_says_no_orders_nothing(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *pinned = fixture_pinned(LEN), *memory = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    cudaEvent_t event = fixture_event();
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
    OK(cudaEventRecord(event, stream));
    assert_int_equal(cudaEventQuery(event), cudaErrorNotReady);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorNotReady);
    assert_int_equal(cudaGetLastError(), cudaErrorNotReady);
    double_host_write(pinned, 1);
    fixture_close_with(DOUBLE_UNORDERED, 1);
}

static void reading_during_a_copy_that_reads_is_no_conflict(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *pinned = fixture_pinned(LEN), *memory = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
    assert_true(double_host_read(pinned, LEN));
    OK(cudaMemcpyAsync(pinned, memory, LEN, cudaMemcpyDeviceToHost, stream));
    assert_int_equal(double_found(DOUBLE_UNORDERED), 0);
    assert_true(double_host_read(pinned, LEN));
    fixture_close_with(DOUBLE_UNORDERED, 1); /* at the same time as the copy that writes */
}

static void a_handoff_orders_threads(void **state)
{
    (void)state;
    for (int how = 0; how < 4; how++) {
        fixture_open(DOUBLE_RANDOM);
        uint8_t *pinned = fixture_pinned(LEN), *memory = fixture_device(LEN);
        cudaStream_t stream = fixture_stream();
        double_handoff(0, 1);
        double_as_thread(1);
        double_host_write(pinned, LEN);
        if (how == 1)
            double_handoff(1, 2);
        if (how >= 2)
            double_release(how == 2 ? pinned : memory);
        double_as_thread(2);
        if (how >= 2)
            double_acquire(pinned);
        OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
        double_as_thread(0);
        double_handoff(1, 0);
        fixture_close_with(DOUBLE_UNORDERED, how == 0 || how == 3);
    }
}

static void a_handoff_covers_only_what_was_before_it(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        fixture_open(DOUBLE_RANDOM);
        uint8_t *pinned = fixture_pinned(LEN);
        double_handoff(0, 1);
        double_as_thread(1);
        double_host_write(pinned, 10);
        double_handoff(1, 2);
        if (late)
            double_host_write(pinned, 10);
        double_as_thread(2);
        double_host_read(pinned, 10);
        double_handoff(1, 0);
        double_handoff(2, 0);
        double_as_thread(0);
        fixture_close_with(DOUBLE_UNORDERED, late);
    }
}

/*
 * Another thread that has seen the launch's end has not seen what the launching thread did
 * afterwards.
 */
static void a_launch_covers_only_what_was_before_it(void **state)
{
    (void)state;
    for (int late = 0; late < 2; late++) {
        fixture_open(DOUBLE_EARLY);
        uint8_t *pinned = fixture_pinned(LEN);
        cudaStream_t stream = fixture_stream();
        if (!late)
            double_host_write(pinned, 10);
        OK(double_launch_spin(stream, 1));
        if (late)
            double_host_write(pinned, 10);
        double_as_thread(1);
        OK(cudaStreamSynchronize(stream));
        double_host_write(pinned, 10);
        double_handoff(1, 0);
        double_as_thread(0);
        fixture_close_with(DOUBLE_UNORDERED, late);
    }
}

static void trusted_threads_are_ordered_by_their_calls(void **state)
{
    (void)state;
    struct double_options options = {.policy = DOUBLE_LATE};
    double_open(&options);
    double_as_thread(0);
    void *pinned, *memory;
    cudaStream_t stream;
    OK(cudaMallocHost(&pinned, LEN));
    OK(cudaMalloc(&memory, LEN));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    double_host_write(pinned, LEN);
    double_as_thread(1);
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
    assert_int_equal(double_found(DOUBLE_UNORDERED), 0);
    double_host_write(pinned, LEN); /* the device is not trusted */
    assert_int_equal(double_found(DOUBLE_UNORDERED), 1);
    OK(cudaStreamSynchronize(stream));
    double_as_thread(2);
    double_host_write(pinned, LEN);
    OK(cudaFree(memory));
    OK(cudaFreeHost(pinned));
    OK(cudaStreamDestroy(stream));
    assert_int_equal(double_close(), 1);
}

static void a_thread_has_its_own_device_error_and_mode(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    int device = -1;
    OK(cudaSetDevice(1));
    assert_int_equal(cudaSetDevice(2), cudaErrorInvalidDevice);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeGlobal);
    double_as_thread(1);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    OK(cudaPeekAtLastError());
    mode = cudaStreamCaptureModeThreadLocal;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeGlobal);
    double_as_thread(0);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 1);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetLastError(), cudaErrorInvalidDevice);
    OK(cudaGetLastError());
    mode = cudaStreamCaptureModeGlobal;
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(mode, cudaStreamCaptureModeRelaxed);
    fixture_close();
}

static void a_launch_goes_to_the_current_device(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    cudaStream_t stream = fixture_stream();
    OK(double_launch_spin(stream, 1));
    OK(cudaSetDevice(1));
    assert_int_equal(double_launch_spin(stream, 1), cudaErrorInvalidResourceHandle);
    fixture_close();
}

static void counts_are_kept_by_thread_since_the_mark(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *pinned = fixture_pinned(LEN), *memory = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    cudaEvent_t event = fixture_event();
    assert_int_equal(double_count(0).allocations, 4);
    double_mark();
    assert_int_equal(double_count(0).calls, 0);
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
    OK(cudaMemcpyAsync(memory + 50, memory, 50, cudaMemcpyDeviceToDevice, stream));
    OK(cudaMemcpyAsync(pinned, memory, 30, cudaMemcpyDeviceToHost, stream));
    OK(cudaEventRecord(event, stream));
    double_as_thread(1);
    OK(cudaEventSynchronize(event));
    OK(cudaStreamSynchronize(stream));
    OK(cudaDeviceSynchronize());
    struct double_counts counts = double_count(0);
    assert_int_equal(counts.bytes_h2d, LEN);
    assert_int_equal(counts.bytes_d2d, 50);
    assert_int_equal(counts.bytes_d2h, 30);
    assert_int_equal(counts.copies, 3);
    assert_int_equal(counts.blocking, 0);
    assert_int_equal(counts.pageable, 0);
    assert_int_equal(counts.allocations, 0);
    assert_int_equal(double_count(1).blocking, 3);
    assert_int_equal(double_count(DOUBLE_ALL_THREADS).calls, 7);
    assert_int_equal(double_calls("cudaMemcpyAsync"), 3);
    double_as_thread(0);
    fixture_close();
}

/* All processes must see the same uuids, and all devices must have different ones. */
static void a_device_is_known_by_its_uuid(void **state)
{
    (void)state;
    struct cudaDeviceProp first, again, second;
    fixture_open(DOUBLE_LATE);
    OK(cudaGetDeviceProperties(&first, 0));
    OK(cudaGetDeviceProperties(&again, 0));
    OK(cudaGetDeviceProperties(&second, 1));
    assert_string_equal(first.name, "double of a GPU");
    assert_memory_equal(first.uuid.bytes, again.uuid.bytes, sizeof first.uuid.bytes);
    assert_memory_not_equal(first.uuid.bytes, second.uuid.bytes, sizeof first.uuid.bytes);
    assert_int_equal(cudaGetDeviceProperties(&first, 2), cudaErrorInvalidDevice);
    assert_int_equal(cudaGetDeviceProperties(NULL, 0), cudaErrorInvalidValue);
    fixture_close();
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_copy_from_locked_memory_reads_when_it_runs),
        cmocka_unit_test(pageable_bytes_are_taken_between_the_call_and_the_copy),
        cmocka_unit_test(pageable_memory_may_be_written_once_the_copy_has_ended),
        cmocka_unit_test(a_copy_to_pageable_memory_returns_when_it_has_ended),
        cmocka_unit_test(the_host_may_write_what_a_copy_read_once_it_has_ended),
        cmocka_unit_test(a_query_that_says_no_orders_nothing),
        cmocka_unit_test(reading_during_a_copy_that_reads_is_no_conflict),
        cmocka_unit_test(a_handoff_orders_threads),
        cmocka_unit_test(a_handoff_covers_only_what_was_before_it),
        cmocka_unit_test(a_launch_covers_only_what_was_before_it),
        cmocka_unit_test(trusted_threads_are_ordered_by_their_calls),
        cmocka_unit_test(a_thread_has_its_own_device_error_and_mode),
        cmocka_unit_test(a_device_is_known_by_its_uuid),
        cmocka_unit_test(a_launch_goes_to_the_current_device),
        cmocka_unit_test(counts_are_kept_by_thread_since_the_mark),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
