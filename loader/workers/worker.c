/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The worker's loop: takes tickets, keeps reads in flight, and makes a sample as soon as its bytes
 * have arrived.
 *
 * Invariant: a ticket only suggests a place. The place's word stays OPEN during the read, so
 * another worker may overtake. Only the swap OPEN -> BUSY decides; a worker that loses it drops
 * what it has read.
 */
#include "loader/workers/worker.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/futex.h"
#include "dataset/reader/reader.h"
#include "loader/workers/mix_make.h"
#include "loader/workers/sample_job.h"
#include "loader/workers/sample_make.h"
#include "loader/workers/worker_setup.h"

/* How long a place that another worker reads for over the network is left to it. */
#define FOREIGN_NS UINT64_C(5000000000)
enum { FOREIGN_WAIT_MS = 1000 }; /* how often a worker without work looks for such places */

struct mr_worker {
    struct mr_worker_job job;
    struct mr_control *control;
    struct mr_worker_record *record;
    struct mr_trace_ring *ring; /* NULL without a trace */
    struct mr_reader *reader;   /* NULL with callbacks */
    bool times_reads;
    struct mr_sample_maker *maker;
    struct mr_mix_maker *mixer;                   /* NULL if rows are not mixed */
    struct mr_sample_job in_flight[MR_MAX_AHEAD]; /* by tag */
    bool is_used[MR_MAX_AHEAD];                   /* by tag */
    uint32_t n_tags;                              /* as many samples are in flight at most */
    uint32_t deaths_seen; /* control's n_deaths when this worker last swept */
    bool is_remote;
    const struct mr_place *foreign; /* a place that another worker reads for; NULL: none yet */
    uint64_t foreign_word;          /* as it was at the time foreign_ns */
    uint64_t foreign_ns;
};

static void report_doing(struct mr_worker *w, enum mr_doing doing)
{
    atomic_store_explicit(&w->record->doing, doing, memory_order_relaxed);
    atomic_fetch_add_explicit(&w->record->beat, 1, memory_order_relaxed);
}

/* Load the place that a ticket suggests. True if it is open and still in the ticket's batch. */
static bool load_place(struct mr_worker *w, uint64_t ticket, struct mr_sample_job *job_out)
{
    uint64_t sequence = ticket / w->control->layout.batch_size;
    job_out->view = mr_control_slot(&w->job.shared, sequence);
    job_out->place = (uint32_t)(ticket % w->control->layout.batch_size);
    job_out->word = mr_place_load(&job_out->view.places[job_out->place]);
    return mr_place_state(job_out->word) == MR_PLACE_OPEN &&
           atomic_load_explicit(&job_out->view.slot->sequence, memory_order_relaxed) == sequence;
}

static bool take_ticket(struct mr_worker *w, struct mr_sample_job *job_out)
{
    uint64_t ticket = atomic_load_explicit(&w->control->ticket, memory_order_relaxed);
    while (ticket < atomic_load_explicit(&w->control->limit, memory_order_acquire)) {
        if (!atomic_compare_exchange_weak(&w->control->ticket, &ticket, ticket + 1))
            continue;
        if (load_place(w, ticket, job_out))
            return true;
        ticket = atomic_load_explicit(&w->control->ticket, memory_order_relaxed);
    }
    return false;
}

/* Does this worker have a read in flight for this place? */
static bool is_in_flight(const struct mr_worker *w, const struct mr_sample_job *job)
{
    for (uint32_t t = 0; t < w->n_tags; t++) {
        const struct mr_sample_job *mine = &w->in_flight[t];
        if (w->is_used[t] && mine->view.slot == job->view.slot && mine->place == job->place &&
            mine->word == job->word)
            return true;
    }
    return false;
}

/*
 * True if this worker may take an open place that another worker is probably reading for. A request
 * for a file at a URL is not repeated unless a worker has died, or the other worker takes long.
 */
static bool may_overtake(struct mr_worker *w, const struct mr_sample_job *job)
{
    if (!w->is_remote ||
        atomic_load_explicit(&w->control->n_deaths, memory_order_acquire) != w->deaths_seen)
        return true;
    if (!w->foreign || mr_place_load(w->foreign) != w->foreign_word) {
        w->foreign = &job->view.places[job->place];
        w->foreign_word = job->word;
        w->foreign_ns = mr_clock_now_ns();
    }
    return mr_clock_now_ns() - w->foreign_ns > FOREIGN_NS;
}

