/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The consumer's side: the next batch, epochs, positions, the descriptor for event loops.
 *
 * Invariant: the wait for a batch ends with the batch, the time-out, a cancel, or the loader's
 * failure. Each of these events changes filled_word. So does a release, if the loader waits for one
 * (wait_when_lent).
 */
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/futex.h"
#include "dataset/dataset.h"
#include "loader/batch.h"
#include "loader/epoch.h"
#include "loader/loader.h"
#include "loader/ready_fd.h"
#include "sampler/position.h"

/* Store the error in the loader and return its status. */
static mr_status store_error(mr_loader *loader, const mr_error *error)
{
    loader->error = *error;
    return (mr_status)error->status;
}

static mr_status refuse_fork(mr_loader *loader)
{
    return mr_error_set(&loader->error, MR_ERR_STATE, "a loader cannot be used in a forked child");
}

/* The arguments of next_batch(). */
struct request {
    enum mr_head_is how;
    void *stream; /* with MR_HEAD_ISSUED */
    uint32_t timeout_ms;
};

static mr_status refuse_stuck(mr_loader *loader)
{
    const mr_loader_options *o = &loader->host->options;
    if (loader->host->placement.lends_slots)
        return mr_error_set(&loader->error, MR_ERR_STATE,
                            "all %u slots are lent; release a batch or raise n_slots", o->n_slots);
    return mr_error_set(&loader->error, MR_ERR_STATE,
                        "all %u buffers are lent; release a batch or raise n_buffers",
                        o->n_buffers);
}

/*
 * With the lock held: MR_OK if the head batch is ready, MR_PENDING if the caller should wait,
 * otherwise the outcome.
 */
static mr_status check_head(mr_loader *loader, enum mr_head_is how)
{
    struct mr_host *host = loader->host;
    switch (mr_host_answer(host, how)) {
    case MR_ANSWER_BATCH: return MR_OK;
    case MR_ANSWER_END: return MR_END;
    case MR_ANSWER_CANCELED:
        host->canceled = false;
        return mr_error_set(&loader->error, MR_ERR_CANCELED, "mr_loader_cancel() was called");
    case MR_ANSWER_FATAL: return store_error(loader, &host->fatal);
    case MR_ANSWER_STUCK: return refuse_stuck(loader);
    case MR_ANSWER_NONE: break;
    }
    return MR_PENDING;
}

/*
 * Without the lock: sleep until something may have changed since `seen`, or make samples in this
 * thread. Without workers, a lent slot gives no work: only its release ends the sleep, or the end
 * of the copies from it.
 */
static void wait_or_work(mr_loader *loader, uint32_t seen, uint64_t left_ms)
{
    struct mr_host *host = loader->host;
    bool sleeps =
        !host->placement.lends_slots || host->options.wait_when_lent || host->slot_streams;
    if (loader->worker && (mr_worker_step(loader->worker) || !sleeps))
        return;
    if (left_ms > 0)
        mr_futex_wait(&host->shared.control->filled_word, seen,
                      left_ms < MR_FOREVER ? (uint32_t)left_ms : MR_FOREVER);
}

/*
 * With the lock held: how long to sleep. The end of a capture, which deferred releases wait for,
 * wakes no waiter, so it is polled.
 */
static uint64_t limit_nap(const struct mr_host *host, uint64_t left_ms)
{
    return host->n_deferred > 0 && left_ms > MR_OWED_NAP_MS ? MR_OWED_NAP_MS : left_ms;
}

/*
 * Wait until check_head() returns something other than MR_PENDING. The lock is held on entry and on
 * return.
 */
static mr_status wait_for_head(mr_loader *loader, const struct request *request)
{
    struct mr_host *host = loader->host;
    struct mr_control *control = host->shared.control;
    uint64_t begin = mr_clock_now_ns();
    int64_t number = (int64_t)host->n_returned;
    uint64_t left_ms = request->timeout_ms == MR_FOREVER ? UINT64_MAX : request->timeout_ms;
    mr_status status = MR_PENDING;
    atomic_fetch_add(&control->host_waits, 1);
    do {
        uint32_t seen = atomic_load(&control->filled_word);
        status = check_head(loader, request->how);
        if (status != MR_PENDING)
            break;
        uint64_t nap_ms = limit_nap(host, left_ms);
        bool has_deferred = host->n_deferred > 0;
        pthread_mutex_unlock(&host->lock);
        wait_or_work(loader, seen, nap_ms);
        if (has_deferred)
            mr_batch_retry_deferred(host);
        pthread_mutex_lock(&host->lock);
        status = check_head(loader, request->how);
        uint64_t passed_ms = (mr_clock_now_ns() - begin) / 1000000;
        if (request->timeout_ms != MR_FOREVER)
            left_ms = passed_ms < request->timeout_ms ? request->timeout_ms - passed_ms : 0;
    } while (status == MR_PENDING && left_ms > 0);
    atomic_fetch_sub(&control->host_waits, 1);
    loader->consumer_wait_ns += mr_clock_now_ns() - begin;
    mr_trace_ring_put(mr_trace_row(host->trace, MR_TRACE_CONSUMER), MR_TRACE_WAIT, begin, number);
    return status;
}

