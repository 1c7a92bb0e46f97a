/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Captures: which stream is in one, what threads may do meanwhile, and what invalidates one.
 *
 * Invariant: while a blocking stream captures, no thread may touch the legacy stream of its device.
 * For everything else the mode of the thread counts together with the mode of the captures.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>

static struct {
    struct double_capture *first; /* includes those that have ended: events point to them */
    uint64_t n;
} captures;

void double_capture_invalidate(struct double_capture *capture)
{
    capture->invalid = true;
}

static bool forbids(const struct double_capture *capture)
{
    const struct double_thread_state *thread = double_machine_thread();
    if (!capture->active || capture->invalid || capture->mode == cudaStreamCaptureModeRelaxed ||
        thread->mode == cudaStreamCaptureModeRelaxed)
        return false;
    bool mine = capture->thread == double_machine_thread_number();
    bool everybody =
        capture->mode == cudaStreamCaptureModeGlobal && thread->mode == cudaStreamCaptureModeGlobal;
    return mine || everybody;
}

cudaError_t double_capture_check_unsafe(void)
{
    cudaError_t error = cudaSuccess;
    for (struct double_capture *capture = captures.first; capture; capture = capture->next) {
        if (!forbids(capture))
            continue;
        double_capture_invalidate(capture);
        error = cudaErrorStreamCaptureUnsupported;
    }
    return error;
}

cudaError_t double_capture_check_legacy(const struct double_stream *stream, bool invalidate)
{
    cudaError_t error = cudaSuccess;
    if (!stream->legacy)
        return error;
    for (struct double_stream *other = double_queue_first(); other; other = other->next) {
        if (!other->blocking || !other->capture || other->device != stream->device)
            continue;
        if (invalidate)
            double_capture_invalidate(other->capture);
        error = cudaErrorStreamCaptureImplicit;
    }
    return error;
}

cudaError_t double_capture_check_sync(struct double_stream *stream)
{
    if (!stream->capture)
        return double_capture_check_legacy(stream, true);
    double_capture_invalidate(stream->capture);
    return cudaErrorStreamCaptureUnsupported;
}

cudaError_t double_capture_check_device(int device)
{
    cudaError_t error = cudaSuccess;
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next) {
        if (stream->device != device || !stream->capture)
            continue;
        double_capture_invalidate(stream->capture);
        error = cudaErrorStreamCaptureUnsupported;
    }
    return error;
}

cudaError_t double_capture_add(struct double_stream *stream, struct double_work *work,
                               int32_t after)
{
    struct double_capture *capture = stream->capture;
    if (capture->invalid) {
        double_queue_drop_work(work);
        return cudaErrorStreamCaptureInvalidated;
    }
    stream->tail = double_graph_add(capture->graph, work, stream->lane, stream->tail, after);
    return cudaSuccess;
}

static cudaError_t enter(struct double_stream *stream, struct double_capture *capture)
{
    struct double_graph *graph = capture->graph;
    if (graph->n_lanes == DOUBLE_MAX_LANES)
        return cudaErrorNotSupported;
    stream->capture = capture;
    stream->lane = graph->n_lanes;
    stream->tail = -1;
    graph->devices[graph->n_lanes++] = stream->device;
    return cudaSuccess;
}

cudaError_t double_capture_join(struct double_stream *stream, struct double_capture *capture,
                                int32_t node)
{
    if (!capture->active)
        return cudaErrorCapturedEvent;
    if (capture->invalid)
        return cudaErrorStreamCaptureInvalidated;
    if (stream->legacy) {
        double_capture_invalidate(capture);
        return cudaErrorStreamCaptureImplicit;
    }
    if (stream->capture && stream->capture != capture) {
        double_capture_invalidate(stream->capture);
        double_capture_invalidate(capture);
        return cudaErrorStreamCaptureMerge;
    }
    cudaError_t error = stream->capture ? cudaSuccess : enter(stream, capture);
    if (error != cudaSuccess)
        return error;
    struct double_work work = {.name = "wait", .gate = DOUBLE_NO_GATE};
    return double_capture_add(stream, &work, node);
}

