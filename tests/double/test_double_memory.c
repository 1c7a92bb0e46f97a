/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory of devices and page-locked memory: which device has it, for how long, and that all of it
 * is given back.
 */
#include "tests/double/double_fixture.h"
#include "tests/support/assert_words.h"

#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEN = 100, PAGE = 4096 };

static void the_host_cannot_read_device_memory(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    const volatile uint8_t *memory = fixture_device(LEN);
    pid_t pid = fork();
    if (pid == 0) {
        (void)signal(SIGSEGV, SIG_DFL);
        (void)memory[0];
        _exit(0);
    }
    int status;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_true(WIFSIGNALED(status));
    assert_int_equal(WTERMSIG(status), SIGSEGV);
    fixture_close();
}

static void new_memory_is_not_zero(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    fixture_expect(fixture_device(LEN), LEN, 0xdb);
    fixture_close();
}

static void memory_is_freed_once(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory;
    OK(cudaMalloc((void **)&memory, LEN));
    assert_int_equal(cudaFree(memory + 1), cudaErrorInvalidValue);
    OK(cudaFree(memory));
    assert_int_equal(cudaFree(memory), cudaErrorInvalidValue);
    OK(cudaFree(NULL));
    assert_null(double_host_view(memory));
    assert_words(double_report(), "which was freed before");
    fixture_close_with(DOUBLE_MISUSE, 2);
}

static void freed_memory_is_not_used(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory, *pinned = fixture_pinned(LEN);
    cudaStream_t stream = fixture_stream();
    OK(cudaMalloc((void **)&memory, LEN));
    OK(cudaFree(memory));
    fixture_device(LEN); /* takes another address */
    assert_int_equal(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemsetAsync(memory, 0, LEN, stream), cudaErrorInvalidValue);
    assert_int_equal(double_launch_fill(stream, memory, LEN, 1), cudaErrorInvalidValue);
    fixture_close_with(DOUBLE_MISUSE, 3);
}

static void memory_is_for_its_own_device(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory = fixture_device(LEN), *pinned = fixture_pinned(LEN);
    OK(cudaSetDevice(1));
    cudaStream_t stream = fixture_stream();
    assert_int_equal(double_device_of(memory), 0);
    assert_int_equal(double_device_of(pinned), -1);
    assert_int_equal(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream),
                     cudaErrorInvalidValue);
    assert_int_equal(double_launch_read(stream, memory, LEN, NULL, NULL), cudaErrorInvalidValue);
    assert_words(double_report(), "on device 1 of");
    assert_words(double_report(), "which is device 0's");
    fixture_close_with(DOUBLE_MISUSE, 2);
}

static void devices_copy_to_each_other(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *here = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    OK(cudaSetDevice(1));
    uint8_t *there = fixture_device(LEN);
    OK(cudaSetDevice(0));
    OK(double_launch_fill(stream, here, LEN, 9));
    OK(cudaMemcpyAsync(there, here, LEN, cudaMemcpyDefault, stream));
    OK(cudaStreamSynchronize(stream));
    fixture_expect(there, LEN, 9);
    fixture_close();
}

static void accesses_past_the_end_are_reported(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory = fixture_device(LEN), *pinned = fixture_pinned(2 * LEN);
    cudaStream_t stream = fixture_stream();
    assert_int_equal(cudaMemcpyAsync(memory, pinned, LEN + 1, cudaMemcpyHostToDevice, stream),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(memory + LEN, pinned, 1, cudaMemcpyHostToDevice, stream),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(memory + LEN - 1, pinned, 1, cudaMemcpyHostToDevice, stream),
                     cudaSuccess);
    fixture_close_with(DOUBLE_MISUSE, 2);
}

static void a_copy_has_the_direction_of_its_kind(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *memory = fixture_device(LEN), *pinned = fixture_pinned(LEN);
    cudaStream_t stream = fixture_stream();
    assert_int_equal(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyDeviceToHost, stream),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyDeviceToDevice, stream),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaMemcpyAsync(pinned, memory, LEN, cudaMemcpyHostToDevice, stream),
                     cudaErrorInvalidValue);
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyDefault, stream));
    fixture_close();
}

static void a_device_has_limited_memory(void **state)
{
    (void)state;
    struct double_options options = {.n_devices = 2, .device_bytes = 1024};
    double_open(&options);
    void *memory, *more = &memory, *other;
    OK(cudaMalloc(&memory, 1000));
    assert_int_equal(cudaMalloc(&more, 1), cudaErrorMemoryAllocation);
    assert_null(more);
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&other, 1024));
    OK(cudaFree(other));
    OK(cudaFree(memory));
    OK(cudaSetDevice(0));
    OK(cudaMalloc(&memory, 1024));
    assert_int_equal(double_device_used(0), 1024);
    OK(cudaFree(memory));
    assert_int_equal(double_close(), 0);
}