/* With the lock held: advance the head past the batch. */
static void advance_head(mr_loader *loader)
{
    mr_host_move_head(loader->host, loader->host->head + 1);
    loader->host->n_returned++;
    loader->n_batches++;
}

static void collect_damage(mr_loader *loader, const struct mr_slot_view *view)
{
    mr_damage_collect(&loader->damage, loader->host->shared.control, view,
                      mr_dataset_catalog(loader->dataset));
}

/* With the lock held: report the failure of the batch in a filled slot. */
static mr_status report_failure(mr_loader *loader, uint32_t slot)
{
    struct mr_host *host = loader->host;
    struct mr_slot_view view = mr_host_slot(host, slot);
    mr_error error;
    collect_damage(loader, &view);
    loader->n_warnings += atomic_load_explicit(&view.slot->n_warnings, memory_order_relaxed);
    if (!mr_damage_first_failure(host->shared.control, &view, mr_dataset_catalog(loader->dataset),
                                 &error))
        mr_error_set(&error, MR_ERR_WORKER, "slot %u is marked as failed, but no sample in it is",
                     slot);
    if (error.status == MR_ERR_UNSUPPORTED && !host->fatal.status)
        /* this machine could not decode the next batch either */
        host->fatal = error;
    mr_slot_move(view.slot, MR_SLOT_FILLED, MR_SLOT_FREE);
    advance_head(loader);
    mr_host_publish(host);
    return store_error(loader, &error);
}

static void count_lent(mr_loader *loader, const struct mr_batch *batch)
{
    loader->n_warnings += batch->n_warnings;
    loader->n_samples += batch->n_rows;
}

/*
 * With the lock held: a stream was refused. A device failure ends the loader here, because it may
 * be noticed nowhere else, or only later.
 */
static mr_status refuse_stream(mr_loader *loader, const mr_error *error)
{
    if (error->status == MR_ERR_DEVICE && !loader->host->fatal.status)
        loader->host->fatal = *error;
    return store_error(loader, error);
}

/*
 * With the lock held: lend the filled head slot without a copy, or report its failure. If the
 * stream is refused, the batch stays at the head. On pageable slots streams have no effect.
 */
static mr_status lend_slot(mr_loader *loader, const struct request *request, mr_batch **batch_out)
{
    struct mr_host *host = loader->host;
    uint32_t slot = mr_host_slot_of(host, host->head);
    struct mr_slot_view view = mr_host_slot(host, slot);
    bool has_failure = mr_damage_has_failure(&view);
    mr_error error;
    if (host->slot_streams && request->how == MR_HEAD_ISSUED && !has_failure &&
        mr_slot_streams_use(host->slot_streams, slot, request->stream, &error) != MR_OK)
        return refuse_stream(loader, &error);
    mr_slot_move(view.slot, MR_SLOT_FILLING, MR_SLOT_FILLED);
    if (has_failure)
        return report_failure(loader, slot);
    collect_damage(loader, &view);
    mr_slot_move(view.slot, MR_SLOT_FILLED, MR_SLOT_LENT);
    struct mr_batch *batch = &host->batches[slot];
    mr_batch_describe(batch, slot);
    mr_batch_lend(batch);
    advance_head(loader);
    count_lent(loader, batch);
    *batch_out = batch;
    return MR_OK;
}

/* The slot of a copied batch may still have damage to report. */
static void collect_copied_damage(mr_loader *loader, struct mr_batch *batch)
{
    struct mr_slot_view view = mr_host_slot(loader->host, batch->slot);
    if (batch->is_copying || batch->keeps_slot)
        collect_damage(loader, &view);
    if (!batch->keeps_slot)
        return;
    batch->keeps_slot = false;
    mr_slot_move(view.slot, MR_SLOT_FILLED, MR_SLOT_FREE);
    mr_host_publish(loader->host);
}

/*
 * With the lock held: lend the head batch from its buffer. If the stream is refused, the batch
 * stays at the head.
 */
