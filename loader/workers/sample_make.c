/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one sample in a place that its worker holds, and applies the policy for damaged ones. The count of candidates
 * found damaged lies in the slot, so nothing is lost when a worker dies: the next one that takes the place continues at
 * the next candidate.
 */
#include "loader/workers/sample_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/workers/worker_cache.h"

struct mr_sample_maker {
    struct mr_worker_job job;
    const struct mr_control *control;
    struct mr_worker_record *record;
    struct mr_trace_ring *ring; /* NULL without a trace */
    struct mr_pixels *pixels;
    struct mr_sample_source source;
    struct mr_worker_cache *cache; /* NULL without a cache */
    struct mr_reader *spare;       /* for candidates that nobody has read ahead; made when first needed */
};

mr_status mr_sample_make_create(const struct mr_worker_job *job, struct mr_sample_maker **maker_out, mr_error *error)
{
    *maker_out = NULL;
    struct mr_sample_maker *p = calloc(1, sizeof *p);
    if (!p)
        return mr_error_memory(error, sizeof *p);
    p->job = *job;
    p->control = job->shared.control;
    p->record = &job->shared.records[job->id];
    p->ring = mr_control_trace_ring(&job->shared, job->id);
    mr_status status =
        mr_pixels_create(&p->control->plan, &p->control->limits, p->control->with_timing || p->ring, &p->pixels, error);
    if (status != MR_OK) {
        mr_sample_make_destroy(p);
        return status;
    }
    p->source = (struct mr_sample_source){.catalog = job->catalog,
                                          .pixels = p->pixels,
                                          .max_bytes = p->control->max_file_bytes,
                                          .verifies = p->control->verify_packs};
    p->cache = mr_worker_cache_create(mr_control_cache(&job->shared), job->catalog, p->pixels);
    *maker_out = p;
    return MR_OK;
}

void mr_sample_make_destroy(struct mr_sample_maker *p)
{
    if (!p)
        return;
    mr_worker_cache_destroy(p->cache);
    if (p->pixels)
        mr_pixels_destroy(p->pixels);
    if (p->spare)
        mr_reader_destroy(p->spare);
    free(p);
}

static bool may_substitute(const struct mr_sample_maker *p)
{
    return p->control->on_error == MR_ON_ERROR_SKIP && !p->control->holes;
}

static int64_t find_candidate(const struct mr_sample_maker *p, const struct mr_sample_job *job)
{
    int64_t want = atomic_load_explicit(&job->view.want[job->place], memory_order_relaxed);
    uint32_t skipped = atomic_load_explicit(&job->view.skipped[job->place], memory_order_relaxed);
    if (skipped == 0)
        return want;
    if (!may_substitute(p) || skipped >= p->control->n_samples)
        return -1;
    return (want + skipped) % p->control->n_samples;
}

bool mr_sample_make_choose(const struct mr_sample_maker *p, struct mr_sample_job *job)
{
    job->index = find_candidate(p, job);
    if (job->index < 0)
        return false;
    uint64_t epoch = atomic_load_explicit(&job->view.slot->epoch, memory_order_relaxed);
    mr_rng_init(&job->draws, p->control->seed, epoch, (uint64_t)job->index);
    return true;
}

enum mr_submitted mr_sample_make_submit(struct mr_sample_maker *p, const struct mr_sample_job *job,
                                        struct mr_reader *reader)
{
    mr_error unused;
    if (mr_worker_cache_prefetch(p->cache, job))
        return MR_SUBMITTED_CACHED;
    bool submitted = mr_sample_fetch_submit(&p->source, job, reader, &unused) == MR_OK;
    return submitted ? MR_SUBMITTED_READ : MR_SUBMITTED_NOTHING;
}

/* Rows are decoded and transformed in turns: the spans have the sums, one behind the other. */
static void trace_pixels(const struct mr_sample_maker *p, int64_t index, uint64_t begin_ns,
                         const struct mr_pixels_report *report)
{
    uint64_t decoded_ns = begin_ns + report->decode_ns;
    if (p->control->plan.kind.encoded)
        mr_trace_ring_put_span(p->ring, MR_TRACE_DECODE, begin_ns, decoded_ns, index);
    mr_trace_ring_put_span(p->ring, MR_TRACE_TRANSFORM, decoded_ns, decoded_ns + report->transform_ns, index);
}

