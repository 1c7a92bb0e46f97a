/* SPDX-License-Identifier: Apache-2.0 */
/* Which context a thread has, which calls make one and where, and the driver's functions for it. */
#include "tests/double/double_fixture.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

static void begin(void)
{
    double_open(&(struct double_options){.n_devices = 3, .threads = DOUBLE_THREADS_DECLARED});
    double_as_thread(0);
}

static void end(uint32_t n_found)
{
    if (double_close() != n_found)
        fail_msg("%s", double_report());
}

static void *find(const char *symbol)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult result;
    OK(cudaGetDriverEntryPointByVersion(symbol, &function, 12000, cudaEnableDefault, &result));
    assert_int_equal(result, cudaDriverEntryPointSuccess);
    assert_non_null(function);
    return function;
}

static int get_current(void **context_out)
{
    return ((int (*)(void **))find("cuCtxGetCurrent"))(context_out);
}

static int set_current(void *context)
{
    return ((int (*)(void *))find("cuCtxSetCurrent"))(context);
}

static void *retain(int ordinal)
{
    void *context = NULL;
    int device = -1;
    assert_int_equal(((int (*)(int *, int))find("cuDeviceGet"))(&device, ordinal), 0);
    assert_int_equal(((int (*)(void **, int))find("cuDevicePrimaryCtxRetain"))(&context, device),
                     0);
    return context;
}

static int release(int device)
{
    return ((int (*)(int))find("cuDevicePrimaryCtxRelease"))(device);
}

static void expect_context(int device)
{
    void *context;
    assert_int_equal(double_thread_context(), device);
    assert_int_equal(get_current(&context), 0);
    assert_int_equal(context != NULL, device >= 0);
}

static void a_new_thread_has_no_context_and_chose_no_device(void **state)
{
    (void)state;
    int device = -1, n;
    begin();
    OK(cudaGetDeviceCount(&n));
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    (void)cudaPeekAtLastError();
    expect_context(-1);
    for (int i = 0; i < 3; i++)
        assert_false(double_has_context(i));
    end(0);
}

/* On device 0 if the thread chose none, whatever device the call concerns. */
static void a_call_that_needs_a_context_makes_that_of_the_threads_device(void **state)
{
    (void)state;
    for (int how = 0; how < 3; how++) {
        cudaEvent_t event;
        enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
        begin();
        OK(cudaSetDevice(1));
        expect_context(1);
        OK(cudaEventCreate(&event));
        assert_false(double_has_context(0));
        double_handoff(0, 1);
        double_as_thread(1);
        if (how == 0)
            OK(cudaThreadExchangeStreamCaptureMode(&mode));
        if (how == 1)
            OK(cudaEventQuery(event));
        if (how == 2)
            OK(cudaSetDevice(2));
        expect_context(how == 2 ? 2 : 0);
        assert_int_equal(double_has_context(0), how != 2);
        OK(cudaEventDestroy(event));
        end(0);
    }
}

static void a_bound_context_is_used_and_unbinding_does_not_change_the_choice(void **state)
{
    (void)state;
    int device;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    begin();
    assert_int_equal(set_current(retain(2)), 0);
    expect_context(2);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 2);
    OK(cudaThreadExchangeStreamCaptureMode(&mode));
    assert_int_equal(set_current(NULL), 0);
    expect_context(-1);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 0);
    assert_false(double_has_context(0));
    assert_true(double_has_context(2));
    OK(cudaSetDevice(1));
    assert_int_equal(set_current(NULL), 0);
    OK(cudaGetDevice(&device));
    assert_int_equal(device, 1); /* the choice outlives the context */
    assert_int_equal(release(2), 0);
    end(0);
}

static void misuse_of_contexts_is_reported(void **state)
{
    (void)state;
    void *function = &function;
    int device;
    enum cudaDriverEntryPointQueryResult result;
    begin();
    OK(cudaGetDriverEntryPointByVersion("cuNothing", &function, 12000, cudaEnableDefault, &result));
    assert_int_equal(result, cudaDriverEntryPointSymbolNotFound);
    assert_null(function);
    assert_int_not_equal(((int (*)(int *, int))find("cuDeviceGet"))(&device, 3), 0);
    assert_int_not_equal(set_current(&device), 0);
    assert_int_not_equal(release(0), 0);
    (void)retain(1);
    end(2);
    assert_int_equal(double_found(DOUBLE_MISUSE), 1);
    assert_int_equal(double_found(DOUBLE_LEFT_OVER), 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_new_thread_has_no_context_and_chose_no_device),
        cmocka_unit_test(a_call_that_needs_a_context_makes_that_of_the_threads_device),
        cmocka_unit_test(a_bound_context_is_used_and_unbinding_does_not_change_the_choice),
        cmocka_unit_test(misuse_of_contexts_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
