/* SPDX-License-Identifier: Apache-2.0 */
/* Injected errors: which call they meet, what a broken device does, machines without a driver. */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

enum { LEN = 100 };

static void the_nth_call_of_a_function_fails_once(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    cudaEvent_t event = fixture_event();
    cudaStream_t stream = fixture_stream();
    double_fail_at("cudaEventRecord", 2, cudaErrorNotSupported);
    OK(cudaEventRecord(event, stream));
    OK(cudaEventQuery(event));
    assert_int_equal(double_n_failed(), 0);
    assert_null(double_failed_in());
    assert_int_equal(cudaEventRecord(event, stream), cudaErrorNotSupported);
    assert_int_equal(cudaPeekAtLastError(), cudaErrorNotSupported);
    OK(cudaEventRecord(event, stream));
    assert_int_equal(double_n_failed(), 1);
    assert_string_equal(double_failed_in(), "cudaEventRecord");
    fixture_close();
}

static void the_nth_call_of_any_function_fails(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    int device;
    double_fail_at(NULL, 3, cudaErrorUnknown);
    OK(cudaGetDevice(&device));
    OK(cudaGetLastError());          /* does not count: it cannot fail */
    OK(double_launch_spin(NULL, 1)); /* does not count: it is the test's own */
    OK(cudaDeviceSynchronize());
    void *memory = &device;
    assert_int_equal(cudaMalloc(&memory, 1), cudaErrorUnknown);
    assert_string_equal(double_failed_in(), "cudaMalloc");
    assert_ptr_equal(memory, &device); /* and the call did nothing */
    fixture_close();
}

static void all_calls_from_the_nth_fail_until_the_failure_is_removed(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    int device;
    double_fail_from("cudaGetDevice", 2, cudaErrorNotPermitted);
    OK(cudaGetDevice(&device));
    for (int i = 0; i < 3; i++)
        assert_int_equal(cudaGetDevice(&device), cudaErrorNotPermitted);
    double_fail_never();
    OK(cudaGetDevice(&device));
    fixture_close();
}

static void calls_that_give_back_do_so_in_spite_of_errors(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    void *memory;
    cudaEvent_t event;
    OK(cudaMalloc(&memory, LEN));
    OK(cudaEventCreate(&event));
    double_fail_at("cudaFree", 1, cudaErrorUnknown);
    double_fail_at("cudaEventDestroy", 1, cudaErrorUnknown);
    assert_int_equal(cudaFree(memory), cudaErrorUnknown);
    assert_int_equal(cudaEventDestroy(event), cudaErrorUnknown);
    fixture_close();
}

