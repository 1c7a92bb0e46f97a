/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Events.
 *
 * Invariant: an event means what was recorded last at the time of the call, so a wait holds the
 * operation, not the event. An event that was never recorded orders nothing and has ended.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>

struct double_event {
    struct double_event *next;
    uint32_t number;
    int device;
    bool timed;
    bool destroyed;
    struct double_op *op;           /* the recorded operation; a reference */
    struct double_capture *capture; /* the capture, if it was recorded in one */
    int32_t node;
};

static struct {
    struct double_event *first;
    uint32_t n;
} events;

static struct double_event *find_handle(const void *handle)
{
    for (struct double_event *event = events.first; event; event = event->next)
        if (event == handle)
            return event;
    return NULL;
}

/* NULL after a report. */
static struct double_event *find(cudaEvent_t handle)
{
    struct double_event *event = find_handle(handle);
    if (event && !event->destroyed)
        return event;
    double_report_add(DOUBLE_MISUSE, "misuse: %p is no event%s", (void *)handle,
                      event ? " any more, it was destroyed" : "");
    return NULL;
}

int double_event_device(const void *handle)
{
    const struct double_event *event = find_handle(handle);
    return event ? event->device : -1;
}

static cudaError_t create(cudaEvent_t *handle_out, unsigned flags, int device)
{
    bool interprocess = flags & cudaEventInterprocess;
    if (!handle_out || flags > 7 || (interprocess && !(flags & cudaEventDisableTiming)))
        return cudaErrorInvalidValue;
    struct double_event *event = double_machine_alloc(sizeof *event);
    event->number = ++events.n;
    event->device = device;
    event->timed = !(flags & cudaEventDisableTiming);
    event->next = events.first;
    events.first = event;
    *handle_out = (cudaEvent_t)event;
    return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t *handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaEventCreate", NULL, DOUBLE_CONTEXT | DOUBLE_ALLOCATES))
        return double_call_end(&call, call.error);
    return double_call_end(&call, create(handle, cudaEventDefault, call.thread->device));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *handle, unsigned int flags)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaEventCreateWithFlags", NULL,
                           DOUBLE_CONTEXT | DOUBLE_ALLOCATES))
        return double_call_end(&call, call.error);
    return double_call_end(&call, create(handle, flags, call.thread->device));
}

static void set_op(struct double_event *event, struct double_op *op)
{
    double_queue_unref(event->op);
    event->op = op;
    event->capture = NULL;
}

cudaError_t cudaEventDestroy(cudaEvent_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaEventDestroy", handle, DOUBLE_CONTEXT | DOUBLE_RELEASES))
        return double_call_end(&call, call.error);
    struct double_event *event = find(handle);
    if (!event)
        return double_call_end(&call, cudaErrorInvalidResourceHandle);
    set_op(event, NULL);
    event->destroyed = true;
    return double_call_end(&call, cudaSuccess);
}

static cudaError_t record(struct double_event *event, struct double_stream *stream)
{
    if (!event || !stream || event->device != stream->device)
        return cudaErrorInvalidResourceHandle;
    struct double_work work = {.name = "record", .gate = DOUBLE_NO_GATE};
    struct double_op *op;
    cudaError_t error = double_queue_issue(stream, &work, NULL, 0, &op);
    if (error != cudaSuccess)
        return error;
    set_op(event, op);
    event->capture = stream->capture;
    event->node = stream->tail;
    return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t handle, cudaStream_t stream)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaEventRecord", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    return double_call_end(&call, record(find(handle), double_queue_stream(stream)));
}

static cudaError_t wait_outside(struct double_stream *stream, const struct double_event *event)
{
    if (stream->capture) {
        double_capture_invalidate(stream->capture);
        return cudaErrorStreamCaptureIsolation;
    }
    if (!event->op)
        return double_capture_check_legacy(stream, true);
    struct double_work work = {.name = "wait", .gate = DOUBLE_NO_GATE};
    return double_queue_issue(stream, &work, &event->op, 1, NULL);
}

cudaError_t cudaStreamWaitEvent(cudaStream_t handle, cudaEvent_t event_handle, unsigned int flags)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaStreamWaitEvent", handle, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    struct double_stream *stream = double_queue_stream(handle);
    struct double_event *event = find(event_handle);
    cudaError_t error = cudaErrorInvalidResourceHandle;
    if (stream && event && flags != cudaEventWaitDefault)
        error = cudaErrorInvalidValue; /* external waits in a capture are not implemented */
    else if (stream && event && event->capture)
        error = double_capture_join(stream, event->capture, event->node);
    else if (stream && event)
        error = wait_outside(stream, event);
    return double_call_end(&call, error);
}

/* A query about an event recorded in a capture invalidates that capture. */
static cudaError_t check_captured(const struct double_event *event)
{
    if (!event->capture)
        return cudaSuccess;
    double_capture_invalidate(event->capture);
    return cudaErrorCapturedEvent;
}

static cudaError_t ask(cudaEvent_t handle, bool waits)
{
    struct double_event *event = find(handle);
    cudaError_t error = event ? check_captured(event) : cudaErrorInvalidResourceHandle;
    if (error != cudaSuccess)
        return error;
    if (waits && event->op)
        double_schedule_wait(event->op);
    else if (!waits && !double_schedule_is_over(event->op))
        error = cudaErrorNotReady;
    cudaError_t broken = double_machine()->devices[event->device].broken;
    return broken != cudaSuccess ? broken : error;
}

cudaError_t cudaEventQuery(cudaEvent_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaEventQuery", handle, DOUBLE_CONTEXT | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call, ask(handle, false));
}

cudaError_t cudaEventSynchronize(cudaEvent_t handle)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaEventSynchronize", handle,
                           DOUBLE_CONTEXT | DOUBLE_BLOCKS | DOUBLE_UNSAFE))
        return double_call_end(&call, call.error);
    return double_call_end(&call, ask(handle, true));
}

static cudaError_t measure(float *ms_out, const struct double_event *begin,
                           const struct double_event *end)
{
    if (!begin || !end || begin->device != end->device || !begin->timed || !end->timed)
        return cudaErrorInvalidResourceHandle;
    if (begin->capture || end->capture)
        return cudaErrorCapturedEvent;
    if (!begin->op || !end->op)
        return cudaErrorInvalidResourceHandle;
    if (!ms_out)
        return cudaErrorInvalidValue;
    if (!double_schedule_seems_over(begin->op) || !double_schedule_seems_over(end->op))
        return cudaErrorNotReady;
    *ms_out = (float)(((double)end->op->end_ns - (double)begin->op->end_ns) / 1e6);
    return cudaSuccess;
}

cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t begin, cudaEvent_t end)
{
    struct double_call call;
    if (!double_call_begin(&call, "cudaEventElapsedTime", begin, DOUBLE_CONTEXT))
        return double_call_end(&call, call.error);
    return double_call_end(&call, measure(ms, find(begin), find(end)));
}

void double_event_left_over(void)
{
    for (struct double_event *event = events.first; event; event = event->next)
        if (!event->destroyed)
            double_report_add(DOUBLE_LEFT_OVER, "left over: event %u of device %d",
                              (unsigned)event->number, event->device);
}

void double_event_reset(void)
{
    while (events.first) {
        struct double_event *event = events.first;
        events.first = event->next;
        double_queue_unref(event->op);
        free(event);
    }
    events.n = 0;
}
