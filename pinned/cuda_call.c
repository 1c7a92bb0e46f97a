/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What surrounds each call of the CUDA runtime.
 *
 * Invariant: after a fault on the device every call fails with that fault, including the calls in
 * this file. What begin changed is undone all the same.
 *
 * Nearly every call of the runtime makes a context if the thread has none. It makes it on the
 * thread's device, which is 0 if the thread never chose one: hundreds of MB on another rank's GPU.
 * Only the driver can say whether a thread has a context. The context is also borrowed through the
 * driver, because the runtime would remember a cudaSetDevice() as the thread's choice.
 */
#include "pinned/cuda_call.h"

#include "pinned/device.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

static bool keep_result(struct mr_cuda_call *call, cudaError_t code, const char *name)
{
    call->code = code;
    call->failed = code == cudaSuccess ? NULL : name;
    return code == cudaSuccess;
}

/*
 * Functions of the driver, which exists if a device does. Their types are those of cuda.h where the
 * runtime's header lacks them.
 */
static struct {
    int (*get_current)(void **context);
    int (*set_current)(void *context);
    int (*get_device)(int *device, int ordinal);
    int (*retain)(void **context, int device);
    int (*release)(int device);
    _Atomic bool found;
    pthread_mutex_t lock;
} driver = {.lock = PTHREAD_MUTEX_INITIALIZER};

static bool find_function(const char *symbol, void *function_out)
{
    void *function = NULL;
    enum cudaDriverEntryPointQueryResult result = cudaDriverEntryPointSymbolNotFound;
#if CUDART_VERSION >= 12050
    cudaError_t code =
        cudaGetDriverEntryPointByVersion(symbol, &function, 12000, cudaEnableDefault, &result);
#else
    cudaError_t code = cudaGetDriverEntryPoint(symbol, &function, cudaEnableDefault, &result);
#endif
    memcpy(function_out, &function, sizeof function);
    return code == cudaSuccess && result == cudaDriverEntryPointSuccess && function;
}

static bool find_driver(void)
{
    if (driver.found)
        return true;
    pthread_mutex_lock(&driver.lock);
    if (!driver.found) /* another thread may have found them meanwhile and be using them */
        driver.found = find_function("cuCtxGetCurrent", &driver.get_current) &&
                       find_function("cuCtxSetCurrent", &driver.set_current) &&
                       find_function("cuDeviceGet", &driver.get_device) &&
                       find_function("cuDevicePrimaryCtxRetain", &driver.retain) &&
                       find_function("cuDevicePrimaryCtxRelease", &driver.release);
    pthread_mutex_unlock(&driver.lock);
    return driver.found;
}

/*
 * True if the thread now has the device's context. False: it has one already, or could not get one.
 * A thread without a context is in no capture, so these calls cannot be forbidden.
 */
static bool borrow_context(int32_t ordinal)
{
    void *context = NULL;
    int device;
    if (!find_driver() || driver.get_current(&context) != 0 || context ||
        driver.get_device(&device, ordinal) != 0 || driver.retain(&context, device) != 0)
        return false;
    if (driver.set_current(context) == 0)
        return true;
    (void)driver.release(device);
    return false;
}

static void return_context(int32_t ordinal)
{
    int device;
    (void)driver.set_current(NULL);
    if (driver.get_device(&device, ordinal) == 0)
        (void)driver.release(device);
}

/*
 * The capture mode is relaxed before the device is set: making a context may itself be forbidden in
 * a capture.
 */
static struct mr_cuda_call begin(int32_t device, bool needs_it)
{
    struct mr_cuda_call call = {.pending = cudaPeekAtLastError(),
                                .mode = cudaStreamCaptureModeRelaxed,
                                .previous = MR_CUDA_ANY_DEVICE,
                                .borrowed = MR_CUDA_ANY_DEVICE};
    if (device != MR_CUDA_ANY_DEVICE && borrow_context(device))
        call.borrowed = device;
    call.relaxed = keep_result(&call, cudaThreadExchangeStreamCaptureMode(&call.mode),
                               "cudaThreadExchangeStreamCaptureMode");
    int current;
    if (!call.relaxed || !needs_it || call.borrowed == device ||
        !keep_result(&call, cudaGetDevice(&current), "cudaGetDevice"))
        return call;
    if (current != device && keep_result(&call, cudaSetDevice(device), "cudaSetDevice"))
        call.previous = current;
    return call;
}

struct mr_cuda_call mr_cuda_call_begin(int32_t device)
{
    return begin(device, true);
}

struct mr_cuda_call mr_cuda_call_begin_any(int32_t device)
{
    return begin(device, false);
}

struct mr_cuda_call mr_cuda_call_begin_on(const void *stream, int32_t device)
{
    return begin(device, mr_stream_is_default(stream));
}

/* Each is tried twice: a single failure must not leave the caller on another device. */
static void undo_changes(const struct mr_cuda_call *call)
{
    if (call->previous != MR_CUDA_ANY_DEVICE && cudaSetDevice(call->previous) != cudaSuccess)
        (void)cudaSetDevice(call->previous);
    enum cudaStreamCaptureMode mode = call->mode;
    if (call->relaxed && cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) {
        mode = call->mode;
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
    }
    if (call->borrowed != MR_CUDA_ANY_DEVICE)
        return_context(call->borrowed);
    if (call->pending == cudaSuccess)
        (void)cudaGetLastError();
}

mr_status mr_cuda_call_end(const struct mr_cuda_call *call, int32_t device, mr_error *error,
                           const char *format, ...)
{
    undo_changes(call);
    if (call->code == cudaSuccess)
        return MR_OK;
    char what[300];
    va_list arguments;
    va_start(arguments, format);
    (void)vsnprintf(what, sizeof what, format, arguments);
    va_end(arguments);
    mr_status status = call->code == cudaErrorMemoryAllocation ? MR_ERR_NO_MEMORY : MR_ERR_DEVICE;
    return mr_error_set(error, status, "cuda:%d: %s%s%s: %s (%s)", (int)device,
                        call->failed ? call->failed : "", call->failed ? " before " : "", what,
                        cudaGetErrorString(call->code), cudaGetErrorName(call->code));
}