static cudaError_t begin(struct double_stream *stream, enum cudaStreamCaptureMode mode)
{
    if (stream->legacy)
        return cudaErrorStreamCaptureUnsupported;
    if ((unsigned)mode > cudaStreamCaptureModeRelaxed)
        return cudaErrorInvalidValue;
    if (stream->capture)
        return cudaErrorIllegalState;
    struct double_capture *capture = double_machine_alloc(sizeof *capture);
    capture->id = ++captures.n;
    capture->origin = stream;
    capture->mode = mode;
    capture->thread = double_machine_thread_number();
    capture->active = true;
    capture->graph = double_graph_create();
    capture->next = captures.first;
    captures.first = capture;
    return enter(stream, capture);
}

cudaError_t cudaStreamBeginCapture(cudaStream_t handle, enum cudaStreamCaptureMode mode)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamBeginCapture", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    struct double_stream *stream = double_queue_stream(handle);
    return double_call_end(&call, stream ? begin(stream, mode) : cudaErrorInvalidResourceHandle);
}

/* True if the origin's last node comes after the last node of every other stream. */
static bool is_joined(const struct double_capture *capture)
{
    const struct double_graph *graph = capture->graph;
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next) {
        if (stream->capture != capture || stream == capture->origin || stream->tail < 0)
            continue;
        int32_t end = capture->origin->tail;
        if (end < 0 || graph->nodes[end].seen[stream->lane] < stream->tail)
            return false;
    }
    return true;
}

static void leave_all(const struct double_capture *capture)
{
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next)
        if (stream->capture == capture)
            stream->capture = NULL;
}

static cudaError_t end(struct double_stream *stream, struct double_graph **graph_out)
{
    struct double_capture *capture = stream->capture;
    if (!capture)
        return cudaErrorIllegalState;
    if (capture->origin != stream) {
        double_capture_invalidate(capture);
        return cudaErrorStreamCaptureUnmatched;
    }
    if (capture->mode != cudaStreamCaptureModeRelaxed &&
        capture->thread != double_machine_thread_number())
        return cudaErrorStreamCaptureWrongThread;
    cudaError_t error = cudaSuccess;
    if (capture->invalid)
        error = cudaErrorStreamCaptureInvalidated;
    else if (!is_joined(capture))
        error = cudaErrorStreamCaptureUnjoined;
    leave_all(capture);
    capture->active = false;
    if (error == cudaSuccess)
        *graph_out = capture->graph;
    else
        double_graph_destroy(capture->graph);
    return error;
}

cudaError_t cudaStreamEndCapture(cudaStream_t handle, cudaGraph_t *graph)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamEndCapture", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    struct double_graph *made = NULL;
    struct double_stream *stream = double_queue_stream(handle);
    cudaError_t error = stream ? end(stream, &made) : cudaErrorInvalidResourceHandle;
    if (graph)
        *graph = (cudaGraph_t)made;
    return double_call_end(&call, error);
}

static enum cudaStreamCaptureStatus find_status(const struct double_stream *stream)
{
    if (!stream->capture)
        return cudaStreamCaptureStatusNone;
    return stream->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                    : cudaStreamCaptureStatusActive;
}

/* The only query about the default stream that does not invalidate a capture. */
cudaError_t cudaStreamIsCapturing(cudaStream_t handle, enum cudaStreamCaptureStatus *status)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamIsCapturing", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    struct double_stream *stream = double_queue_stream(handle);
    if (!stream || !status)
        return double_call_end(&call,
                               stream ? cudaErrorInvalidValue : cudaErrorInvalidResourceHandle);
    cudaError_t error = double_capture_check_legacy(stream, false);
    if (error == cudaSuccess)
        *status = find_status(stream);
    return double_call_end(&call, error);
}

cudaError_t cudaThreadExchangeStreamCaptureMode(enum cudaStreamCaptureMode *mode)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaThreadExchangeStreamCaptureMode", NULL,
                           DOUBLE_MAKES_CONTEXT))
        return double_call_end(&call, call.error);
    if (!mode || (unsigned)*mode > cudaStreamCaptureModeRelaxed)
        return double_call_end(&call, cudaErrorInvalidValue);
    enum cudaStreamCaptureMode before = call.thread->mode;
    call.thread->mode = *mode;
    *mode = before;
    return double_call_end(&call, cudaSuccess);
}

void double_capture_reset(void)
{
    while (captures.first) {
        struct double_capture *capture = captures.first;
        captures.first = capture->next;
        free(capture);
    }
    captures.n = 0;
}
