/* SPDX-License-Identifier: Apache-2.0 */
/*
 * GPUs with the CUDA runtime: the table "cuda". Each function makes its calls between
 * mr_cuda_call_begin() and mr_cuda_call_end().
 *
 * Invariant: functions that free something are also called on failed devices, and try everything
 * once. If a stream of the caller's belongs to another device, that is the caller's mistake and not
 * a failure of the device.
 */
#include "pinned/device.h"

#include "base/thread.h"
#include "pinned/cuda_call.h"
#include "pinned/cuda_find.h"
#include "pinned/cuda_pin.h"
#include "pinned/cuda_range.h"
#include "pinned/finish_cuda.h"

#include <stdlib.h>
#include <string.h>

struct handle {
    struct mr_device_handle base;
    struct mr_cuda_pins pins;
};

static mr_status enter_device(struct mr_device_handle *handle, mr_error *error)
{
    int32_t id = handle->device.id;
    enum cudaStreamCaptureMode mode = cudaStreamCaptureModeRelaxed;
    /*
     * In this order: exchanging the mode makes a context on the current device, which is 0 in a new
     * thread.
     */
    struct mr_cuda_call call = {.code = cudaSetDevice(id),
                                .failed = "cudaSetDevice",
                                .previous = MR_CUDA_ANY_DEVICE,
                                .borrowed = MR_CUDA_ANY_DEVICE};
    if (call.code == cudaSuccess) {
        call.code = cudaThreadExchangeStreamCaptureMode(&mode);
        call.failed = "cudaThreadExchangeStreamCaptureMode";
    }
    return mr_cuda_call_end(&call, id, error, "cudaSetDevice");
}

/*
 * If the GPU has priorities, the finishing kernel runs before the consumer's kernels; for copies it
 * makes no difference. MR_CUDA_PRIORITY=default turns this off, to measure what it costs the
 * consumer.
 */
static mr_status make_stream(struct mr_device_handle *handle, void **stream_out, mr_error *error)
{
    int32_t id = handle->device.id;
    int least = 0;
    int greatest = 0;
    const char *asked = getenv("MR_CUDA_PRIORITY");
    struct mr_cuda_call call = mr_cuda_call_begin(id);
    if (call.code == cudaSuccess && !(asked && strcmp(asked, "default") == 0))
        call.code = cudaDeviceGetStreamPriorityRange(&least, &greatest);
    mr_status status = mr_cuda_call_end(&call, id, error, "cudaDeviceGetStreamPriorityRange");
    if (status != MR_OK)
        return status;

    cudaStream_t stream = NULL;
    call = mr_cuda_call_begin(id);
    if (call.code == cudaSuccess)
        call.code = cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest);
    *stream_out = stream;
    return mr_cuda_call_end(&call, id, error, "cudaStreamCreateWithPriority");
}

static void end_stream(const struct mr_device_handle *handle, void *stream)
{
    if (!stream)
        return;
    struct mr_cuda_call call = mr_cuda_call_begin_any(handle->device.id);
    call.code = cudaStreamDestroy(stream);
    (void)mr_cuda_call_end(&call, handle->device.id, NULL, "cudaStreamDestroy");
}

static mr_status split_streams(struct mr_device_handle *handle, mr_error *error)
{
    return make_stream(handle, &handle->finish_stream, error);
}

static mr_status load_kernels(struct mr_device_handle *handle, mr_error *error)
{
    int32_t id = handle->device.id;
    static const struct mr_finish none;
    struct mr_finish_job job = {.finish = &none};
    struct mr_cuda_call call = mr_cuda_call_begin(id);
    if (call.code == cudaSuccess)
        call.code = (cudaError_t)mr_finish_cuda_launch(&job, handle->copy_stream);
    return mr_cuda_call_end(&call, id, error, "cudaLaunchKernel (loading the finishing kernel)");
}

static void close_handle(struct mr_device_handle *handle)
{
    struct handle *own = (struct handle *)handle;
    mr_cuda_pin_undo(&own->pins, handle->device.id);
    end_stream(handle, handle->finish_stream);
    end_stream(handle, handle->copy_stream);
    free(own);
}

static mr_status set_up(int32_t id, struct mr_device_handle *handle, mr_error *error)
{
    mr_status status = mr_cuda_find_ordinal(id, &handle->device.id, error);
    if (status == MR_OK)
        status = enter_device(handle, error);
    if (status == MR_OK)
        status = make_stream(handle, &handle->copy_stream, error);
    if (status == MR_OK)
        status = load_kernels(handle, error);
    return status;
}

struct opening {
    int32_t id;
    struct mr_device_handle *handle;
    mr_error *error;
    mr_status status;
};

static void *set_up_main(void *arg)
{
    struct opening *opening = arg;
    opening->status = set_up(opening->id, opening->handle, opening->error);
    if (opening->status != MR_OK)
        close_handle(opening->handle); /* in this thread, which has chosen the device */
    return NULL;
}