static void freeing_does_not_wait_for_the_device(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory, *other = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    OK(cudaMalloc((void **)&memory, LEN));
    OK(double_launch_gate(stream, 0));
    OK(double_launch_fill(stream, other, LEN, 1));
    OK(cudaFree(memory)); /* otherwise this call would not return */
    fixture_expect(other, LEN, 0xdb);
    assert_int_equal(double_count(0).blocking, 1); /* as CUDA's may */
    double_open_gate(0);
    fixture_close();
}

static void memory_is_freed_after_what_uses_it(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *written, *read;
    cudaStream_t stream = fixture_stream(), other = fixture_stream();
    OK(cudaMalloc((void **)&written, LEN));
    OK(cudaMalloc((void **)&read, LEN));
    OK(double_launch_fill(stream, read, LEN, 1));
    OK(cudaStreamSynchronize(stream));
    OK(double_launch_fill(stream, written, LEN, 1));
    OK(double_launch_read(stream, read, LEN, NULL, NULL));
    OK(cudaStreamSynchronize(other)); /* not theirs */
    OK(cudaFree(written));
    assert_words(double_report(), "cudaFree (host thread 0");
    assert_int_equal(double_found(DOUBLE_UNORDERED), 1);
    OK(cudaFree(read));
    assert_int_equal(double_found(DOUBLE_UNORDERED), 2);
    double_run_all(); /* the bytes stay until then */
    fixture_close_with(DOUBLE_UNORDERED, 2);
}

static void a_wait_orders_the_freeing(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory, *other;
    cudaStream_t stream = fixture_stream();
    cudaEvent_t event = fixture_event();
    OK(cudaMalloc((void **)&memory, LEN));
    OK(cudaMalloc((void **)&other, LEN));
    OK(double_launch_fill(stream, memory, LEN, 1));
    OK(cudaEventRecord(event, stream));
    OK(double_launch_fill(stream, other, LEN, 1));
    OK(cudaEventSynchronize(event));
    OK(cudaFree(memory));
    OK(cudaDeviceSynchronize());
    OK(cudaFree(other));
    fixture_close();
}

