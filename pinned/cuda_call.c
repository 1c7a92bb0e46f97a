/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What surrounds each call of the CUDA runtime.
 *
 * Invariant: after a fault on the device every call fails with that fault, the calls in here too. What begin changed is
 * undone all the same.
 */
#include "pinned/cuda_call.h"

#include "pinned/device.h"

#include <stdarg.h>
#include <stdio.h>

static bool keep_result(struct mr_cuda_call *call, cudaError_t code, const char *name)
{
    call->code = code;
    call->failed = code == cudaSuccess ? NULL : name;
    return code == cudaSuccess;
}

/* Relaxed before the device is touched: what sets it up may itself be forbidden in a capture. */
struct mr_cuda_call mr_cuda_call_begin(int32_t device)
{
    struct mr_cuda_call call = {
        .pending = cudaPeekAtLastError(), .mode = cudaStreamCaptureModeRelaxed, .previous = MR_CUDA_ANY_DEVICE};
    call.relaxed =
        keep_result(&call, cudaThreadExchangeStreamCaptureMode(&call.mode), "cudaThreadExchangeStreamCaptureMode");
    int current;
    if (!call.relaxed || device == MR_CUDA_ANY_DEVICE || !keep_result(&call, cudaGetDevice(&current), "cudaGetDevice"))
        return call;
    if (current != device && keep_result(&call, cudaSetDevice(device), "cudaSetDevice"))
        call.previous = current;
    return call;
}

/* Each is tried twice: a call that failed for once must not leave the caller on another device. */
static void undo_changes(const struct mr_cuda_call *call)
{
    if (call->previous != MR_CUDA_ANY_DEVICE && cudaSetDevice(call->previous) != cudaSuccess)
        (void)cudaSetDevice(call->previous);
    enum cudaStreamCaptureMode mode = call->mode;
    if (call->relaxed && cudaThreadExchangeStreamCaptureMode(&mode) != cudaSuccess) {
        mode = call->mode;
        (void)cudaThreadExchangeStreamCaptureMode(&mode);
    }
    if (call->pending == cudaSuccess)
        (void)cudaGetLastError();
}

mr_status mr_cuda_call_end(const struct mr_cuda_call *call, int32_t device, mr_error *error, const char *format, ...)
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
    return mr_error_set(error, status, "cuda:%d: %s%s%s: %s (%s)", (int)device, call->failed ? call->failed : "",
                        call->failed ? " before " : "", what, cudaGetErrorString(call->code),
                        cudaGetErrorName(call->code));
}

int32_t mr_cuda_call_device(const void *stream, int32_t device)
{
    return mr_stream_is_default(stream) ? device : MR_CUDA_ANY_DEVICE;
}