/* Find an OPEN word below the ticket counter that this worker is not reading for. */
static bool sweep_slot(struct mr_worker *w, const struct mr_slot_view *view,
                       struct mr_sample_job *job_out)
{
    uint32_t batch_size = w->control->layout.batch_size;
    if (mr_slot_state(view->slot) != MR_SLOT_FILLING)
        return false;
    uint64_t first = atomic_load_explicit(&view->slot->sequence, memory_order_relaxed) * batch_size;
    uint64_t counter = atomic_load_explicit(&w->control->ticket, memory_order_relaxed);
    job_out->view = *view;
    for (uint32_t p = 0; p < batch_size && first + p < counter; p++) {
        job_out->place = p;
        job_out->word = mr_place_load(&view->places[p]);
        if (mr_place_state(job_out->word) == MR_PLACE_OPEN && !is_in_flight(w, job_out) &&
            may_overtake(w, job_out))
            return true;
    }
    return false;
}

/*
 * An OPEN word below the ticket counter was left by a death, or a slower worker is reading for it.
 * Each worker begins at a different slot, so that two seldom find the same word.
 */
static bool sweep_all_slots(struct mr_worker *w, struct mr_sample_job *job_out)
{
    uint32_t n = w->control->layout.n_slots;
    for (uint32_t i = 0; i < n; i++) {
        struct mr_slot_view view =
            mr_slot_at(&w->control->layout, w->job.shared.base, (i + w->job.id) % n);
        if (sweep_slot(w, &view, job_out))
            return true;
    }
    return false;
}

/* Mix row i if it can be mixed and no other worker does. */
static bool mix_row(struct mr_worker *w, const struct mr_slot_view *view, uint32_t i)
{
    uint64_t seen, held;
    if (!mr_slot_can_mix(view, i, &seen) || !mr_place_take(&view->mixes[i], seen, w->job.id, &held))
        return false;
    report_doing(w, MR_DOING_MIXING);
    uint64_t begin = w->control->options.with_timing ? mr_clock_now_ns() : 0,
             traced = mr_trace_ring_begin(w->ring);
    mr_mix_make_row(w->mixer, view, i);
    mr_trace_ring_put(w->ring, MR_TRACE_TRANSFORM, traced, *mr_slot_index(view, i));
    if (w->control->options.with_timing)
        atomic_fetch_add_explicit(&w->record->transform_ns, mr_clock_now_ns() - begin,
                                  memory_order_relaxed);
    mr_place_finish(&view->mixes[i], held);
    if (mr_slot_count_down(view))
        mr_control_wake_host(&w->job.shared);
    report_doing(w, MR_DOING_NOTHING);
    return true;
}

/*
 * Find a row that can be mixed: a death has left it, or the worker that made its sample is about to
 * mix it.
 */
static bool find_row(struct mr_worker *w, struct mr_slot_view *view_out, uint32_t *row_out)
{
    uint64_t unused;
    for (uint32_t k = 0; w->mixer && k < w->control->layout.n_slots; k++) {
        *view_out = mr_slot_at(&w->control->layout, w->job.shared.base, k);
        if (mr_slot_state(view_out->slot) != MR_SLOT_FILLING)
            continue;
        for (*row_out = 0; *row_out < w->control->layout.batch_size; ++*row_out)
            if (mr_slot_can_mix(view_out, *row_out, &unused))
                return true;
    }
    return false;
}

/* Mix the rows that can be mixed. True if one was found, even if another worker was faster. */
static bool mix_left_rows(struct mr_worker *w)
{
    struct mr_slot_view view;
    uint32_t row;
    bool found = false;
    while (find_row(w, &view, &row)) {
        found = true;
        mix_row(w, &view, row);
    }
    return found;
}

/*
 * The place is DONE. Mix its own row and the row that is mixed with it, if they can be mixed now.
 */
static void mix_dependents(struct mr_worker *w, const struct mr_slot_view *view, uint32_t place)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    mix_row(w, view, place);
    if (place < n)
        mix_row(w, view, mr_mix_partner_of(view->mix_rule, place, n));
    if (mr_slot_is_canceled(view))
        mr_control_wake_host(&w->job.shared);
}

/*
 * Find work that is more urgent than a new ticket: places left by a death and, if the host waits
 * for a batch and the ticket counter is two batches past it, places of that batch that a slow
 * worker still holds.
 */