static mr_status run_pixels(struct mr_sample_maker *p, const struct mr_sample_job *job,
                            const struct mr_fetched *fetched, mr_error *error)
{
    struct mr_pixels_report report;
    uint64_t begin_ns = mr_trace_ring_begin(p->ring);
    uint8_t *out = job->view.data + job->place * p->control->layout.sample_bytes;
    mr_status status = mr_sample_fetch_run(&p->source, job, fetched, out, &report, error);
    if (p->control->with_timing) {
        atomic_fetch_add_explicit(&p->record->decode_ns, report.decode_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&p->record->transform_ns, report.transform_ns, memory_order_relaxed);
    }
    trace_pixels(p, job->index, begin_ns, &report);
    if (status != MR_OK) {
        mr_sample_fetch_name(p->job.catalog, job->index, error);
        return status;
    }
    memcpy(job->view.geometry + job->place * MR_GEOMETRY_FIELDS, report.geometry, sizeof report.geometry);
    if (report.n_warnings)
        atomic_fetch_add_explicit(&job->view.slot->n_warnings, report.n_warnings, memory_order_relaxed);
    return MR_OK;
}

static uint8_t *label_at(const struct mr_sample_maker *p, const struct mr_sample_job *job)
{
    return job->view.label + job->place * p->control->layout.label_bytes;
}

static mr_status use_read(struct mr_sample_maker *p, const struct mr_sample_job *job, const struct mr_read *read,
                          mr_error *error)
{
    struct mr_fetched fetched;
    mr_status status = mr_sample_fetch_take(&p->source, read, label_at(p, job), &fetched, error);
    return status == MR_OK ? run_pixels(p, job, &fetched, error) : status;
}

/* From the cache. False: nothing was done, or what was done does not count, and the file is to be read. */
static bool use_cached(struct mr_sample_maker *p, const struct mr_sample_job *job)
{
    struct mr_fetched fetched;
    mr_error unused;
    if (!p->cache)
        return false;
    uint64_t begin_ns = mr_trace_ring_begin(p->ring);
    if (!mr_worker_cache_take(p->cache, job, label_at(p, job), &fetched))
        return false;
    mr_trace_ring_put(p->ring, MR_TRACE_READ, begin_ns, job->index);
    atomic_fetch_add_explicit(&p->record->bytes_read, fetched.len, memory_order_relaxed);
    if (run_pixels(p, job, &fetched, &unused) == MR_OK) {
        atomic_fetch_add_explicit(&p->record->n_cached, 1, memory_order_relaxed);
        return true;
    }
    mr_worker_cache_drop(p->cache, job->index);
    return false;
}

static mr_status open_spare(struct mr_sample_maker *p, mr_error *error)
{
    struct mr_reader_options options = {.kind = MR_READER_PREAD, .depth = 1, .max_bytes = p->control->max_file_bytes};
    return p->spare ? MR_OK : mr_reader_create(p->job.catalog, &options, &p->spare, error);
}

static mr_status read_and_use(struct mr_sample_maker *p, const struct mr_sample_job *job, mr_error *error)
{
    struct mr_read read;
    uint64_t begin_ns = mr_trace_ring_begin(p->ring);
    mr_status status = open_spare(p, error);
    if (status == MR_OK)
        status = mr_sample_fetch_submit(&p->source, job, p->spare, error);
    if (status != MR_OK)
        return status;
    if (!mr_reader_reap(p->spare, true, &read))
        return mr_error_set(error, MR_ERR_IO, "the reader lost index %lld", (long long)job->index);
    mr_trace_ring_put(p->ring, MR_TRACE_READ, begin_ns, job->index);
    status = use_read(p, job, &read, error);
    mr_reader_recycle(p->spare, &read);
    return status;
}

static mr_status check_callback_sample(const struct mr_sample_maker *p, const mr_sample *sample, mr_error *error)
{
    const struct mr_sample_kind *kind = &p->control->plan.kind;
    if (!sample->bytes && sample->len_bytes > 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave no bytes");
    if (sample->encoded != (kind->encoded != 0))
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave %s", kind->encoded ? "raw elements" : "an encoded image");
    if (!kind->encoded && sample->len_bytes != kind->data_bytes)
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave %zu bytes, the shape needs %llu", sample->len_bytes,
                            (unsigned long long)kind->data_bytes);
    bool integer = kind->label_ndim == 0 && kind->label_dtype == MR_I64;
    if (!integer && !sample->label_record)
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave no label record");
    return MR_OK;
}

