/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One sample, and the policy for damaged ones. The count of candidates found damaged lies in the slot, so a worker that
 * dies loses nothing: whoever takes the place next goes on at the next candidate.
 */
#include "loader/produce.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "transforms/pixels.h"

struct mr_producer {
    struct mr_worker_job job;
    const struct mr_control *control;
    struct mr_worker_record *record;
    struct mr_trace_ring *ring; /* NULL without a trace */
    struct mr_pixels *pixels;
    struct mr_reader *spare; /* for candidates that nobody has read ahead; made when first needed */
};

/* The bytes of a candidate, wherever they come from. */
struct material {
    const uint8_t *bytes;
    size_t len;
    bool encoded;
};

mr_status mr_producer_create(const struct mr_worker_job *job, struct mr_producer **producer_out, mr_error *error)
{
    *producer_out = NULL;
    struct mr_producer *p = calloc(1, sizeof *p);
    if (!p)
        return mr_error_memory(error, sizeof *p);
    p->job = *job;
    p->control = job->shared.control;
    p->record = &job->shared.records[job->id];
    p->ring = mr_control_trace_ring(&job->shared, job->id);
    mr_status status =
        mr_pixels_create(&p->control->plan, &p->control->limits, p->control->with_timing || p->ring, &p->pixels, error);
    if (status != MR_OK) {
        mr_producer_destroy(p);
        return status;
    }
    *producer_out = p;
    return MR_OK;
}

void mr_producer_destroy(struct mr_producer *p)
{
    if (!p)
        return;
    if (p->pixels)
        mr_pixels_destroy(p->pixels);
    if (p->spare)
        mr_reader_destroy(p->spare);
    free(p);
}

static bool may_substitute(const struct mr_producer *p)
{
    return p->control->on_error == MR_ON_ERROR_SKIP && !p->control->holes;
}

int64_t mr_producer_candidate(const struct mr_producer *p, const struct mr_slot_view *view, uint32_t place)
{
    int64_t want = atomic_load_explicit(&view->want[place], memory_order_relaxed);
    uint32_t skipped = atomic_load_explicit(&view->skipped[place], memory_order_relaxed);
    if (skipped == 0)
        return want;
    if (!may_substitute(p) || skipped >= p->control->n_samples)
        return -1;
    return (want + skipped) % p->control->n_samples;
}

/* "path (index 7): words", with the sample's index in the record. */
static void name_sample(const struct mr_producer *p, int64_t index, mr_error *error)
{
    char which[MR_TABLE_WHICH];
    mr_error words = *error;
    mr_table_which(p->job.table, index, which);
    mr_error_set(error, (mr_status)words.status, "%s: %s", which, words.text);
    error->os_error = words.os_error;
    error->index = index;
}

/* Rows are decoded and transformed in turns: the spans have the sums, one behind the other. */
static void trace_pixels(const struct mr_producer *p, int64_t index, uint64_t begin_ns,
                         const struct mr_pixels_report *report)
{
    uint64_t decoded_ns = begin_ns + report->decode_ns;
    if (p->control->plan.kind.encoded)
        mr_trace_ring_put_span(p->ring, MR_TRACE_DECODE, begin_ns, decoded_ns, index);
    mr_trace_ring_put_span(p->ring, MR_TRACE_TRANSFORM, decoded_ns, decoded_ns + report->transform_ns, index);
}

static mr_status run_pixels(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, int64_t index,
                            const struct material *material, mr_error *error)
{
    struct mr_rng rng;
    struct mr_pixels_report report;
    uint64_t epoch = atomic_load_explicit(&view->slot->epoch, memory_order_relaxed);
    mr_rng_init(&rng, p->control->seed, epoch, (uint64_t)index);
    uint64_t begin_ns = mr_trace_ring_begin(p->ring);
    mr_status status = mr_pixels_run(p->pixels, material->bytes, material->len, material->encoded, &rng,
                                     view->data + place * p->control->layout.sample_bytes, &report, error);
    if (p->control->with_timing) {
        atomic_fetch_add_explicit(&p->record->decode_ns, report.decode_ns, memory_order_relaxed);
        atomic_fetch_add_explicit(&p->record->transform_ns, report.transform_ns, memory_order_relaxed);
    }
    trace_pixels(p, index, begin_ns, &report);
    if (status != MR_OK) {
        name_sample(p, index, error);
        return status;
    }
    memcpy(view->geometry + place * MR_GEOMETRY_FIELDS, report.geometry, sizeof report.geometry);
    if (report.n_warnings)
        atomic_fetch_add_explicit(&view->slot->n_warnings, report.n_warnings, memory_order_relaxed);
    return MR_OK;
}

static uint8_t *label_at(const struct mr_producer *p, const struct mr_slot_view *view, uint32_t place)
{
    return view->label + place * p->control->layout.label_bytes;
}

static mr_status use_read(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place,
                          const struct mr_read *read, mr_error *error)
{
    if (read->status != MR_OK) {
        *error = *read->error;
        return read->status;
    }
    struct material material = {.encoded = mr_table_kind(p->job.table)->encoded};
    mr_status status = mr_table_split(p->job.table, read->index, read->bytes, read->len, &material.bytes, &material.len,
                                      label_at(p, view, place), error);
    error->index = read->index;
    if (status != MR_OK)
        return status;
    return run_pixels(p, view, place, read->index, &material, error);
}