static mr_status lend_buffer(mr_loader *loader, const struct request *request, mr_batch **batch_out)
{
    struct mr_host *host = loader->host;
    const struct mr_staged *staged = &host->staging[host->head & host->staging_mask];
    struct mr_batch *batch = staged->batch;
    mr_error error;
    if (!batch)
        return report_failure(loader, staged->slot);
    mr_status status = MR_OK;
    if (request->how == MR_HEAD_ISSUED)
        status = mr_copier_use(host->copier, batch->buffer, 0, request->stream, true, &error);
    if (status != MR_OK)
        return refuse_stream(loader, &error);
    collect_copied_damage(loader, batch);
    mr_batch_lend(batch);
    advance_head(loader);
    count_lent(loader, batch);
    *batch_out = batch;
    return MR_OK;
}

/*
 * Count whether the batch was ready. If next() returns batches only once they are on the device, a
 * batch for which it did not wait was ready.
 */
static void count_step(mr_loader *loader, const struct request *request, bool waited)
{
    struct mr_host *host = loader->host;
    if (host->placement.lends_slots || request->how == MR_HEAD_ISSUED)
        return;
    host->copies.n_steps++;
    host->copies.n_steps_ready += !waited;
}

static mr_status lend_head(mr_loader *loader, const struct request *request, mr_batch **batch_out)
{
    struct mr_host *host = loader->host;
    pthread_mutex_lock(&host->lock);
    if (loader->first_next_ns == 0)
        loader->first_next_ns = mr_clock_now_ns();
    mr_status status = check_head(loader, request->how);
    bool waited = status == MR_PENDING;
    if (waited)
        status = wait_for_head(loader, request);
    if (status == MR_OK)
        status = host->placement.lends_slots ? lend_slot(loader, request, batch_out)
                                             : lend_buffer(loader, request, batch_out);
    if (status == MR_OK)
        count_step(loader, request, waited);
    host->end_returned |= status == MR_END;
    mr_host_update_fd(host);
    pthread_mutex_unlock(&host->lock);
    return status;
}

static mr_status next_batch(mr_loader *loader, const struct request *request, mr_batch **batch_out)
{
    if (batch_out)
        *batch_out = NULL;
    if (!loader)
        return MR_ERR_INVALID;
    if (!batch_out)
        return mr_error_set(&loader->error, MR_ERR_INVALID, "batch_out is NULL");
    if (loader->host->pid != getpid())
        return refuse_fork(loader);
    mr_batch_retry_deferred(loader->host);
    return lend_head(loader, request, batch_out);
}

mr_status mr_loader_next(mr_loader *loader, uint32_t timeout_ms, mr_batch **batch_out)
{
    struct request request = {.how = MR_HEAD_ENDED, .timeout_ms = timeout_ms};
    return next_batch(loader, &request, batch_out);
}

mr_status mr_loader_next_on(mr_loader *loader, uint32_t timeout_ms, void *stream,
                            mr_batch **batch_out)
{
    struct request request = {.how = MR_HEAD_ISSUED, .stream = stream, .timeout_ms = timeout_ms};
    return next_batch(loader, &request, batch_out);
}

mr_status mr_loader_fd(mr_loader *loader, int *fd_out)
{
    mr_error error;
    if (fd_out)
        *fd_out = -1;
    if (!loader)
        return MR_ERR_INVALID;
    if (!fd_out)
        return mr_error_set(&loader->error, MR_ERR_INVALID, "fd_out is NULL");
    if (loader->host->pid != getpid())
        return refuse_fork(loader);
    if (loader->worker)
        return mr_error_set(&loader->error, MR_ERR_UNSUPPORTED,
                            "without workers batches are made inside mr_loader_next(): there is "
                            "nothing to wait for");
    mr_status status = mr_ready_fd_open(loader->host, fd_out, &error);
    return status == MR_OK ? MR_OK : store_error(loader, &error);
}

const mr_error *mr_loader_error(const mr_loader *loader)
{
    return loader ? &loader->error : mr_error_null_handle();
}

static mr_status begin_epoch(mr_loader *loader, const struct mr_epoch_start *start)
{
    struct mr_host *host = loader->host;
    mr_error error;
    if (host->pid !=
        getpid()) /* before taking the lock, which another thread may have held at the fork */
        return refuse_fork(loader);
    pthread_mutex_lock(&host->lock);
    mr_status status = host->fatal.status ? store_error(loader, &host->fatal) : MR_OK;
    if (status == MR_OK) {
        status = mr_epoch_set(host, start, &error);
        if (status != MR_OK)
            store_error(loader, &error);
    }
    if (status == MR_OK)
        host->end_returned = false;
    mr_host_update_fd(host);
    pthread_mutex_unlock(&host->lock);
    return status;
}