static void registrations_do_not_overlap(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *pages = aligned_alloc(PAGE, 4 * PAGE);
    OK(cudaHostRegister(pages + PAGE, PAGE, cudaHostRegisterPortable));
    assert_int_equal(cudaHostRegister(pages, 2 * PAGE, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaHostRegister(pages + PAGE, 1, 0), cudaErrorHostMemoryAlreadyRegistered);
    assert_int_equal(cudaHostRegister(pages, 0, 0), cudaErrorInvalidValue);
    OK(cudaHostRegister(pages, PAGE, 0));
    OK(cudaHostRegister(pages + 2 * PAGE, PAGE, 0));
    assert_int_equal(double_found(DOUBLE_MISUSE), 0);
    OK(cudaHostRegister(pages + 3 * PAGE + 8, 8, 0)); /* not a page's beginning */
    assert_int_equal(double_found(DOUBLE_MISUSE), 1);
    OK(cudaHostUnregister(pages));
    assert_int_equal(cudaHostUnregister(pages), cudaErrorHostMemoryNotRegistered);
    assert_int_equal(cudaHostUnregister(pages + PAGE + 1), cudaErrorHostMemoryNotRegistered);
    OK(cudaHostUnregister(pages + PAGE));
    OK(cudaHostUnregister(pages + 2 * PAGE));
    OK(cudaHostUnregister(pages + 3 * PAGE + 8));
    fixture_close_with(DOUBLE_MISUSE, 3);
    free(pages);
}

static void a_copy_stays_within_one_registration(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *pages = aligned_alloc(PAGE, 3 * PAGE), *memory = fixture_device((size_t)3 * PAGE);
    memset(pages, 1, (size_t)3 * PAGE);
    cudaStream_t stream = fixture_stream();
    OK(cudaHostRegister(pages, PAGE, 0));
    OK(cudaHostRegister(pages + PAGE, PAGE, 0));
    OK(cudaMemcpyAsync(memory, pages + PAGE - 8, 8, cudaMemcpyHostToDevice, stream));
    assert_int_equal(cudaMemcpyAsync(memory, pages + PAGE - 8, 16, cudaMemcpyHostToDevice, stream),
                     cudaErrorInvalidValue);
    assert_int_equal(
        cudaMemcpyAsync(memory, pages + 2 * PAGE - 8, 16, cudaMemcpyHostToDevice, stream),
        cudaErrorInvalidValue); /* ends in pageable memory */
    OK(cudaStreamSynchronize(stream));
    assert_int_equal(double_count(0).pageable, 0);
    OK(cudaHostUnregister(pages));
    OK(cudaHostUnregister(pages + PAGE));
    fixture_close_with(DOUBLE_MISUSE, 2);
    free(pages);
}

static void only_portable_memory_is_locked_for_all_devices(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    uint8_t *pages = aligned_alloc(PAGE, 2 * PAGE);
    memset(pages, 1, (size_t)2 * PAGE);
    OK(cudaHostRegister(pages, PAGE, 0));
    OK(cudaHostRegister(pages + PAGE, PAGE, cudaHostRegisterPortable));
    OK(cudaSetDevice(1));
    uint8_t *memory = fixture_device(PAGE);
    cudaStream_t stream = fixture_stream();
    OK(cudaMemcpyAsync(memory, pages + PAGE, PAGE, cudaMemcpyHostToDevice, stream));
    assert_int_equal(double_count(0).pageable, 0);
    OK(cudaMemcpyAsync(memory, pages, PAGE, cudaMemcpyHostToDevice, stream));
    assert_int_equal(double_count(0).pageable, 1);
    OK(cudaStreamSynchronize(stream));
    OK(cudaHostUnregister(pages));
    OK(cudaHostUnregister(pages + PAGE));
    fixture_close();
    free(pages);
}

static void a_long_registration_may_be_refused(void **state)
{
    (void)state;
    struct double_options options = {.registration_bytes = PAGE};
    double_open(&options);
    uint8_t *pages = aligned_alloc(PAGE, 2 * PAGE);
    assert_int_equal(cudaHostRegister(pages, 2 * PAGE, 0), cudaErrorMemoryAllocation);
    OK(cudaHostRegister(pages, PAGE, 0));
    OK(cudaHostUnregister(pages));
    assert_int_equal(double_close(), 0);
    free(pages);
}

static void memory_is_not_unlocked_under_a_copy(void **state)
{
    (void)state;
    for (int waits = 0; waits < 2; waits++) {
        fixture_open(DOUBLE_LATE);
        uint8_t *page = aligned_alloc(PAGE, PAGE), *memory = fixture_device(PAGE);
        cudaStream_t stream = fixture_stream();
        OK(cudaHostRegister(page, PAGE, 0));
        OK(cudaMemcpyAsync(memory, page, 2000, cudaMemcpyHostToDevice, stream));
        if (waits)
            OK(cudaStreamSynchronize(stream));
        double_as_thread(1);
        double_host_write(page + 2000, 1); /* host threads may write: for them the memory stays */
        double_as_thread(0);
        OK(cudaHostUnregister(page));
        free(page);
        fixture_close_with(DOUBLE_UNORDERED, !waits);
    }
}

static void what_is_left_over_is_named(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    void *memory, *pinned, *page = aligned_alloc(PAGE, PAGE);
    cudaStream_t stream;
    cudaEvent_t event;
    cudaGraph_t graph;
    cudaGraphExec_t exec;
    OK(cudaMalloc(&memory, 123));
    OK(cudaMallocHost(&pinned, 77));
    OK(cudaHostRegister(page, PAGE, 0));
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaStreamBeginCapture(stream, cudaStreamCaptureModeRelaxed));
    OK(cudaStreamEndCapture(stream, &graph));
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(double_launch_spin(NULL, 1)); /* the default stream is not given back by the program */
    assert_int_equal(double_close(), 7);
    assert_words(double_report(), "left over: 123 bytes on device 0\n");
    assert_words(double_report(), "left over: 77 bytes of host memory, allocated\n");
    assert_words(double_report(), "left over: 4096 bytes of host memory, registered\n");
    assert_words(double_report(), "left over: stream 1 of device 0\n");
    assert_words(double_report(), "left over: event 1 of device 0\n");
    assert_words(double_report(), "left over: a graph");
    assert_words(double_report(), "left over: an executable graph");
    free(page);
}

static void handles_end_when_they_are_destroyed(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    cudaStream_t stream, good = fixture_stream();
    cudaEvent_t event;
    OK(cudaStreamCreate(&stream));
    OK(cudaEventCreate(&event));
    OK(cudaStreamDestroy(stream));
    OK(cudaEventDestroy(event));
    assert_int_equal(cudaStreamDestroy(stream), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaEventDestroy(event), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaEventRecord(event, good), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaStreamWaitEvent(good, event, 0), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaStreamDestroy(NULL), cudaErrorInvalidResourceHandle);
    fixture_close_with(DOUBLE_MISUSE, 5);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_host_cannot_read_device_memory),
        cmocka_unit_test(new_memory_is_not_zero),
        cmocka_unit_test(memory_is_freed_once),
        cmocka_unit_test(freed_memory_is_not_used),
        cmocka_unit_test(memory_is_for_its_own_device),
        cmocka_unit_test(devices_copy_to_each_other),
        cmocka_unit_test(accesses_past_the_end_are_reported),
        cmocka_unit_test(a_copy_has_the_direction_of_its_kind),
        cmocka_unit_test(a_device_has_limited_memory),
        cmocka_unit_test(freeing_does_not_wait_for_the_device),
        cmocka_unit_test(memory_is_freed_after_what_uses_it),
        cmocka_unit_test(a_wait_orders_the_freeing),
        cmocka_unit_test(registrations_do_not_overlap),
        cmocka_unit_test(a_copy_stays_within_one_registration),
        cmocka_unit_test(only_portable_memory_is_locked_for_all_devices),
        cmocka_unit_test(a_long_registration_may_be_refused),
        cmocka_unit_test(memory_is_not_unlocked_under_a_copy),
        cmocka_unit_test(what_is_left_over_is_named),
        cmocka_unit_test(handles_end_when_they_are_destroyed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