static mr_status use_callback(struct mr_sample_maker *p, const struct mr_sample_job *job, mr_error *error)
{
    const mr_callbacks *callbacks = p->job.callbacks;
    mr_sample sample;
    memset(&sample, 0, sizeof sample);
    uint64_t begin_ns = mr_trace_ring_begin(p->ring);
    int rc = callbacks->get(callbacks->user, job->index, &sample);
    mr_trace_ring_put(p->ring, MR_TRACE_READ, begin_ns, job->index);
    mr_status status;
    if (rc != 0) {
        sample.error[sizeof sample.error - 1] = '\0';
        status =
            mr_error_set(error, MR_ERR_DAMAGED, "get returned %d%s%s", rc, sample.error[0] ? ": " : "", sample.error);
    } else {
        status = check_callback_sample(p, &sample, error);
    }
    if (status != MR_OK) {
        mr_sample_fetch_name(p->job.catalog, job->index, error);
    } else {
        uint64_t label_bytes = p->control->layout.label_bytes;
        const void *label = sample.label_record ? sample.label_record : (const void *)&sample.label;
        memcpy(label_at(p, job), label, label_bytes);
        struct mr_fetched fetched = {.bytes = sample.bytes, .len = sample.len_bytes, .encoded = sample.encoded};
        status = run_pixels(p, job, &fetched, error);
    }
    if (callbacks->release)
        callbacks->release(callbacks->user, &sample);
    return status;
}

static mr_status try_candidate(struct mr_sample_maker *p, const struct mr_sample_job *job, const struct mr_read *read,
                               mr_error *error)
{
    atomic_store_explicit(&p->record->index, job->index, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->record->beat, 1, memory_order_relaxed); /* the time limit is each candidate's */
    if (p->job.callbacks)
        return use_callback(p, job, error);
    bool is_read = read && read->index == job->index;
    if (!is_read && use_cached(p, job))
        return MR_OK;
    mr_status status = is_read ? use_read(p, job, read, error) : read_and_use(p, job, error);
    if (status == MR_OK)
        mr_worker_cache_met(p->cache, job->index);
    return status;
}

/* What a device will find at this place. */
static void describe_sample(struct mr_sample_maker *p, const struct mr_sample_job *job, enum mr_encoding encoding)
{
    const struct mr_plan *plan = &p->control->plan;
    uint64_t len = p->control->layout.sample_bytes;
    job->view.descriptors[job->place] =
        (struct mr_descriptor){.encoding = encoding,
                               .offset = job->place * len,
                               .len = len,
                               .place = job->place,
                               .box = {0, 0, (int32_t)plan->out_width, (int32_t)plan->out_height}};
}

/* No sample here: zeros and mask 0. */
static void leave_hole(struct mr_sample_maker *p, const struct mr_sample_job *job, enum mr_outcome outcome)
{
    const struct mr_slot_layout *layout = &p->control->layout;
    memset(job->view.data + job->place * layout->sample_bytes, 0, layout->sample_bytes);
    memset(label_at(p, job), 0, layout->label_bytes);
    memset(job->view.geometry + job->place * MR_GEOMETRY_FIELDS, 0, MR_GEOMETRY_FIELDS * sizeof(int32_t));
    job->view.index[job->place] = atomic_load_explicit(&job->view.want[job->place], memory_order_relaxed);
    job->view.mask[job->place] = 0;
    describe_sample(p, job, MR_ENCODING_NONE);
    atomic_store_explicit(&job->view.outcome[job->place], outcome, memory_order_relaxed);
}

static void give_sample(struct mr_sample_maker *p, const struct mr_sample_job *job)
{
    job->view.index[job->place] = job->index;
    job->view.mask[job->place] = 1;
    describe_sample(p, job, MR_ENCODING_U8);
    atomic_store_explicit(&job->view.outcome[job->place], MR_OUTCOME_GOOD, memory_order_relaxed);
}

bool mr_sample_make_run(struct mr_sample_maker *p, struct mr_sample_job *job, const struct mr_read *read)
{
    mr_error error;
    bool tried = false;
    while (mr_sample_make_choose(p, job)) {
        tried = true;
        /* What has cost a worker its life is made from its file: that may be good where the cache's entry is not. */
        if (mr_place_blame(job->word) >= MR_BLAME_CRASH)
            mr_worker_cache_drop(p->cache, job->index);
        mr_status status = try_candidate(p, job, read, &error);
        if (status == MR_OK) {
            give_sample(p, job);
            return true;
        }
        mr_slot_record(&job->view, job->place, &error);
        if (status != MR_ERR_DAMAGED) { /* no policy helps against this machine's troubles */
            leave_hole(p, job, MR_OUTCOME_FAILED);
            return true;
        }
        mr_place_absolve(&job->view.places[job->place], &job->word);
        atomic_fetch_add_explicit(&job->view.skipped[job->place], 1, memory_order_relaxed);
    }
    bool hole = p->control->on_error == MR_ON_ERROR_ZERO || p->control->holes;
    leave_hole(p, job, hole ? MR_OUTCOME_HOLE : MR_OUTCOME_FAILED);
    return tried;
}

void mr_sample_make_fill(struct mr_sample_maker *p, uint64_t worked_ns)
{
    mr_worker_cache_fill(p->cache, worked_ns);
}

bool mr_sample_make_fill_idle(struct mr_sample_maker *p)
{
    return mr_worker_cache_fill_idle(p->cache);
}
