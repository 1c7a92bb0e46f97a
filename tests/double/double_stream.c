/* SPDX-License-Identifier: Apache-2.0 */
/* Entry points of streams and of the device as a whole. */
#include "tests/double/double_machine.h"

#include <stdio.h>

static cudaError_t create(cudaStream_t *handle_out, unsigned flags, int device)
{
    if (!handle_out || flags > cudaStreamNonBlocking)
        return cudaErrorInvalidValue;
    *handle_out = (cudaStream_t)double_queue_create(device, flags != cudaStreamNonBlocking);
    return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t *handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamCreate", NULL, DOUBLE_CONTEXT | DOUBLE_ALLOCATES))
        return double_call_end(&call, call.error);
    return double_call_end(&call, create(handle, cudaStreamDefault, call.thread->device));
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *handle, unsigned int flags)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamCreateWithFlags", NULL,
                           DOUBLE_CONTEXT | DOUBLE_ALLOCATES))
        return double_call_end(&call, call.error);
    return double_call_end(&call, create(handle, flags, call.thread->device));
}

/* Priorities are accepted but have no effect. */
cudaError_t cudaStreamCreateWithPriority(cudaStream_t *handle, unsigned int flags, int priority)
{
    struct double_call call;
    (void)priority;
    if (!double_call_begin(&call, "cudaStreamCreateWithPriority", NULL,
                           DOUBLE_CONTEXT | DOUBLE_ALLOCATES))
        return double_call_end(&call, call.error);
    return double_call_end(&call, create(handle, flags, call.thread->device));
}

static bool is_default(cudaStream_t handle)
{
    return !handle || handle == cudaStreamLegacy || handle == cudaStreamPerThread;
}

/* Returns at once: the stream's operations still run. */
cudaError_t cudaStreamDestroy(cudaStream_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamDestroy", handle, DOUBLE_CONTEXT | DOUBLE_RELEASES))
        return double_call_end(&call, call.error);
    struct double_stream *stream = is_default(handle) ? NULL : double_queue_stream(handle);
    if (!stream)
        return double_call_end(&call, cudaErrorInvalidResourceHandle);
    if (stream->capture) {
        double_report_add(DOUBLE_MISUSE, "misuse: %s is destroyed while it captures", stream->name);
        double_capture_invalidate(stream->capture);
    }
    stream->destroyed = true;
    return double_call_end(&call, cudaSuccess);
}

cudaError_t cudaStreamSynchronize(cudaStream_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamSynchronize", handle,
                           DOUBLE_CONTEXT | DOUBLE_BLOCKS | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    struct double_stream *stream = double_queue_stream(handle);
    cudaError_t error = stream ? double_capture_check_sync(stream) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess) {
        double_schedule_wait_stream(stream);
        error = double_machine()->devices[stream->device].broken;
    }
    return double_call_end(&call, error);
}

cudaError_t cudaStreamQuery(cudaStream_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamQuery", handle, DOUBLE_CONTEXT | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    struct double_stream *stream = double_queue_stream(handle);
    cudaError_t error = stream ? double_capture_check_sync(stream) : cudaErrorInvalidResourceHandle;
    if (error == cudaSuccess && !double_schedule_is_stream_over(stream))
        error = cudaErrorNotReady;
    if (stream && double_machine()->devices[stream->device].broken != cudaSuccess)
        error = double_machine()->devices[stream->device].broken;
    return double_call_end(&call, error);
}

cudaError_t cudaStreamGetDevice(cudaStream_t handle,
                                int *device); /* in CUDA's headers since 12.8 */

cudaError_t cudaStreamGetDevice(cudaStream_t handle, int *device)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamGetDevice", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    struct double_stream *stream = double_queue_stream(handle);
    if (!stream || !device)
        return double_call_end(&call,
                               stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    *device = stream->device;
    return double_call_end(&call, cudaSuccess);
}

cudaError_t cudaDeviceSynchronize(void)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaDeviceSynchronize", NULL,
                           DOUBLE_CONTEXT | DOUBLE_BLOCKS | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    int device = call.thread->device;
    cudaError_t error = double_capture_check_device(device);
    if (error == cudaSuccess) {
        double_schedule_wait_device(device);
        error = double_machine()->devices[device].broken;
    }
    return double_call_end(&call, error);
}

cudaError_t cudaLaunchHostFunc(cudaStream_t handle, cudaHostFn_t fn, void *user)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaLaunchHostFunc", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    struct double_stream *stream = double_queue_stream(handle);
    if (!stream || !fn)
        return double_call_end(&call,
                               stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    struct double_work work = {.kind = DOUBLE_OP_HOST,
                               .name = "host function",
                               .host = fn,
                               .payload = user,
                               .gate = DOUBLE_NO_GATE};
    return double_call_end(&call, double_queue_issue(stream, &work, NULL, 0, NULL));
}

void double_name_stream(cudaStream_t handle, const char *name)
{
    double_machine_lock();
    struct double_stream *stream = double_queue_stream(handle);
    if (stream)
        (void)snprintf(stream->name, sizeof stream->name, "%s", name);
    double_machine_unlock();
}
