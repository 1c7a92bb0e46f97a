/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copying thread: takes filled slots in the order of their batches, issues every copy that is
 * possible, and only then sleeps until the oldest one has ended. It also opens the devices,
 * allocates their buffers and page-locks the slots.
 *
 * Invariant: a slot is free when its copy has ended, not when it was issued. A buffer that was
 * released early is used for another copy only after its last copy has been seen to end, because
 * its events are reused.
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

/*
 * Place pages that were not touched yet near the device, and move workers there before their next
 * sample.
 */
static void move_near_device(struct mr_host *host, const struct mr_copier *copier)
{
    int32_t node = mr_copier_numa_node(copier);
    mr_numa_prefer_memory(NULL, &host->slab, node);
    mr_numa_place_workers(NULL, &host->shared, node);
}

/*
 * MR_FINISH_OVERLAP=1 finishes a batch while the next one is copied. For measurements on GPUs,
 * until we know which way is faster.
 */
static bool is_overlap_wanted(void)
{
    const char *value = getenv("MR_FINISH_OVERLAP");
    return value && strcmp(value, "1") == 0;
}

static mr_status open_devices(struct mr_host *host)
{
    mr_error error;
    struct mr_copier *copier = NULL;
    struct mr_copier_options options = {.layout = &host->shared.control->layout,
                                        .slab = host->slab.base,
                                        .placement = &host->placement,
                                        .finish = &host->finish,
                                        .n_buffers = host->options.n_buffers,
                                        .overlaps = is_overlap_wanted()};
    mr_status status = mr_copier_create(&options, &copier, &error);
    if (status == MR_OK)
        move_near_device(host, copier); /* before all pages are touched */
    pthread_mutex_lock(&host->lock);
    host->opened = true;
    host->copier = copier;
    if (status != MR_OK)
        host->open_error = error;
    pthread_cond_broadcast(&host->opened_changed);
    pthread_mutex_unlock(&host->lock);
    return status;
}

