/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decides which operation runs when. An operation may run if it is the first of its stream, what it
 * waits for has ended, and its gate is open.
 *
 * Invariant: a host function runs without the lock, so after each operation everything may have
 * changed.
 */
#include "tests/double/double_machine.h"

/* After this many queries an operation has ended: devices make progress by themselves. */
enum { PATIENCE = 64 };

static bool is_ready(const struct double_op *op)
{
    if (op->running || (op->work.gate != DOUBLE_NO_GATE && !double_machine()->gates[op->work.gate]))
        return false;
    if (op->work.when && !*op->work.when)
        return false;
    for (uint32_t i = 0; i < op->n_after; i++)
        if (!op->after[i]->done)
            return false;
    return true;
}

static uint64_t find_later(uint64_t a, uint64_t b)
{
    return a > b ? a : b;
}

static uint64_t find_duration(const struct double_work *work)
{
    const struct double_options *options = &double_machine()->options;
    uint64_t len = work->n_touches > 0 ? work->touches[0].len : 0;
    switch (work->kind) {
    case DOUBLE_OP_NONE: return 0;
    case DOUBLE_OP_H2D: return len * 1000 / options->h2d_mb_per_s;
    case DOUBLE_OP_D2H: return len * 1000 / options->d2h_mb_per_s;
    default: return work->ns > 0 ? work->ns : options->kernel_ns;
    }
}

/* The engine for copies in this direction, which does one copy at a time. */
static uint64_t *find_engine(const struct double_op *op)
{
    struct double_device *device = &double_machine()->devices[op->stream->device];
    if (op->work.kind == DOUBLE_OP_H2D)
        return &device->engine_free_ns[0];
    return op->work.kind == DOUBLE_OP_D2H ? &device->engine_free_ns[1] : NULL;
}

static void set_times(struct double_op *op)
{
    uint64_t *engine = find_engine(op);
    uint64_t begin_ns = find_later(op->issue_ns, op->stream->last_end_ns);
    if (double_machine()->options.policy != DOUBLE_EARLY)
        begin_ns = find_later(begin_ns, double_machine_thread()->now_ns);
    for (uint32_t i = 0; i < op->n_after; i++)
        begin_ns = find_later(begin_ns, op->after[i]->end_ns);
    if (engine)
        begin_ns = find_later(begin_ns, *engine);
    op->begin_ns = begin_ns;
    op->end_ns = begin_ns + find_duration(&op->work);
    if (engine)
        *engine = op->end_ns;
}

/* The first operation of a stream has ended. */
static void end_first(struct double_stream *stream)
{
    struct double_op *op = stream->head;
    stream->head = op->next;
    op->next = NULL;
    op->running = false;
    op->done = true;
    stream->last_end_ns = find_later(stream->last_end_ns, op->end_ns);
    double_queue_forget_after(op);
    double_queue_unref(op);
}

static void run_work(struct double_op *op)
{
    struct double_work *work = &op->work;
    void *views[DOUBLE_MAX_ACCESSES];
    for (uint32_t i = 0; i < work->n_touches; i++)
        views[i] = work->touches[i].view;
    if (work->run)
        work->run(work->payload, views);
    if (!work->host)
        return;
    double_machine_unlock();
    work->host(work->payload);
    double_machine_lock();
}

static void run_first(struct double_stream *stream)
{
    struct double_op *op = stream->head;
    cudaError_t error = op->work.kind == DOUBLE_OP_NONE ? cudaSuccess : double_call_run_error();
    if (error != cudaSuccess) {
        double_machine_break(stream->device, error);
        return;
    }
    double_queue_ref(op);
    set_times(op);
    op->running = true;
    run_work(op);
    end_first(stream);
    double_timeline_op(op);
    double_queue_drop_work(&op->work);
    double_queue_unref(op);
    double_machine_wake();
}

void double_schedule_abandon(int device)
{
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next) {
        if (stream->device != device)
            continue;
        while (stream->head && !stream->head->running) {
            stream->head->end_ns = stream->head->issue_ns;
            double_queue_drop_work(&stream->head->work);
            end_first(stream);
        }
    }
}

static uint32_t count_ready(void)
{
    uint32_t n = 0;
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next)
        n += stream->head && is_ready(stream->head);
    return n;
}

static bool step(void)
{
    uint32_t n = count_ready();
    if (n == 0)
        return false;
    uint64_t skip = double_machine_random(n);
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next) {
        if (!stream->head || !is_ready(stream->head) || skip-- > 0)
            continue;
        run_first(stream);
        return true;
    }
    return false;
}

