/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Streams as queues of operations. The clock of an operation is made when it is issued, from the
 * clocks of the stream, of the issuing thread and of the operations that it waits for.
 *
 * Invariant: the legacy stream is ordered with the blocking streams in both directions, by the
 * operations that each had at the time.
 */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>

static struct {
    struct double_stream *first;
    struct double_stream **end;
    uint32_t n;
} streams;

struct double_stream *double_queue_first(void)
{
    return streams.first;
}

static struct double_stream *add_stream(int device, bool blocking)
{
    struct double_stream *stream = double_machine_alloc(sizeof *stream);
    if (!streams.first)
        streams.end = &streams.first;
    *streams.end = stream;
    streams.end = &stream->next;
    stream->device = device;
    stream->blocking = blocking;
    stream->component = double_machine_component();
    stream->tail = -1;
    return stream;
}

struct double_stream *double_queue_create(int device, bool blocking)
{
    struct double_stream *stream = add_stream(device, blocking);
    stream->number = ++streams.n;
    (void)snprintf(stream->name, sizeof stream->name, "stream %u", (unsigned)stream->number);
    return stream;
}

static struct double_stream *find_legacy(int device)
{
    struct double_device *of = &double_machine()->devices[device];
    if (!of->legacy) {
        of->legacy = add_stream(device, false);
        of->legacy->legacy = true;
        of->legacy->hidden = true;
        (void)snprintf(of->legacy->name, sizeof of->legacy->name, "default stream");
    }
    return of->legacy;
}

static struct double_stream *find_own(struct double_thread_state *thread)
{
    struct double_stream **own = &thread->own_stream[thread->device];
    if (!*own) {
        *own = add_stream(thread->device, true);
        (*own)->hidden = true;
        (void)snprintf((*own)->name, sizeof(*own)->name, "default of a thread");
    }
    return *own;
}

static struct double_stream *find_handle(const void *handle)
{
    for (struct double_stream *stream = streams.first; stream; stream = stream->next)
        if (stream == handle && !stream->hidden)
            return stream;
    return NULL;
}

int double_queue_device(const void *handle)
{
    const struct double_stream *stream = find_handle(handle);
    return stream ? stream->device : -1;
}

struct double_stream *double_queue_stream(cudaStream_t handle)
{
    struct double_thread_state *thread = double_machine_thread();
    if (!handle || handle == cudaStreamLegacy)
        return find_legacy(thread->device);
    if (handle == cudaStreamPerThread)
        return find_own(thread);
    struct double_stream *stream = find_handle(handle);
    if (!stream || stream->destroyed) {
        double_report_add(DOUBLE_MISUSE, "misuse: %p is no stream%s", (void *)handle,
                          stream ? " any more, it was destroyed" : "");
        return NULL;
    }
    return stream;
}

/* ---- operations ---- */

void double_queue_ref(struct double_op *op)
{
    op->refs++;
}

void double_queue_drop_work(struct double_work *work)
{
    for (uint32_t i = 0; i < work->n_touches; i++)
        double_memory_unref(work->touches[i].region);
    work->n_touches = 0;
    if (work->payload && work->drop)
        work->drop(work->payload);
    if (work->kind != DOUBLE_OP_HOST)
        free(work->payload);
    work->payload = NULL;
}

/* What it waited for no longer matters when it has ended. */
void double_queue_forget_after(struct double_op *op)
{
    for (uint32_t i = 0; i < op->n_after; i++)
        double_queue_unref(op->after[i]);
    free(op->after);
    op->after = NULL;
    op->n_after = 0;
}

void double_queue_unref(struct double_op *op)
{
    if (!op || --op->refs > 0)
        return;
    double_queue_forget_after(op);
    double_queue_drop_work(&op->work);
    double_clock_fini(&op->clock);
    free(op);
}

static void add_after(struct double_op *op, struct double_op *earlier)
{
    if (!earlier)
        return;
    double_clock_join(&op->clock, &earlier->clock);
    if (earlier->done) {
        if (op->issue_ns < earlier->end_ns)
            op->issue_ns = earlier->end_ns;
        return;
    }
    struct double_op **after = realloc(op->after, (op->n_after + 1u) * sizeof(struct double_op *));
    if (!after)
        abort();
    op->after = after;
    op->after[op->n_after++] = earlier;
    double_queue_ref(earlier);
}