mr_status mr_loader_set_epoch(mr_loader *loader, uint64_t epoch)
{
    struct mr_epoch_start start = {.epoch = epoch};
    return loader ? begin_epoch(loader, &start) : MR_ERR_INVALID;
}

mr_status mr_loader_set_epoch_order(mr_loader *loader, uint64_t epoch, const int64_t *indices,
                                    int64_t n)
{
    return mr_loader_resume_epoch_order(loader, epoch, indices, n, 0);
}

mr_status mr_loader_resume_epoch_order(mr_loader *loader, uint64_t epoch, const int64_t *indices,
                                       int64_t n, int64_t n_used)
{
    static const int64_t none[1];
    if (!loader)
        return MR_ERR_INVALID;
    if (n < 0 || (n > 0 && !indices))
        return mr_error_set(&loader->error, MR_ERR_INVALID, "%lld indices at %p are not an order",
                            (long long)n, (const void *)indices);
    const mr_loader_options *options = &loader->host->options;
    if (n_used < 0 || n_used > n || (n_used < n && n_used % options->batch_size != 0))
        return mr_error_set(&loader->error, MR_ERR_INVALID,
                            "%lld used samples of an order of %lld do not end on a batch of %u",
                            (long long)n_used, (long long)n, options->batch_size);
    /* a short last batch was used too */
    bool ends_short = n_used % options->batch_size != 0 && !options->drop_last;
    struct mr_epoch_start start = {.epoch = epoch,
                                   .indices = indices ? indices : none,
                                   .n = n,
                                   .skip = (uint64_t)n_used / options->batch_size + ends_short};
    return begin_epoch(loader, &start);
}

void mr_loader_cancel(mr_loader *loader)
{
    if (!loader || loader->host->pid != getpid())
        return;
    struct mr_host *host = loader->host;
    pthread_mutex_lock(&host->lock);
    host->canceled = true;
    mr_host_update_fd(host);
    pthread_mutex_unlock(&host->lock);
    mr_control_wake_host(&host->shared);
}

size_t mr_loader_state_size(const mr_loader *loader)
{
    static_assert(sizeof(struct mr_position) + MR_MIXTURE_MAX * sizeof(struct mr_mixture_count) <=
                      MR_LOADER_STATE_MAX,
                  "a position fits");
    const struct mr_catalog *catalog = loader ? mr_dataset_catalog(loader->dataset) : NULL;
    return loader ? mr_position_size(catalog ? mr_catalog_n_sources(catalog) : 0) : 0;
}

mr_status mr_loader_save(mr_loader *loader, void *state_out, size_t size, size_t *len_out)
{
    if (!loader || !state_out || !len_out)
        return MR_ERR_INVALID;
    struct mr_host *host = loader->host;
    union {
        struct mr_position position;
        uint8_t bytes[MR_LOADER_STATE_MAX];
    } saved;
    size_t len = mr_loader_state_size(loader);
    if (host->pid != getpid())
        return refuse_fork(loader);
    if (size < len)
        return mr_error_set(&loader->error, MR_ERR_INVALID,
                            "a saved position has %zu bytes, and there is room for %zu", len, size);
    pthread_mutex_lock(&host->lock);
    bool own_order = host->own_order;
    if (!own_order)
        mr_position_save(host->sampler, host->options.batch_size, host->options.drop_last,
                         host->n_returned, &saved.position);
    pthread_mutex_unlock(&host->lock);
    if (own_order)
        return mr_error_set(&loader->error, MR_ERR_UNSUPPORTED,
                            "the position in the caller's own order cannot be saved");
    memcpy(state_out, saved.bytes, len);
    *len_out = len;
    return MR_OK;
}

mr_status mr_loader_restore(mr_loader *loader, const void *state, size_t len)
{
    uint64_t epoch;
    uint64_t batches;
    mr_error error;
    if (!loader || !state)
        return MR_ERR_INVALID;
    struct mr_host *host = loader->host;
    if (host->pid != getpid())
        return refuse_fork(loader);
    pthread_mutex_lock(&host->lock);
    mr_status status = mr_position_restore(state, len, host->sampler, host->options.batch_size,
                                           host->options.drop_last, &epoch, &batches, &error);
    pthread_mutex_unlock(&host->lock);
    if (status != MR_OK)
        return store_error(loader, &error);
    struct mr_epoch_start start = {.epoch = epoch, .skip = batches, .restored = true};
    return begin_epoch(loader, &start);
}
