/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copying thread: takes filled slots in the order of their batches, issues every copy that is possible, and only
 * then sleeps until the oldest one has ended. It also opens the devices, takes their memory and page-locks the slots.
 *
 * Invariant: a slot is free when its copy has ended, not when it was issued. A buffer that was released early is not
 * used for another copy before its last copy was seen to end, because its events are used again.
 */
#include "loader/copying.h"

#include <stdlib.h>
#include <string.h>

#include "base/futex.h"
#include "base/log.h"
#include "loader/batch.h"
#include "loader/damage.h"
#include "loader/numa.h"
#include "loader/slab_reserve.h"

/* Memory that was not touched yet, and workers from their next sample on, come near the device. */
static void move_near_device(struct mr_core *core, const struct mr_copier *copier)
{
    int32_t node = mr_copier_numa_node(copier);
    mr_numa_prefer_memory(NULL, &core->slab, node);
    mr_numa_place_workers(NULL, &core->shared, node);
}

/* For measuring on GPUs, until it is known which is faster: 1 finishes a batch while the next one is copied. */
static bool is_overlap_wanted(void)
{
    const char *value = getenv("MR_FINISH_OVERLAP");
    return value && strcmp(value, "1") == 0;
}

static mr_status open_devices(struct mr_core *core)
{
    mr_error error;
    struct mr_copier *copier = NULL;
    struct mr_copier_options options = {.layout = &core->shared.control->layout,
                                        .slab = core->slab.base,
                                        .placement = &core->placement,
                                        .finish = &core->finish,
                                        .n_buffers = core->options.n_buffers,
                                        .overlaps = is_overlap_wanted()};
    mr_status status = mr_copier_create(&options, &copier, &error);
    if (status == MR_OK)
        move_near_device(core, copier); /* before all pages are touched */
    pthread_mutex_lock(&core->lock);
    core->opened = true;
    core->copier = copier;
    if (status != MR_OK)
        core->open_error = error;
    pthread_cond_broadcast(&core->opened_changed);
    pthread_mutex_unlock(&core->lock);
    return status;
}