/* The default stream comes after all blocking streams of its device, and they come after it. */
static void order_with_legacy(struct double_op *op)
{
    const struct double_stream *stream = op->stream;
    if (stream->blocking && double_machine()->devices[stream->device].legacy)
        add_after(op, double_machine()->devices[stream->device].legacy->last);
    if (!stream->legacy)
        return;
    for (struct double_stream *other = streams.first; other; other = other->next)
        if (other->blocking && other->device == stream->device)
            add_after(op, other->last);
}

static void enqueue(struct double_op *op)
{
    struct double_stream *stream = op->stream;
    struct double_op **end = &stream->head;
    if (stream->head && stream->last)
        end = &stream->last->next;
    double_queue_ref(op);
    *end = op;
    double_queue_ref(op);
    double_queue_unref(stream->last);
    stream->last = op;
}

static void touch_all(const struct double_op *op)
{
    struct double_epoch who = {op->stream->component, op->step, op->work.name, op->stream->name,
                               false};
    for (uint32_t i = 0; i < op->work.n_touches; i++) {
        const struct double_touch *touch = &op->work.touches[i];
        if (touch->region)
            double_shadow_touch(touch->region, touch->offset, touch->offset + touch->len,
                                touch->write, who, &op->clock);
    }
}

static void count(const struct double_work *work)
{
    struct double_counts *counts = &double_machine_thread()->counts;
    size_t len = work->n_touches > 0 ? work->touches[0].len : 0;
    counts->copies +=
        work->kind == DOUBLE_OP_H2D || work->kind == DOUBLE_OP_D2H || work->kind == DOUBLE_OP_D2D;
    counts->bytes_h2d += work->kind == DOUBLE_OP_H2D ? len : 0;
    counts->bytes_d2h += work->kind == DOUBLE_OP_D2H ? len : 0;
    counts->bytes_d2d += work->kind == DOUBLE_OP_D2D ? len : 0;
    counts->kernels += work->kind == DOUBLE_OP_KERNEL;
}

struct double_op *double_queue_push(struct double_stream *stream, struct double_work *work,
                                    struct double_op *const *after, uint32_t n_after)
{
    struct double_op *op = double_machine_alloc(sizeof *op);
    op->refs = 1;
    op->stream = stream;
    op->work = *work;
    op->issue_ns = double_machine_thread()->now_ns;
    double_clock_join(&op->clock, double_machine_clock(NULL));
    double_machine_next_step();
    double_clock_join(&op->clock, &stream->clock);
    for (uint32_t i = 0; i < n_after; i++)
        add_after(op, after[i]);
    order_with_legacy(op);
    op->step = double_clock_get(&stream->clock, stream->component) + 1;
    double_clock_set(&op->clock, stream->component, op->step);
    double_clock_join(&stream->clock, &op->clock);
    touch_all(op);
    count(&op->work);
    if (double_machine()->devices[stream->device].broken != cudaSuccess) {
        op->done = true;
        return op;
    }
    enqueue(op);
    return op;
}

cudaError_t double_queue_issue(struct double_stream *stream, struct double_work *work,
                               struct double_op *const *after, uint32_t n_after,
                               struct double_op **op_out)
{
    if (op_out)
        *op_out = NULL;
    cudaError_t error = double_capture_check_legacy(stream, true);
    if (error != cudaSuccess) {
        double_queue_drop_work(work);
        return error;
    }
    if (stream->capture)
        return double_capture_add(stream, work, -1);
    struct double_op *op = double_queue_push(stream, work, after, n_after);
    double_schedule_pump();
    if (op_out)
        *op_out = op;
    else
        double_queue_unref(op);
    return cudaSuccess;
}

void double_queue_left_over(void)
{
    for (struct double_stream *stream = streams.first; stream; stream = stream->next)
        if (!stream->hidden && !stream->destroyed)
            double_report_add(DOUBLE_LEFT_OVER, "left over: %s of device %d", stream->name,
                              stream->device);
}

void double_queue_reset(void)
{
    while (streams.first) {
        struct double_stream *stream = streams.first;
        streams.first = stream->next;
        while (stream->head) {
            struct double_op *op = stream->head;
            stream->head = op->next;
            double_queue_unref(op);
        }
        double_queue_unref(stream->last);
        double_clock_fini(&stream->clock);
        free(stream);
    }
    streams.end = &streams.first;
    streams.n = 0;
}