/*
 * Runs in a separate thread, because the caller's may never have chosen a device: setting it back
 * would make a context on device 0.
 */
static mr_status open_handle(int32_t id, struct mr_device_handle **handle_out, mr_error *error)
{
    *handle_out = NULL;
    struct handle *own = calloc(1, sizeof *own);
    if (!own)
        return mr_error_memory(error, sizeof *own);
    own->base = (struct mr_device_handle){.ops = &mr_device_cuda,
                                          .device = {.kind = MR_DEVICE_CUDA, .id = id}};
    struct opening opening = {.id = id, .handle = &own->base, .error = error};
    pthread_t thread;
    int rc = mr_thread_start(&thread, set_up_main, &opening);
    if (rc == 0)
        (void)pthread_join(thread, NULL);
    else
        opening.status =
            mr_error_os(error, MR_ERR_NO_MEMORY, rc, "a thread to open cuda:%d", (int)id);
    if (rc != 0)
        free(own);
    else if (opening.status == MR_OK)
        *handle_out = &own->base;
    return opening.status;
}

static mr_status pin_slots(struct mr_device_handle *handle, void *base, uint64_t slot_bytes,
                           uint32_t n_slots, mr_error *error)
{
    struct handle *own = (struct handle *)handle;
    return mr_cuda_pin_slots(&own->pins, handle->device.id, base, slot_bytes, n_slots, error);
}

static void unpin_slots(struct mr_device_handle *handle)
{
    mr_cuda_pin_undo(&((struct handle *)handle)->pins, handle->device.id);
}

static mr_status alloc_memory(struct mr_device_handle *handle, uint64_t len_bytes,
                              void **memory_out, mr_error *error)
{
    struct mr_cuda_call call = mr_cuda_call_begin(handle->device.id);
    if (call.code == cudaSuccess)
        call.code = cudaMalloc(memory_out, len_bytes);
    return mr_cuda_call_end(&call, handle->device.id, error, "cudaMalloc of %llu bytes",
                            (unsigned long long)len_bytes);
}

static void free_memory(struct mr_device_handle *handle, void *memory)
{
    struct mr_cuda_call call = mr_cuda_call_begin(handle->device.id);
    call.code = cudaFree(memory);
    (void)mr_cuda_call_end(&call, handle->device.id, NULL, "cudaFree");
}

static mr_status copy_in(struct mr_device_handle *handle, void *device, const void *host,
                         uint64_t len_bytes, mr_error *error)
{
    struct mr_cuda_call call = mr_cuda_call_begin(handle->device.id);
    if (call.code == cudaSuccess)
        call.code =
            cudaMemcpyAsync(device, host, len_bytes, cudaMemcpyHostToDevice, handle->copy_stream);
    return mr_cuda_call_end(&call, handle->device.id, error,
                            "cudaMemcpyAsync of %llu bytes to the device",
                            (unsigned long long)len_bytes);
}

static mr_status finish_rows(struct mr_device_handle *handle, const struct mr_finish_job *job,
                             mr_error *error)
{
    if (job->n == 0)
        return MR_OK;
    struct mr_cuda_call call = mr_cuda_call_begin(handle->device.id);
    if (call.code == cudaSuccess)
        call.code = (cudaError_t)mr_finish_cuda_launch(job, mr_device_finish_stream(handle));
    return mr_cuda_call_end(&call, handle->device.id, error,
                            "cudaLaunchKernel of the finishing kernel for %u samples",
                            (unsigned)job->n);
}

static mr_status event_create(struct mr_device_handle *handle, void **event_out, mr_error *error)
{
    cudaEvent_t event = NULL;
    struct mr_cuda_call call = mr_cuda_call_begin(handle->device.id);
    if (call.code == cudaSuccess)
        call.code = cudaEventCreateWithFlags(&event, cudaEventBlockingSync);
    if (call.code == cudaSuccess)
        *event_out = event;
    return mr_cuda_call_end(&call, handle->device.id, error, "cudaEventCreateWithFlags");
}

static void event_destroy(struct mr_device_handle *handle, void *event)
{
    struct mr_cuda_call call = mr_cuda_call_begin_any(handle->device.id);
    call.code = cudaEventDestroy(event);
    (void)mr_cuda_call_end(&call, handle->device.id, NULL, "cudaEventDestroy");
}

/* Like mr_cuda_call_end(), but a stream of another device is the caller's mistake. */
static mr_status end_of_stream(const struct mr_cuda_call *call, struct mr_device_handle *handle,
                               const void *stream, const char *name, mr_error *error)
{
    mr_status status = mr_cuda_call_end(call, handle->device.id, error, "%s", name);
    bool refused =
        call->code == cudaErrorInvalidResourceHandle || call->code == cudaErrorInvalidValue;
    if (!refused || call->failed || !stream || stream == handle->copy_stream ||
        stream == handle->finish_stream)
        return status;
    return mr_error_set(error, MR_ERR_INVALID, "the stream is not one of cuda:%d: %s: %s (%s)",
                        (int)handle->device.id, name, cudaGetErrorString(call->code),
                        cudaGetErrorName(call->code));
}

