/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The time limit: kills a worker that has work and makes no progress. Its beat in shared memory
 * shows progress. Time is counted in ticks of the supervisor, so no worker times out while the
 * program is stopped.
 */
#include "loader/time_limit.h"

#include "base/clock.h"
#include "dataset/dataset.h"

static bool has_work(const struct mr_supervisor *s)
{
    const struct mr_host *host = s->host;
    const struct mr_control *control = host->shared.control;
    if (atomic_load(&control->ticket) < atomic_load(&control->limit))
        return true;
    for (uint32_t k = 0; k < host->options.n_slots; k++) {
        struct mr_slot_view view = mr_host_slot(host, k);
        if (mr_slot_state(view.slot) == MR_SLOT_FILLING && !mr_slot_is_filled(&view))
            return true;
    }
    return false;
}

/* Of a worker, with the time in which it tries a request for a remote file again. */
static uint32_t find_limit_ms(const struct mr_supervisor *s)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(s->dataset);
    const mr_loader_options *o = &s->host->options;
    return o->time_limit_ms + (catalog && mr_catalog_is_remote(catalog) ? o->retry_ms : 0);
}

static void kill_for_limit(struct mr_supervisor *s, uint32_t i)
{
    struct mr_supervised *worker = &s->workers[i];
    mr_error error;
    if (s->ops->kill(&worker->process)) {
        worker->limit_kill = true;
        worker->killed_ns = mr_clock_now_ns();
        return;
    }
    struct mr_worker_record *record = mr_supervised_record(s, i);
    uint32_t limit_ms = find_limit_ms(s);
    uint32_t doing = atomic_load(&record->doing);
    if (doing == MR_DOING_PACKING || doing == MR_DOING_MIXING) { /* no sample is at fault */
        mr_error_set(&error, MR_ERR_WORKER, "stuck for more than %u ms in a worker thread that %s",
                     limit_ms, doing == MR_DOING_PACKING ? "packs for the cache" : "mixes rows");
    } else {
        char which[MR_CATALOG_DESCRIPTION];
        int64_t index = atomic_load(&record->index);
        mr_catalog_describe(mr_dataset_catalog(s->dataset), index, which);
        mr_error_set(&error, MR_ERR_WORKER, "%s: stuck for more than %u ms in a worker thread",
                     which, limit_ms);
        error.index = index;
    }
    mr_host_fail(s->host, &error);
}

/* One tick for one worker: has it made progress since the last tick? */
static void watch_worker(struct mr_supervisor *s, uint32_t i, uint64_t tick_ms, bool work)
{
    struct mr_supervised *worker = &s->workers[i];
    struct mr_worker_record *record = mr_supervised_record(s, i);
    uint32_t beat = atomic_load(&record->beat);
    uint32_t doing = atomic_load(&record->doing);
    bool idle = (doing == MR_DOING_NOTHING || doing == MR_DOING_PACKING) && !work;
    if (worker->killed_ns != 0) {
        if (mr_clock_now_ns() - worker->killed_ns > UINT64_C(1000000) * MR_SUPERVISED_END_MS) {
            mr_error error;
            mr_error_set(&error, MR_ERR_WORKER, "worker process %d cannot be killed",
                         (int)worker->process.pid);
            mr_host_fail(s->host, &error);
        }
        return;
    }
    if (beat != worker->beat || idle) {
        worker->beat = beat;
        worker->stuck_ms = 0;
        return;
    }
    uint64_t before = worker->stuck_ms;
    uint32_t limit_ms = find_limit_ms(s);
    worker->stuck_ms += tick_ms;
    /* it may sleep while other workers work: then it answers the wake-up with a beat */
    if (before < limit_ms / 2 && worker->stuck_ms >= limit_ms / 2)
        mr_control_wake_workers(&s->host->shared);
    if (worker->stuck_ms >= limit_ms)
        kill_for_limit(s, i);
}

void mr_time_limit_tick(struct mr_supervisor *s, uint64_t tick_ms)
{
    bool work = has_work(s);
    for (uint32_t i = 0; i < s->n_workers; i++)
        if (s->workers[i].alive)
            watch_worker(s, i, tick_ms, work);
}