/* With the lock held: stage the next batch without a buffer if it has failed. */
static bool stage_failure(struct mr_host *host)
{
    uint32_t slot = mr_host_slot_of(host, host->staged);
    struct mr_slot_view view = mr_host_slot(host, slot);
    if (!mr_damage_has_failure(&view))
        return false;
    mr_slot_move(view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_host_move_staged(host, &(struct mr_staged){.batch = NULL, .slot = slot});
    mr_control_wake_host(&host->shared);
    return true;
}

/*
 * With the lock held: stage the next batch in this buffer. From here on it can be dropped, but is
 * not ready yet.
 */
static void stage_batch(struct mr_host *host, struct mr_batch *batch)
{
    uint32_t slot = mr_host_slot_of(host, host->staged);
    struct mr_slot_view view = mr_host_slot(host, slot);
    mr_slot_move(view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    mr_slot_move(view.slot, MR_SLOT_FILLED, MR_SLOT_COPYING);
    mr_batch_describe(batch, slot);
    batch->is_taken = true;
    batch->is_copying = true;
    batch->is_issued = false;
    batch->is_lent = false;
    batch->keeps_slot = false;
    mr_host_move_staged(host, &(struct mr_staged){.batch = batch, .slot = slot});
    host->n_copying++;
    host->copies.n_issued++;
    host->copies.sum_copying += host->n_copying;
}

/* Without the lock. */
static mr_status issue_copy(struct mr_host *host, const struct mr_batch *batch)
{
    mr_error error;
    struct mr_slot_view view = mr_host_slot(host, batch->slot);
    struct mr_trace_ring *row = mr_trace_row(host->trace, MR_TRACE_COPIER);
    uint64_t begin_ns = mr_trace_ring_begin(row);
    mr_copier_range_push(host->copier, "millrace issue");
    mr_status status = mr_copier_issue(host->copier, batch->buffer, &view, batch->n_rows, &error);
    mr_copier_range_pop(host->copier);
    mr_trace_ring_put(row, MR_TRACE_ISSUE, begin_ns, (int64_t)batch->number);
    if (status != MR_OK)
        mr_host_fail(host, &error);
    return status;
}

/*
 * With the lock held: the copy has ended. The slot is free, unless it has damage records that were
 * not reported yet.
 */
static void end_copy(struct mr_host *host, struct mr_batch *batch,
                     const struct mr_copy_report *report)
{
    struct mr_slot_view view = mr_host_slot(host, batch->slot);
    bool unreported = batch->is_taken && !batch->is_lent &&
                      atomic_load_explicit(&view.slot->n_errors, memory_order_relaxed) > 0;
    mr_slot_move(view.slot, MR_SLOT_COPYING, unreported ? MR_SLOT_FILLED : MR_SLOT_FREE);
    batch->keeps_slot = unreported;
    batch->is_copying = false;
    host->n_copying--;
    host->copies.bytes += report->bytes;
    host->copies.ns += report->ns;
    host->copies.n_steps += report->was_ready >= 0;
    host->copies.n_steps_ready += report->was_ready > 0;
    mr_host_publish(host);
    mr_control_wake_host(&host->shared);
}

/* With the lock held on entry and return; released in between. False: the device has failed. */
static bool issue_batch(struct mr_host *host, struct mr_batch *batch)
{
    stage_batch(host, batch);
    pthread_mutex_unlock(&host->lock);
    mr_status status = issue_copy(host, batch);
    pthread_mutex_lock(&host->lock);
    batch->is_issued = status == MR_OK;
    mr_control_wake_host(&host->shared);
    return status == MR_OK;
}

/* The devices' rows: the copies ended about now, and their duration is as reported. */
static void trace_copies(const struct mr_host *host, const struct mr_batch *batch, uint64_t number,
                         uint64_t ns)
{
    for (uint32_t i = 0; host->trace && i < batch->n_parts; i++) {
        struct mr_trace_ring *row =
            mr_trace_row(host->trace, MR_TRACE_DEVICE + host->placement.image[i]);
        uint64_t end_ns = mr_clock_now_ns();
        mr_trace_ring_put_span(row, MR_TRACE_COPY, end_ns - ns, end_ns, (int64_t)number);
    }
}

static bool await_batch(struct mr_host *host, struct mr_batch *batch)
{
    mr_error error;
    struct mr_copy_report report;
    uint64_t number = batch->number; /* saved, because lending the batch writes it again */
    pthread_mutex_unlock(&host->lock);
    struct mr_trace_ring *row = mr_trace_row(host->trace, MR_TRACE_COPIER);
    uint64_t begin_ns = mr_trace_ring_begin(row);
    mr_copier_range_push(host->copier, "millrace await");
    mr_status status = mr_copier_await(host->copier, batch->buffer, &report, &error);
    mr_copier_range_pop(host->copier);
    mr_trace_ring_put(row, MR_TRACE_AWAIT, begin_ns, (int64_t)number);
    if (status == MR_OK)
        trace_copies(host, batch, number, report.ns);
    else
        mr_host_fail(host, &error);
    pthread_mutex_lock(&host->lock);
    if (status == MR_OK)
        end_copy(host, batch, &report);
    return status == MR_OK;
}

/* Batches whose copies are under way, oldest first. */
struct queue {
    struct mr_batch *batches[MR_MAX_BUFFERS];
    uint32_t first;
    uint32_t n;
};

/* With the lock held: can the batch at staged be taken? One that has failed needs no buffer. */
static bool has_work(const struct mr_host *host)
{
    if (host->closed || !mr_host_copier_is_next(host))
        return host->closed;
    struct mr_slot_view view = mr_host_slot(host, mr_host_slot_of(host, host->staged));
    return mr_host_free_buffer(host) || mr_damage_has_failure(&view);
}

/*
 * With the lock held on entry and return. The word is read before the last check, so a wake-up in
 * between is not lost.
 */
static void sleep_until_work(struct mr_host *host)
{
    struct mr_control *control = host->shared.control;
    atomic_fetch_add(&control->host_waits, 1);
    uint32_t seen = atomic_load(&control->filled_word);
    bool work = has_work(host);
    pthread_mutex_unlock(&host->lock);
    if (!work)
        mr_futex_wait(&control->filled_word, seen, UINT32_MAX);
    atomic_fetch_sub(&control->host_waits, 1);
    pthread_mutex_lock(&host->lock);
}

/* With the lock held: take one step. False when the device has failed. */
static bool copy_step(struct mr_host *host, struct queue *queue)
{
    bool next_is_filled = !host->closed && mr_host_copier_is_next(host);
    if (next_is_filled && stage_failure(host))
        return true;
    struct mr_batch *batch = next_is_filled ? mr_host_free_buffer(host) : NULL;
    if (batch) {
        queue->batches[(queue->first + queue->n++) % MR_MAX_BUFFERS] = batch;
        return issue_batch(host, batch);
    }
    if (queue->n == 0) {
        sleep_until_work(host);
        return true;
    }
    batch = queue->batches[queue->first % MR_MAX_BUFFERS];
    queue->first = (queue->first + 1) % MR_MAX_BUFFERS;
    queue->n--;
    return await_batch(host, batch);
}

static void copy_batches(struct mr_host *host)
{
    struct queue queue = {.n = 0};
    pthread_mutex_lock(&host->lock);
    while (!host->closed || queue.n > 0)
        if (!copy_step(host, &queue))
            break;
    pthread_mutex_unlock(&host->lock);
}

static void end_copying(struct mr_host *host)
{
    pthread_mutex_lock(&host->lock);
    host->copying_ended = true;
    pthread_mutex_unlock(&host->lock);
    mr_control_wake_host(&host->shared);
}

/*
 * Page-lock the slots. If that is refused, continue: batches can be copied from pageable slots too,
 * and then a copy's event comes only after CUDA has read its bytes.
 */
static mr_status lock_slots(struct mr_host *host)
{
    mr_error error;
    if (!mr_placement_has_kind(&host->placement, MR_DEVICE_CUDA))
        return MR_OK;
    mr_status status = mr_slab_reserve_populate(host, &error);
    if (status == MR_OK)
        status = mr_copier_pin(host->copier, &error);
    pthread_mutex_lock(&host->lock);
    host->is_page_locked = status == MR_OK;
    pthread_mutex_unlock(&host->lock);
    if (status == MR_ERR_UNSUPPORTED) {
        mr_log_line(MR_LOG_WARNING, "the slots are not page-locked, so copies are slower: %s",
                    error.text);
        return MR_OK;
    }
    if (status < 0)
        mr_host_fail(host, &error);
    return status;
}

static void *copying_main(void *arg)
{
    struct mr_host *host = arg;
    if (open_devices(host) != MR_OK)
        return NULL;
    if (lock_slots(host) == MR_OK)
        copy_batches(host);
    end_copying(host);
    return NULL;
}

mr_status mr_copying_start(struct mr_host *host, struct mr_thread *thread, mr_error *error)
{
    return mr_thread_run(thread, "the copying thread", copying_main, host, error);
}