static void run_all(void)
{
    bool ran = true;
    while (ran) {
        ran = false;
        for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next) {
            while (stream->head && is_ready(stream->head)) {
                run_first(stream);
                ran = true;
            }
        }
    }
}

void double_schedule_pump(void)
{
    switch (double_machine()->options.policy) {
    case DOUBLE_LATE: break;
    case DOUBLE_EARLY: run_all(); break;
    case DOUBLE_RANDOM:
        while (double_machine_random(2) == 0 && step())
            continue;
    }
}

/*
 * The stream whose first operation is the next that this one needs; NULL if a gate or another
 * thread holds it.
 */
static struct double_stream *find_next(const struct double_op *op)
{
    for (;;) {
        const struct double_op *first = op->stream->head;
        const struct double_op *needs = NULL;
        if (first->running)
            return NULL;
        for (uint32_t i = 0; i < first->n_after && !needs; i++)
            needs = first->after[i]->done ? NULL : first->after[i];
        if (!needs)
            return is_ready(first) ? op->stream : NULL;
        op = needs;
    }
}

/* False if it cannot continue. */
static bool run_towards(struct double_op *op)
{
    bool detour =
        double_machine()->options.policy == DOUBLE_RANDOM && double_machine_random(2) == 0;
    if (detour && step())
        return true;
    struct double_stream *next = find_next(op);
    if (next)
        run_first(next);
    return next != NULL;
}

static void run_until_done(struct double_op *op)
{
    double_queue_ref(op);
    while (!op->done)
        if (!run_towards(op))
            double_machine_sleep();
    double_queue_unref(op);
}

void double_schedule_advance(struct double_op *op)
{
    double_queue_ref(op);
    while (!op->done && run_towards(op))
        continue;
    double_queue_unref(op);
}

static void order_after(const struct double_op *op)
{
    struct double_thread_state *thread = double_machine_thread();
    double_clock_join(double_machine_clock(NULL), &op->clock);
    thread->now_ns = find_later(thread->now_ns, op->end_ns);
}

void double_schedule_wait(struct double_op *op)
{
    double_queue_ref(op);
    run_until_done(op);
    order_after(op);
    double_queue_unref(op);
}

void double_schedule_wait_device(int device)
{
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next)
        if (stream->device == device && stream->last)
            double_schedule_wait(stream->last);
}

void double_schedule_finish_device(int device)
{
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next)
        if (stream->device == device && stream->last)
            run_until_done(stream->last);
}

static bool touches(const struct double_op *op, const struct double_region *region)
{
    for (uint32_t i = 0; i < op->work.n_touches; i++)
        if (op->work.touches[i].region == region)
            return true;
    return false;
}

static struct double_op *find_toucher(const struct double_region *region)
{
    for (struct double_stream *stream = double_queue_first(); stream; stream = stream->next)
        for (struct double_op *op = stream->head; op; op = op->next)
            if (touches(op, region))
                return op;
    return NULL;
}

void double_schedule_finish_region(const struct double_region *region)
{
    struct double_op *op;
    while ((op = find_toucher(region)))
        run_until_done(op);
}

bool double_schedule_seems_over(const struct double_op *op)
{
    if (!op)
        return true;
    bool visible = double_machine()->options.policy != DOUBLE_EARLY ||
                   op->end_ns <= double_machine_thread()->now_ns;
    return op->done && visible;
}

bool double_schedule_is_over(struct double_op *op)
{
    if (!op)
        return true;
    if (!double_schedule_seems_over(op) && ++op->n_queries < PATIENCE)
        return false;
    double_queue_ref(op);
    double_schedule_advance(op);
    bool over = op->done;
    if (over)
        order_after(op);
    double_queue_unref(op);
    return over;
}

static bool is_ordered_with(const struct double_stream *other, const struct double_stream *stream)
{
    return other == stream ||
           (stream->legacy && other->blocking && other->device == stream->device);
}

void double_schedule_wait_stream(struct double_stream *stream)
{
    for (struct double_stream *other = double_queue_first(); other; other = other->next)
        if (is_ordered_with(other, stream) && other->last)
            double_schedule_wait(other->last);
}

bool double_schedule_is_stream_over(struct double_stream *stream)
{
    for (struct double_stream *other = double_queue_first(); other; other = other->next)
        if (is_ordered_with(other, stream) && !double_schedule_is_over(other->last))
            return false;
    return true;
}

bool double_step(void)
{
    double_machine_lock();
    bool ran = step();
    double_machine_unlock();
    return ran;
}

void double_run_all(void)
{
    double_machine_lock();
    run_all();
    double_machine_unlock();
}