static bool find_urgent_place(struct mr_worker *w, struct mr_sample_job *job_out)
{
    const struct mr_control *c = w->control;
    uint32_t n_deaths = atomic_load_explicit(&c->n_deaths, memory_order_acquire);
    if (n_deaths != w->deaths_seen) {
        if (sweep_all_slots(w, job_out))
            return true;
        mix_left_rows(w);
        w->deaths_seen = n_deaths;
    }
    if (!atomic_load_explicit(&c->host_waits, memory_order_relaxed))
        return false;
    uint64_t head = atomic_load_explicit(&c->head, memory_order_relaxed);
    if (atomic_load_explicit(&c->ticket, memory_order_relaxed) / c->layout.batch_size < head + 2)
        return false;
    struct mr_slot_view view = mr_control_slot(&w->job.shared, head);
    return sweep_slot(w, &view, job_out);
}

/* Hold the place, make its sample, mark it done. read is NULL if nothing was read for it. */
static void make_sample(struct mr_worker *w, struct mr_sample_job *job, const struct mr_read *read)
{
    struct mr_place *place = &job->view.places[job->place];
    if (!mr_place_take(place, job->word, w->job.id, &job->word))
        return;
    report_doing(w, MR_DOING_DECODING);
    uint64_t begin = mr_clock_now_ns();
    bool tried = mr_sample_make_run(w->maker, job, read);
    mr_place_finish(place, job->word);
    /* A sample that was given up because of deaths does not show that workers can work. */
    atomic_fetch_add_explicit(&w->record->n_done, tried, memory_order_relaxed);
    if (w->mixer)
        mix_dependents(w, &job->view, job->place);
    else if (mr_slot_count_down(&job->view))
        mr_control_wake_host(&w->job.shared);
    uint64_t worked_ns = mr_clock_now_ns() - begin;
    atomic_fetch_add_explicit(&w->record->busy_ns, worked_ns, memory_order_relaxed);
    report_doing(w, MR_DOING_PACKING);
    mr_sample_make_fill(w->maker, worked_ns);
    report_doing(w, MR_DOING_NOTHING);
}

static uint64_t begin_read_time(const struct mr_worker *w)
{
    return w->times_reads ? mr_clock_now_ns() : 0;
}

static void count_read_time(struct mr_worker *w, uint64_t begin)
{
    if (w->times_reads)
        atomic_fetch_add_explicit(&w->record->read_ns, mr_clock_now_ns() - begin,
                                  memory_order_relaxed);
}

static bool submit_read(struct mr_worker *w, struct mr_sample_job *job)
{
    for (job->tag = 0; w->is_used[job->tag];)
        job->tag++;
    job->begin_ns = mr_trace_ring_begin(w->ring);
    uint64_t begin = begin_read_time(w);
    if (!mr_sample_make_submit(w->maker, job, w->reader))
        return false;
    count_read_time(w, begin); /* a part in memory may be copied at once */
    w->is_used[job->tag] = true;
    w->in_flight[job->tag] = *job;
    return true;
}

/* Begin to read, or make the sample at once if it needs no read. True if a place was handled. */
static bool begin_sample(struct mr_worker *w, struct mr_sample_job *job)
{
    if (w->reader && mr_sample_make_choose(w->maker, job) && submit_read(w, job))
        return false;
    make_sample(w, job, NULL);
    return true;
}

/* Keep the reader busy. True if a place was handled meanwhile. */
static bool read_ahead(struct mr_worker *w)
{
    struct mr_sample_job job = {0};
    while ((!w->reader || mr_reader_n_busy(w->reader) < mr_reader_depth(w->reader)) &&
           (find_urgent_place(w, &job) || take_ticket(w, &job)))
        if (begin_sample(w, &job))
            return true;
    return false;
}

static bool finish_read(struct mr_worker *w)
{
    struct mr_read read;
    uint64_t begin = begin_read_time(w);
    report_doing(w, MR_DOING_READING);
    if (!mr_reader_reap(w->reader, true, &read))
        return false;
    count_read_time(w, begin);
    atomic_fetch_add_explicit(&w->record->bytes_read, mr_read_bytes(&read), memory_order_relaxed);
    struct mr_sample_job *job = &w->in_flight[read.tag];
    mr_trace_ring_put(w->ring, MR_TRACE_READ, job->begin_ns, read.index);
    make_sample(w, job, &read);
    w->is_used[job->tag] = false;
    mr_reader_recycle(w->reader, &read);
    return true;
}

bool mr_worker_step(struct mr_worker *w)
{
    struct mr_sample_job job = {0};
    if (read_ahead(w))
        return true;
    if (w->reader && mr_reader_n_pending(w->reader) > 0)
        return finish_read(w);
    if (!sweep_all_slots(w, &job))
        return mix_left_rows(w);
    begin_sample(w, &job);
    return true;
}