/* With the lock held: a batch that has failed needs no buffer. */
static bool stage_failure(struct mr_core *core)
{
    uint32_t slot = mr_core_slot_of(core, core->staged);
    struct mr_slot_view view = mr_core_slot(core, slot);
    if (!mr_damage_has_failure(&view))
        return false;
    mr_slot_move(view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_core_move_staged(core, &(struct mr_staged){.batch = NULL, .slot = slot});
    mr_control_wake_host(&core->shared);
    return true;
}

/* With the lock held: the batch that was taken is this one; from here on it can be dropped, but is not ready yet. */
static void stage_batch(struct mr_core *core, struct mr_batch *batch)
{
    uint32_t slot = mr_core_slot_of(core, core->staged);
    struct mr_slot_view view = mr_core_slot(core, slot);
    mr_slot_move(view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_move(view.slot, MR_SLOT_FILLED, MR_SLOT_COPYING);
    mr_batch_describe(batch, slot);
    batch->is_taken = true;
    batch->is_copying = true;
    batch->is_issued = false;
    batch->is_lent = false;
    batch->keeps_slot = false;
    mr_core_move_staged(core, &(struct mr_staged){.batch = batch, .slot = slot});
    core->n_copying++;
    core->copies.n_issued++;
    core->copies.sum_copying += core->n_copying;
}

/* Without the lock. */
static mr_status issue_copy(struct mr_core *core, const struct mr_batch *batch)
{
    mr_error error;
    struct mr_slot_view view = mr_core_slot(core, batch->slot);
    struct mr_trace_ring *row = mr_trace_row(core->trace, MR_TRACE_COPIER);
    uint64_t begin_ns = mr_trace_ring_begin(row);
    mr_copier_range_push(core->copier, "millrace issue");
    mr_status status = mr_copier_issue(core->copier, batch->buffer, &view, batch->n_rows, &error);
    mr_copier_range_pop(core->copier);
    mr_trace_ring_put(row, MR_TRACE_ISSUE, begin_ns, (int64_t)batch->number);
    if (status != MR_OK)
        mr_core_fail(core, &error);
    return status;
}

/* With the lock held: the copy has ended, and nobody reads the slot any more but for its records. */
static void end_copy(struct mr_core *core, struct mr_batch *batch, const struct mr_copy_report *report)
{
    struct mr_slot_view view = mr_core_slot(core, batch->slot);
    bool untold =
        batch->is_taken && !batch->is_lent && atomic_load_explicit(&view.slot->n_errors, memory_order_relaxed) > 0;
    mr_slot_move(view.slot, MR_SLOT_COPYING, untold ? MR_SLOT_FILLED : MR_SLOT_FREE);
    batch->keeps_slot = untold;
    batch->is_copying = false;
    core->n_copying--;
    core->copies.bytes += report->bytes;
    core->copies.ns += report->ns;
    core->copies.n_steps += report->was_ready >= 0;
    core->copies.n_steps_ready += report->was_ready > 0;
    mr_core_publish(core);
    mr_control_wake_host(&core->shared);
}

/* With the lock held on entry and return; it is let go meanwhile. False: the device has failed. */
static bool issue_one(struct mr_core *core, struct mr_batch *batch)
{
    stage_batch(core, batch);
    pthread_mutex_unlock(&core->lock);
    mr_status status = issue_copy(core, batch);
    pthread_mutex_lock(&core->lock);
    batch->is_issued = status == MR_OK;
    mr_control_wake_host(&core->shared);
    return status == MR_OK;
}

/* The devices' rows: the copies ended about now, and took as long as they say. */
static void trace_copies(const struct mr_core *core, const struct mr_batch *batch, uint64_t number, uint64_t ns)
{
    for (uint32_t i = 0; core->trace && i < batch->n_parts; i++) {
        struct mr_trace_ring *row = mr_trace_row(core->trace, MR_TRACE_DEVICE + core->placement.image[i]);
        uint64_t end_ns = mr_clock_now_ns();
        mr_trace_ring_put_span(row, MR_TRACE_COPY, end_ns - ns, end_ns, (int64_t)number);
    }
}

static bool await_one(struct mr_core *core, struct mr_batch *batch)
{
    mr_error error;
    struct mr_copy_report report;
    uint64_t number = batch->number; /* which next() writes again when it lends */
    pthread_mutex_unlock(&core->lock);
    struct mr_trace_ring *row = mr_trace_row(core->trace, MR_TRACE_COPIER);
    uint64_t begin_ns = mr_trace_ring_begin(row);
    mr_copier_range_push(core->copier, "millrace await");
    mr_status status = mr_copier_await(core->copier, batch->buffer, &report, &error);
    mr_copier_range_pop(core->copier);
    mr_trace_ring_put(row, MR_TRACE_AWAIT, begin_ns, (int64_t)number);
    if (status == MR_OK)
        trace_copies(core, batch, number, report.ns);
    else
        mr_core_fail(core, &error);
    pthread_mutex_lock(&core->lock);
    if (status == MR_OK)
        end_copy(core, batch, &report);
    return status == MR_OK;
}

/* Batches whose copies are under way, oldest first. */
struct queue {
    struct mr_batch *batches[MR_MAX_BUFFERS];
    uint32_t first;
    uint32_t n;
};

/* With the lock held: can the batch at staged be taken? One that has failed needs no buffer. */
static bool has_work(const struct mr_core *core)
{
    if (core->closed || !mr_core_copier_is_next(core))
        return core->closed;
    struct mr_slot_view view = mr_core_slot(core, mr_core_slot_of(core, core->staged));
    return mr_core_free_buffer(core) || mr_damage_has_failure(&view);
}

/* With the lock held on entry and return. The word is read before the last look, so nothing is missed in between. */
static void sleep_until_work(struct mr_core *core)
{
    struct mr_control *control = core->shared.control;
    atomic_fetch_add(&control->host_waits, 1);
    uint32_t seen = atomic_load(&control->filled_word);
    bool work = has_work(core);
    pthread_mutex_unlock(&core->lock);
    if (!work)
        mr_futex_wait(&control->filled_word, seen, UINT32_MAX);
    atomic_fetch_sub(&control->host_waits, 1);
    pthread_mutex_lock(&core->lock);
}

/* With the lock held: one thing. False when the device has failed. */
static bool copy_step(struct mr_core *core, struct queue *queue)
{
    bool next_is_there = !core->closed && mr_core_copier_is_next(core);
    if (next_is_there && stage_failure(core))
        return true;
    struct mr_batch *batch = next_is_there ? mr_core_free_buffer(core) : NULL;
    if (batch) {
        queue->batches[(queue->first + queue->n++) % MR_MAX_BUFFERS] = batch;
        return issue_one(core, batch);
    }
    if (queue->n == 0) {
        sleep_until_work(core);
        return true;
    }
    batch = queue->batches[queue->first % MR_MAX_BUFFERS];
    queue->first = (queue->first + 1) % MR_MAX_BUFFERS;
    queue->n--;
    return await_one(core, batch);
}

static void copy_batches(struct mr_core *core)
{
    struct queue queue = {.n = 0};
    pthread_mutex_lock(&core->lock);
    while (!core->closed || queue.n > 0)
        if (!copy_step(core, &queue))
            break;
    pthread_mutex_unlock(&core->lock);
}

static void end_copying(struct mr_core *core)
{
    pthread_mutex_lock(&core->lock);
    core->copying_ended = true;
    pthread_mutex_unlock(&core->lock);
    mr_control_wake_host(&core->shared);
}

/*
 * Batches can be copied from pageable slots too: an event after a copy has ended only when CUDA has taken its bytes. So
 * a refusal is no failure.
 */
static mr_status lock_slots(struct mr_core *core)
{
    mr_error error;
    if (!mr_placement_has_kind(&core->placement, MR_DEVICE_CUDA))
        return MR_OK;
    mr_status status = mr_slab_reserve_populate(core, &error);
    if (status == MR_OK)
        status = mr_copier_pin(core->copier, &error);
    pthread_mutex_lock(&core->lock);
    core->is_page_locked = status == MR_OK;
    pthread_mutex_unlock(&core->lock);
    if (status == MR_ERR_UNSUPPORTED) {
        mr_log_line(MR_LOG_WARNING, "the slots are not page-locked, so copies are slower: %s", error.text);
        return MR_OK;
    }
    if (status < 0)
        mr_core_fail(core, &error);
    return status;
}

static void *copying_main(void *arg)
{
    struct mr_core *core = arg;
    if (open_devices(core) != MR_OK)
        return NULL;
    if (lock_slots(core) == MR_OK)
        copy_batches(core);
    end_copying(core);
    return NULL;
}

mr_status mr_copying_start(struct mr_core *core, struct mr_thread *thread, mr_error *error)
{
    return mr_thread_run(thread, "the copying thread", copying_main, core, error);
}