static mr_status record_event(struct mr_device_handle *handle, void *event, void *stream,
                              mr_error *error)
{
    struct mr_cuda_call call = mr_cuda_call_begin_on(stream, handle->device.id);
    if (call.code == cudaSuccess)
        call.code = cudaEventRecord(event, stream);
    return end_of_stream(&call, handle, stream, "cudaEventRecord", error);
}

static mr_status wait_for(struct mr_device_handle *handle, void *stream, void *event,
                          mr_error *error)
{
    struct mr_cuda_call call = mr_cuda_call_begin_on(stream, handle->device.id);
    if (call.code == cudaSuccess)
        call.code = cudaStreamWaitEvent(stream, event, 0);
    return end_of_stream(&call, handle, stream, "cudaStreamWaitEvent", error);
}

static mr_status sync_event(struct mr_device_handle *handle, void *event, mr_error *error)
{
    struct mr_cuda_call call = mr_cuda_call_begin_any(handle->device.id);
    if (call.code == cudaSuccess)
        call.code = cudaEventSynchronize(event);
    return mr_cuda_call_end(&call, handle->device.id, error, "cudaEventSynchronize");
}

static mr_status get_elapsed(struct mr_device_handle *handle, void *begin, void *end,
                             int64_t *ns_out, mr_error *error)
{
    float ms = 0;
    struct mr_cuda_call call = mr_cuda_call_begin_any(handle->device.id);
    if (call.code == cudaSuccess)
        call.code = cudaEventElapsedTime(&ms, begin, end);
    if (call.code == cudaSuccess)
        *ns_out = (int64_t)((double)ms * 1e6);
    return mr_cuda_call_end(&call, handle->device.id, error, "cudaEventElapsedTime");
}

/*
 * cudaErrorStreamCaptureImplicit: the query was about the default stream, while a blocking stream
 * is in a capture.
 */
static mr_status check_capture(struct mr_device_handle *handle, void *stream, mr_error *error)
{
    enum cudaStreamCaptureStatus capture = cudaStreamCaptureStatusNone;
    struct mr_cuda_call call = mr_cuda_call_begin_on(stream, handle->device.id);
    if (call.code == cudaSuccess)
        call.code = cudaStreamIsCapturing(stream, &capture);
    mr_status status = end_of_stream(&call, handle, stream, "cudaStreamIsCapturing", error);
    if (!call.failed && call.code == cudaErrorStreamCaptureImplicit)
        return mr_error_set(
            error, MR_ERR_STATE,
            "cuda:%d: the default stream cannot be used while another stream is in a capture",
            (int)handle->device.id);
    if (status == MR_OK && capture != cudaStreamCaptureStatusNone)
        return mr_error_set(error, MR_ERR_STATE, "cuda:%d: the stream is in a capture",
                            (int)handle->device.id);
    return status;
}

/*
 * CUDA can tell since 12.8. Before that, or with an older driver, the stream is assumed to be the
 * current device's; recording an event on it later shows whether it is.
 */
static mr_status find_stream_device(const struct mr_device_handle *near, const void *stream,
                                    int32_t *id_out, mr_error *error)
{
    int id = 0;
    bool is_default = mr_stream_is_default(stream);
    struct mr_cuda_call call =
        mr_cuda_call_begin_any(near && !is_default ? near->device.id : MR_CUDA_ANY_DEVICE);
    if (call.code == cudaSuccess)
        call.code = cudaGetDevice(&id);
#if CUDART_VERSION >= 12080
    int own = 0;
    if (call.code == cudaSuccess && !is_default &&
        cudaStreamGetDevice((cudaStream_t)stream, &own) == cudaSuccess)
        id = own;
#endif
    *id_out = id;
    return mr_cuda_call_end(&call, id, error, "cudaGetDevice");
}

static int32_t numa_node(struct mr_device_handle *handle)
{
    return mr_cuda_find_node(handle->device.id);
}

const struct mr_device_ops mr_device_cuda = {
    .name = "cuda",
    .kind = MR_DEVICE_CUDA,
    .count = mr_cuda_find_count,
    .open = open_handle,
    .close = close_handle,
    .enter = enter_device,
    .pin = pin_slots,
    .unpin = unpin_slots,
    .split = split_streams,
    .alloc = alloc_memory,
    .free = free_memory,
    .copy_in = copy_in,
    .finish = finish_rows,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record_event,
    .wait = wait_for,
    .sync = sync_event,
    .elapsed = get_elapsed,
    .check_capture = check_capture,
    .stream_device = find_stream_device,
    .numa_node = numa_node,
    .range_push = mr_cuda_range_push,
    .range_pop = mr_cuda_range_pop,
};