static void a_sticky_error_stays_with_its_device(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    void *memory;
    uint8_t *pinned = fixture_pinned(LEN);
    cudaStream_t stream;
    cudaEvent_t event;
    OK(cudaSetDevice(1));
    OK(cudaMalloc(&memory, LEN));
    OK(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    OK(cudaEventCreate(&event));
    OK(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream));
    OK(cudaSetDevice(0));
    double_fail_at("cudaEventRecord", 1, cudaErrorIllegalAddress);
    /* device 1's, by its handles */
    assert_int_equal(cudaEventRecord(event, stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaEventSynchronize(event), cudaErrorIllegalAddress);
    assert_int_equal(cudaStreamQuery(stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaMemcpyAsync(memory, pinned, LEN, cudaMemcpyHostToDevice, stream),
                     cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress);
    assert_int_equal(cudaGetLastError(), cudaErrorIllegalAddress); /* and the error stays */
    OK(cudaMemset(fixture_device(LEN), 0, LEN));                   /* device 0 still works */
    OK(cudaStreamSynchronize(fixture_stream()));
    assert_int_equal(cudaSetDevice(1), cudaErrorIllegalAddress);
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
    assert_int_equal(cudaFree(memory), cudaErrorIllegalAddress); /* each is tried once */
    assert_int_equal(cudaEventDestroy(event), cudaErrorIllegalAddress);
    assert_int_equal(cudaStreamDestroy(stream), cudaErrorIllegalAddress);
    assert_int_equal(cudaSetDevice(0), cudaSuccess);
    assert_int_equal(double_count(0).blocking, 4);
    OK(cudaFreeHost(pinned));
    assert_int_equal(double_found(DOUBLE_MISUSE), 0);
    assert_int_equal(cudaFree(memory), cudaErrorIllegalAddress);
    assert_int_equal(double_found(DOUBLE_MISUSE), 1); /* not twice */
    double_close();
}

static void the_work_of_a_broken_device_is_dropped(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    cudaEvent_t event = fixture_event();
    OK(cudaMemset(memory, 0, LEN));
    OK(cudaDeviceSynchronize());
    OK(double_launch_gate(stream, 1));
    OK(double_launch_fill(stream, memory, LEN, 1));
    OK(cudaEventRecord(event, stream));
    OK(cudaSetDevice(1));
    uint8_t *other = fixture_device(LEN);
    cudaStream_t waits = fixture_stream();
    OK(cudaStreamWaitEvent(waits, event, 0));
    OK(double_launch_fill(waits, other, LEN, 2));
    double_break_device(0, cudaErrorLaunchFailure);
    OK(cudaStreamSynchronize(waits)); /* operations that cannot end are not waited for */
    fixture_expect(other, LEN, 2);
    fixture_expect(memory, LEN, 0);
    assert_int_equal(cudaEventSynchronize(event), cudaErrorLaunchFailure);
    double_close();
}

static void an_operation_may_fail_while_it_runs(void **state)
{
    (void)state;
    fixture_open(DOUBLE_LATE);
    uint8_t *memory = fixture_device(LEN);
    cudaStream_t stream = fixture_stream();
    double_fail_at(DOUBLE_RUN, 2, cudaErrorIllegalAddress);
    OK(double_launch_fill(stream, memory, LEN, 1));
    OK(double_launch_fill(stream, memory, LEN, 2));
    OK(double_launch_fill(stream, memory, LEN, 3));
    assert_int_equal(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    fixture_expect(memory, LEN, 1);
    assert_int_equal(double_launch_spin(stream, 1), cudaErrorIllegalAddress);
    double_close();
}

static void sticky_errors_come_only_from_calls_that_reach_a_device(void **state)
{
    (void)state;
    fixture_open(DOUBLE_EARLY);
    int device;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
    double_fail_at(NULL, 1, cudaErrorLaunchFailure);
    OK(cudaGetDevice(&device));
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
    double_close();
}

static void expect_all(cudaError_t error)
{
    int n = 77;
    void *memory = NULL;
    cudaStream_t stream = NULL;
    assert_int_equal(cudaGetDeviceCount(&n), error);
    assert_int_equal(n, 0);
    assert_int_equal(cudaMalloc(&memory, 1), error);
    assert_int_equal(cudaStreamCreate(&stream), error);
    assert_int_equal(cudaSetDevice(0), error);
    assert_int_equal(cudaDeviceSynchronize(), error);
    assert_int_equal(cudaPeekAtLastError(), error);
}

static void a_machine_without_a_driver(void **state)
{
    (void)state;
    struct double_options options = {.driver_version = -1};
    double_open(&options);
    int version = 77;
    OK(cudaDriverGetVersion(&version));
    assert_int_equal(version, 0);
    OK(cudaRuntimeGetVersion(&version));
    assert_int_equal(version, CUDART_VERSION);
    expect_all(cudaErrorInsufficientDriver);
    assert_false(double_is_initialised());
    assert_int_equal(double_close(), 0);
}

static void a_machine_with_an_old_driver(void **state)
{
    (void)state;
    struct double_options options = {.driver_version = 11040};
    double_open(&options);
    int version = 77;
    OK(cudaDriverGetVersion(&version));
    assert_int_equal(version, 11040);
    expect_all(cudaErrorInsufficientDriver);
    assert_int_equal(double_close(), 0);
}

static void a_machine_without_a_device(void **state)
{
    (void)state;
    struct double_options options = {.no_device = true};
    double_open(&options);
    expect_all(cudaErrorNoDevice);
    assert_int_equal(double_close(), 0);
}

static void forked_children_of_a_process_with_cuda_have_none(void **state)
{
    (void)state;
    for (int initialised = 0; initialised < 2; initialised++) {
        struct double_options options = {.n_devices = 3};
        double_open(&options);
        int n = 0;
        int version;
        OK(cudaDriverGetVersion(&version)); /* initialises nothing */
        if (initialised)
            OK(cudaGetDeviceCount(&n));
        assert_int_equal(double_is_initialised(), initialised);
        pid_t pid = fork();
        if (pid == 0)
            _exit(cudaGetDeviceCount(&n) ==
                          (initialised ? cudaErrorInitializationError : cudaSuccess)
                      ? n
                      : 99);
        int status;
        assert_int_equal(waitpid(pid, &status, 0), pid);
        assert_true(WIFEXITED(status));
        assert_int_equal(WEXITSTATUS(status), initialised ? 0 : 3);
        assert_int_equal(double_is_initialised(), initialised);
        assert_int_equal(double_close(), 0);
    }
}

static void errors_have_cudas_names_and_words(void **state)
{
    (void)state;
    assert_string_equal(cudaGetErrorName(cudaErrorStreamCaptureImplicit),
                        "cudaErrorStreamCaptureImplicit");
    assert_string_equal(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
    assert_string_equal(cudaGetErrorName((cudaError_t)12345), "unrecognized error code");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_nth_call_of_a_function_fails_once),
        cmocka_unit_test(the_nth_call_of_any_function_fails),
        cmocka_unit_test(all_calls_from_the_nth_fail_until_the_failure_is_removed),
        cmocka_unit_test(calls_that_give_back_do_so_in_spite_of_errors),
        cmocka_unit_test(a_sticky_error_stays_with_its_device),
        cmocka_unit_test(the_work_of_a_broken_device_is_dropped),
        cmocka_unit_test(an_operation_may_fail_while_it_runs),
        cmocka_unit_test(sticky_errors_come_only_from_calls_that_reach_a_device),
        cmocka_unit_test(a_machine_without_a_driver),
        cmocka_unit_test(a_machine_with_an_old_driver),
        cmocka_unit_test(a_machine_without_a_device),
        cmocka_unit_test(forked_children_of_a_process_with_cuda_have_none),
        cmocka_unit_test(errors_have_cudas_names_and_words),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