static bool has_work(struct mr_worker *w)
{
    struct mr_sample_job unused;
    struct mr_slot_view view;
    uint32_t row;
    const struct mr_control *c = w->control;
    return atomic_load(&c->ticket) < atomic_load(&c->limit) || atomic_load(&c->stop) ||
           sweep_all_slots(w, &unused) || find_row(w, &view, &row);
}

static void sleep_until_work(struct mr_worker *w)
{
    uint32_t seen = atomic_load(&w->control->work_word);
    uint64_t begin = mr_clock_now_ns();
    report_doing(w, MR_DOING_NOTHING);
    atomic_store(&w->record->asleep, 1);
    /*
     * If the host dies, the kernel kills this process (a thread has died with it), so nothing else
     * needs to end the wait.
     */
    if (!has_work(w))
        mr_futex_wait(&w->control->work_word, seen, w->is_remote ? FOREIGN_WAIT_MS : UINT32_MAX);
    atomic_store(&w->record->asleep, 0);
    atomic_fetch_add_explicit(&w->record->wait_ns, mr_clock_now_ns() - begin, memory_order_relaxed);
    report_doing(w, MR_DOING_NOTHING);
}

/* There is no other work: pack a sample for the cache, if there is one. */
static bool pack_when_idle(struct mr_worker *w)
{
    report_doing(w, MR_DOING_PACKING);
    bool packed = mr_sample_make_fill_idle(w->maker);
    report_doing(w, MR_DOING_NOTHING);
    return packed;
}

void mr_worker_run(struct mr_worker *w)
{
    bool moved = false;
    while (!atomic_load_explicit(&w->control->stop, memory_order_acquire)) {
        if (!moved)
            moved = mr_worker_setup_move_near(&w->job);
        if (!mr_worker_step(w) && !pack_when_idle(w))
            sleep_until_work(w);
    }
}

static mr_status open_reader(struct mr_worker *w, mr_error *error)
{
    if (!w->job.catalog)
        return MR_OK;
    const mr_loader_options *o = &w->control->options;
    w->n_tags = mr_control_read_ahead(o);
    w->times_reads = o->with_timing || mr_catalog_is_remote(w->job.catalog);
    struct mr_reader_options options = {.kind = o->reader,
                                        .depth = w->n_tags,
                                        .measures_depth = o->read_ahead == 0,
                                        .max_files = w->control->max_files,
                                        .n_connections = mr_control_connections(o),
                                        .retry_ms = o->retry_ms,
                                        .maps_files = w->job.own_process &&
                                                      o->reader == MR_READER_AUTO &&
                                                      mr_catalog_kind(w->job.catalog)->tokens > 0,
                                        .other_files = mr_sample_make_files(w->maker)};
    mr_status status = mr_reader_create(w->job.catalog, &options, &w->reader, error);
    if (status == MR_OK)
        atomic_store(&w->record->reader, (uint32_t)mr_reader_name(w->reader)[0]);
    return status;
}

mr_status mr_worker_create(const struct mr_worker_job *job, struct mr_worker **worker_out,
                           mr_error *error)
{
    *worker_out = NULL;
    struct mr_worker *w = calloc(1, sizeof *w);
    if (!w)
        return mr_error_memory(error, sizeof *w);
    w->job = *job;
    w->control = job->shared.control;
    w->record = &job->shared.records[job->id];
    w->ring = mr_control_trace_ring(&job->shared, job->id);
    w->is_remote = job->catalog && mr_catalog_is_remote(job->catalog);
    mr_status status = mr_sample_make_create(job, &w->maker, error);
    if (status == MR_OK)
        status = open_reader(w, error);
    if (status == MR_OK)
        status = mr_mix_make_create(job, &w->mixer, error);
    if (status != MR_OK) {
        mr_worker_destroy(w);
        return status;
    }
    *worker_out = w;
    return MR_OK;
}

void mr_worker_destroy(struct mr_worker *w)
{
    if (!w)
        return;
    mr_mix_make_destroy(w->mixer);
    if (w->reader)
        mr_reader_destroy(w->reader);
    mr_sample_make_destroy(w->maker);
    free(w);
}

int mr_worker_main(const struct mr_worker_job *job)
{
    struct mr_worker_record *record = &job->shared.records[job->id];
    struct mr_worker *worker;
    if (mr_worker_create(job, &worker, &record->error) != MR_OK) {
        atomic_store(&record->failed, 1);
        return 1;
    }
    mr_worker_run(worker);
    mr_worker_destroy(worker);
    return 0;
}