static mr_status read_and_use(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, int64_t index,
                              mr_error *error)
{
    if (!p->spare) {
        struct mr_reader_options options = {
            .kind = MR_READER_PREAD, .depth = 1, .max_bytes = p->control->max_file_bytes};
        mr_status status = mr_reader_create(p->job.table, &options, &p->spare, error);
        if (status != MR_OK)
            return status;
    }
    struct mr_read read;
    uint64_t begin_ns = mr_trace_ring_begin(p->ring);
    mr_reader_submit(p->spare, 0, index);
    if (!mr_reader_reap(p->spare, true, &read))
        return mr_error_set(error, MR_ERR_IO, "the reader lost index %lld", (long long)index);
    mr_trace_ring_put(p->ring, MR_TRACE_READ, begin_ns, index);
    mr_status status = use_read(p, view, place, &read, error);
    mr_reader_recycle(p->spare, &read);
    return status;
}

static mr_status check_callback_sample(const struct mr_producer *p, const mr_sample *sample, mr_error *error)
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

static mr_status use_callback(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, int64_t index,
                              mr_error *error)
{
    const mr_callbacks *callbacks = p->job.callbacks;
    mr_sample sample;
    memset(&sample, 0, sizeof sample);
    uint64_t begin_ns = mr_trace_ring_begin(p->ring);
    int rc = callbacks->get(callbacks->user, index, &sample);
    mr_trace_ring_put(p->ring, MR_TRACE_READ, begin_ns, index);
    mr_status status;
    if (rc != 0) {
        sample.error[sizeof sample.error - 1] = '\0';
        status =
            mr_error_set(error, MR_ERR_DAMAGED, "get returned %d%s%s", rc, sample.error[0] ? ": " : "", sample.error);
    } else {
        status = check_callback_sample(p, &sample, error);
    }
    if (status != MR_OK) {
        name_sample(p, index, error);
    } else {
        uint64_t label_bytes = p->control->layout.label_bytes;
        const void *label = sample.label_record ? sample.label_record : (const void *)&sample.label;
        memcpy(label_at(p, view, place), label, label_bytes);
        struct material material = {sample.bytes, sample.len_bytes, sample.encoded};
        status = run_pixels(p, view, place, index, &material, error);
    }
    if (callbacks->release)
        callbacks->release(callbacks->user, &sample);
    return status;
}

static mr_status try_candidate(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, int64_t index,
                               const struct mr_read *read, mr_error *error)
{
    atomic_store_explicit(&p->record->index, index, memory_order_relaxed);
    atomic_fetch_add_explicit(&p->record->beat, 1, memory_order_relaxed); /* the time limit is each candidate's */
    if (p->job.callbacks)
        return use_callback(p, view, place, index, error);
    if (read && read->index == index)
        return use_read(p, view, place, read, error);
    return read_and_use(p, view, place, index, error);
}

/* What a device will find at this place. */
static void describe(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, enum mr_encoding encoding)
{
    const struct mr_plan *plan = &p->control->plan;
    uint64_t len = p->control->layout.sample_bytes;
    view->descriptors[place] =
        (struct mr_descriptor){.encoding = encoding,
                               .offset = place * len,
                               .len = len,
                               .place = place,
                               .box = {0, 0, (int32_t)plan->out_width, (int32_t)plan->out_height}};
}

/* No sample here: zeros and mask 0. */
static void leave_hole(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, enum mr_outcome outcome)
{
    const struct mr_slot_layout *layout = &p->control->layout;
    memset(view->data + place * layout->sample_bytes, 0, layout->sample_bytes);
    memset(label_at(p, view, place), 0, layout->label_bytes);
    memset(view->geometry + place * MR_GEOMETRY_FIELDS, 0, MR_GEOMETRY_FIELDS * sizeof(int32_t));
    view->index[place] = atomic_load_explicit(&view->want[place], memory_order_relaxed);
    view->mask[place] = 0;
    describe(p, view, place, MR_ENCODING_NONE);
    atomic_store_explicit(&view->outcome[place], outcome, memory_order_relaxed);
}

static void give_sample(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, int64_t index)
{
    view->index[place] = index;
    view->mask[place] = 1;
    describe(p, view, place, MR_ENCODING_U8);
    atomic_store_explicit(&view->outcome[place], MR_OUTCOME_GOOD, memory_order_relaxed);
}

void mr_producer_make(struct mr_producer *p, const struct mr_slot_view *view, uint32_t place, uint64_t *held,
                      const struct mr_read *read)
{
    mr_error error;
    int64_t index;
    while ((index = mr_producer_candidate(p, view, place)) >= 0) {
        mr_status status = try_candidate(p, view, place, index, read, &error);
        if (status == MR_OK) {
            give_sample(p, view, place, index);
            return;
        }
        mr_slot_record(view, place, &error);
        if (status != MR_ERR_DAMAGED) { /* no policy helps against this machine's troubles */
            leave_hole(p, view, place, MR_OUTCOME_FAILED);
            return;
        }
        mr_place_absolve(&view->places[place], held);
        atomic_fetch_add_explicit(&view->skipped[place], 1, memory_order_relaxed);
    }
    bool hole = p->control->on_error == MR_ON_ERROR_ZERO || p->control->holes;
    leave_hole(p, view, place, hole ? MR_OUTCOME_HOLE : MR_OUTCOME_FAILED);
}
