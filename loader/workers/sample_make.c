/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes one sample in a place that its worker holds, and applies the policy for damaged samples.
 * The number of candidates found damaged is in the slot, so it survives the worker: the next worker
 * that takes the place continues with the next candidate.
 */
#include "loader/workers/sample_make.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "dataset/annotations/box_member.h"
#include "loader/workers/fork_mark.h"
#include "loader/workers/token_row.h"
#include "loader/workers/worker_cache.h"
#include "pinned/slot_extra.h"
#include "transforms/erase.h"

struct mr_sample_maker {
    struct mr_worker_job job;
    const struct mr_control *control;
    struct mr_worker_record *record;
    struct mr_trace_ring *ring; /* NULL without a trace */
    struct mr_plan_runner *runner;
    struct mr_sample_source source;
    struct mr_worker_cache *cache; /* NULL without a cache */
    struct mr_reader *spare;  /* for candidates that were not read ahead; made when first needed */
    struct mr_fork_mark mark; /* made in the worker itself */
    uint32_t first_extra;     /* column of the first further member that is one */
    uint32_t masks[MR_MAX_VIEWS]; /* columns of the masks, that of the only picture first;
                                     MR_NO_COLUMN */
    bool has_pictures;            /* of views or crops: */
    struct mr_view_out outs[MR_MAX_VIEWS];
    uint32_t source_column;   /* MR_NO_COLUMN without a mixture */
    uint32_t first_box;       /* column of the boxes, which those of their values follow */
    struct mr_box_list boxes; /* of the sample in progress */
};

static void find_masks(struct mr_sample_maker *maker)
{
    for (uint32_t i = 0; i <= maker->control->n_views; i++) {
        const char *view = mr_control_plan(&maker->job.shared, i)->view.name;
        char name[MR_COLUMN_NAME];
        snprintf(name, sizeof name, "%s%smask_image", view, view[0] ? "." : "");
        maker->masks[i] = mr_columns_find(&maker->control->layout.columns, name);
    }
}

mr_status mr_sample_make_create(const struct mr_worker_job *job, struct mr_sample_maker **maker_out,
                                mr_error *error)
{
    *maker_out = NULL;
    struct mr_sample_maker *maker = calloc(1, sizeof *maker);
    if (!maker)
        return mr_error_memory(error, sizeof *maker);
    maker->job = *job;
    maker->control = job->shared.control;
    maker->record = &job->shared.records[job->id];
    maker->ring = mr_control_trace_ring(&job->shared, job->id);
    const struct mr_plan *plan = &maker->control->plan;
    maker->first_extra = maker->control->layout.columns.n; /* they are last */
    for (uint32_t k = 0; k < plan->kind.n_extra; k++)
        maker->first_extra -= mr_plan_member_use(plan, k) == MR_MEMBER_BYTES;
    find_masks(maker);
    maker->source_column = plan->kind.sources
                               ? mr_columns_find(&maker->control->layout.columns, "source")
                               : MR_NO_COLUMN;
    maker->first_box =
        plan->kind.boxes ? mr_columns_find(&maker->control->layout.columns, "boxes") : MR_NO_COLUMN;
    const struct mr_view *view = &plan->view;
    maker->has_pictures = view->name[0] || view->n_crops > 0;
    mr_fork_mark_init(&maker->mark);
    const mr_loader_options *o = &maker->control->options;
    const struct mr_codec_limits limits = {.max_pixels = o->max_pixels};
    mr_status status = mr_plan_runner_create(&maker->control->plan, &limits,
                                             o->with_timing || maker->ring, &maker->runner, error);
    if (status == MR_OK)
        status = mr_packed_rows_create(&maker->control->layout, &maker->source.rows, error);
    if (status != MR_OK) {
        mr_sample_make_destroy(maker);
        return status;
    }
    mr_plan_runner_set_views(maker->runner, mr_control_views(&job->shared),
                             maker->control->n_views);
    if (o->jpeg_decoder == MR_JPEG_STOCK)
        mr_plan_runner_use_stock_jpeg(maker->runner);
    maker->source = (struct mr_sample_source){.catalog = job->catalog,
                                              .runner = maker->runner,
                                              .rows = maker->source.rows,
                                              .max_bytes = o->max_file_bytes,
                                              .verifies = o->verify_packs,
                                              .no_index = o->jpeg_decoder == MR_JPEG_STOCK};
    maker->cache =
        mr_worker_cache_create(mr_control_cache(&job->shared), MR_N_TAGS, &maker->source);
    *maker_out = maker;
    return MR_OK;
}

void mr_sample_make_destroy(struct mr_sample_maker *maker)
{
    if (!maker)
        return;
    if (maker->spare)
        mr_reader_destroy(maker->spare);
    mr_worker_cache_destroy(maker->cache);
    mr_fork_mark_fini(&maker->mark);
    mr_box_list_fini(&maker->boxes);
    free(maker->source.rows);
    if (maker->runner)
        mr_plan_runner_destroy(maker->runner);
    free(maker);
}

static struct mr_damage_map known_damage(const struct mr_sample_maker *maker,
                                         const struct mr_sample_job *job)
{
    return mr_control_damage(&maker->job.shared,
                             atomic_load_explicit(&job->view.slot->epoch, memory_order_relaxed));
}

/*
 * How many candidates of this place are known to be damaged: first those that this place has tried,
 * then those that follow and that other places have tried. Every place tries its wanted sample
 * itself, so that it records that sample's damage.
 */
static uint32_t count_damaged(const struct mr_sample_maker *maker, const struct mr_sample_job *job)
{
    uint32_t skipped = atomic_load_explicit(&job->view.skipped[job->place], memory_order_relaxed);
    if (skipped == 0)
        return 0;
    struct mr_damage_map known = known_damage(maker, job);
    int64_t want = atomic_load_explicit(&job->view.want[job->place], memory_order_relaxed);
    return mr_damage_map_pass(&known, want, skipped);
}

/*
 * Skip candidates that are known to be damaged. The place's blame was for the first candidate that
 * is skipped, so it is cleared.
 */
static uint32_t skip_known(const struct mr_sample_maker *maker, struct mr_sample_job *job)
{
    uint32_t damaged = count_damaged(maker, job);
    if (damaged != atomic_load_explicit(&job->view.skipped[job->place], memory_order_relaxed)) {
        mr_place_absolve(&job->view.places[job->place], &job->word);
        atomic_store_explicit(&job->view.skipped[job->place], damaged, memory_order_relaxed);
    }
    return damaged;
}

/* Mark the candidate as damaged, so that no other place tries it in this epoch. */
static void remember_damage(const struct mr_sample_maker *maker, const struct mr_sample_job *job)
{
    struct mr_damage_map known = known_damage(maker, job);
    mr_damage_map_set(&known, job->index);
}

static bool choose_candidate(const struct mr_sample_maker *maker, struct mr_sample_job *job,
                             uint32_t damaged)
{
    int64_t want = atomic_load_explicit(&job->view.want[job->place], memory_order_relaxed);
    bool none =
        damaged > 0 && (!maker->control->substitutes || damaged >= maker->control->n_samples);
    job->index = none ? -1 : (want + damaged) % maker->control->n_samples;
    if (none)
        return false;
    uint64_t epoch = atomic_load_explicit(&job->view.slot->epoch, memory_order_relaxed);
    uint32_t occurrence =
        atomic_load_explicit(&job->view.occurrence[job->place], memory_order_relaxed);
    mr_rng_init(&job->draws, maker->control->options.seed, epoch, (uint64_t)job->index);
    mr_rng_set_occurrence(&job->draws, occurrence);
    return true;
}

bool mr_sample_make_choose(const struct mr_sample_maker *maker, struct mr_sample_job *job)
{
    return choose_candidate(maker, job, count_damaged(maker, job));
}

const struct mr_other_files *mr_sample_make_files(const struct mr_sample_maker *maker)
{
    return mr_worker_cache_files(maker->cache);
}

/* plain: what the cache has, and marks, are not used. */
static mr_status list_parts(struct mr_sample_maker *maker, struct mr_sample_job *job, bool plain,
                            struct mr_part_list *list_out, mr_error *error)
{
    if (!plain && mr_worker_cache_list(maker->cache, job, list_out))
        return MR_OK;
    bool whole = mr_worker_cache_wants(maker->cache, job->index);
    return mr_sample_fetch_list(&maker->source, job, plain, whole, list_out, error);
}

bool mr_sample_make_submit(struct mr_sample_maker *maker, struct mr_sample_job *job,
                           struct mr_reader *reader)
{
    struct mr_part_list list;
    mr_error unused;
    if (list_parts(maker, job, false, &list, &unused) != MR_OK)
        return false;
    mr_reader_submit(reader, job->tag, job->index, &list);
    return true;
}

/*
 * Decoding and transforming alternate by rows. The two spans have the sums of the times, one after
 * the other.
 */
static void trace_pixels(const struct mr_sample_maker *maker, int64_t index, uint64_t begin_ns,
                         const struct mr_plan_runner_report *report)
{
    uint64_t decoded_ns = begin_ns + report->decode_ns;
    if (maker->control->plan.kind.encoded)
        mr_trace_ring_put_span(maker->ring, MR_TRACE_DECODE, begin_ns, decoded_ns, index);
    mr_trace_ring_put_span(maker->ring, MR_TRACE_TRANSFORM, decoded_ns,
                           decoded_ns + report->transform_ns, index);
}

/* The size of an image that keeps its own; 0 x 0 for a hole. */
static void store_size(const struct mr_sample_maker *maker, const struct mr_sample_job *job,
                       uint32_t height, uint32_t width)
{
    int32_t *shape = mr_slot_row(&job->view, MR_COLUMN_SIZE, job->place);
    shape[0] = (int32_t)height;
    shape[1] = (int32_t)width;
    if (job->view.layout->columns.column[MR_COLUMN_IMAGE].has_gaps)
        mr_slot_extra_lengths(&job->view, MR_COLUMN_IMAGE)[job->place] =
            height * width * maker->control->plan.channels *
            (uint32_t)mr_dtype_size(maker->control->plan.dtype);
}

/*
 * The columns of further views follow those that every batch has: pixels, then geometry. The
 * pictures that are mixed follow each other in the row before mixing.
 */
static void aim_at_rows(struct mr_sample_maker *maker, const struct mr_sample_job *job)
{
    uint8_t *source = mr_slot_source(&job->view, job->place);
    struct mr_erase *erases = job->view.erases ? mr_slot_erases(&job->view, job->place) : NULL;
    for (uint32_t i = 0; i <= maker->control->n_views; i++) {
        const struct mr_plan *plan = mr_control_plan(&maker->job.shared, i);
        struct mr_view_out *out = &maker->outs[i];
        uint32_t pixels = i ? MR_COLUMNS_FIXED + 2 * (i - 1) : MR_COLUMN_IMAGE;
        uint32_t geometry = i ? pixels + 1 : MR_COLUMN_GEOMETRY;
        *out = (struct mr_view_out){.pixels = mr_slot_row(&job->view, pixels, job->place),
                                    .geometry = mr_slot_row(&job->view, geometry, job->place)};
        if (maker->masks[i] != MR_NO_COLUMN)
            out->masks = mr_slot_row(&job->view, maker->masks[i], job->place);
        if (!mr_control_mixed(&maker->job.shared, i)->mix.kind)
            continue;
        out->pixels = source;
        source += plan->out_bytes * plan->view.n_pictures;
        if (mr_erase_is_deferred(plan)) {
            out->erases = erases;
            erases += plan->view.n_pictures;
        }
    }
    mr_plan_runner_set_outs(maker->runner, maker->outs);
}

static mr_status run_pixels(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                            const struct mr_fetched *fetched, mr_error *error)
{
    struct mr_plan_runner_report report;
    uint64_t begin_ns = mr_trace_ring_begin(maker->ring);
    uint8_t *out = mr_slot_source(&job->view, job->place);
    if (maker->has_pictures)
        aim_at_rows(maker, job);
    mr_status status = mr_sample_fetch_run(&maker->source, job, fetched, out, &report, error);
    if (maker->control->options.with_timing) {
        atomic_fetch_add_explicit(&maker->record->decode_ns, report.decode_ns,
                                  memory_order_relaxed);
        atomic_fetch_add_explicit(&maker->record->transform_ns, report.transform_ns,
                                  memory_order_relaxed);
    }
    trace_pixels(maker, job->index, begin_ns, &report);
    if (status != MR_OK) {
        mr_sample_fetch_name(maker->job.catalog, job->index, error);
        return status;
    }
    if (!maker->has_pictures)
        memcpy(mr_slot_row(&job->view, MR_COLUMN_GEOMETRY, job->place), report.geometry,
               sizeof report.geometry);
    if (maker->control->plan.keeps_size)
        store_size(maker, job, report.height, report.width);
    if (job->view.erases && !maker->has_pictures)
        *mr_slot_erases(&job->view, job->place) = report.erase;
    if (report.n_warnings)
        atomic_fetch_add_explicit(&job->view.slot->n_warnings, report.n_warnings,
                                  memory_order_relaxed);
    return MR_OK;
}

static void *label_at(const struct mr_sample_job *job)
{
    return mr_slot_row(&job->view, MR_COLUMN_LABEL, job->place);
}

static void count_bytes(struct mr_sample_maker *maker, uint64_t n)
{
    atomic_fetch_add_explicit(&maker->record->bytes_read, n, memory_order_relaxed);
}

/* Lend the sample's mask to the run of its pixels. */
static mr_status lend_mask(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                           const uint8_t *bytes, size_t len, mr_error *error)
{
    void *out = maker->masks[0] == MR_NO_COLUMN
                    ? NULL
                    : mr_slot_row(&job->view, maker->masks[0], job->place);
    mr_plan_runner_set_mask(maker->runner, bytes, len, out);
    return bytes && len > 0 ? MR_OK : mr_error_set(error, MR_ERR_DAMAGED, "it has no mask");
}

/* Read the boxes of the sample. The run of its pixels moves them. */
static mr_status read_boxes(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                            const struct mr_read_part *member, mr_error *error)
{
    uint32_t most = maker->control->options.max_boxes;
    mr_status status = mr_box_member_read(maker->job.catalog, job->index, member->bytes,
                                          member->len, &maker->boxes, error);
    if (status == MR_OK && maker->boxes.n > most) {
        status = mr_error_set(error, MR_ERR_DAMAGED, "it has %u boxes; max_boxes is %u",
                              maker->boxes.n, most);
        mr_sample_fetch_name(maker->job.catalog, job->index, error);
    }
    mr_plan_runner_set_boxes(maker->runner, &maker->boxes);
    return status;
}

static void store_boxes(const struct mr_sample_maker *maker, const struct mr_sample_job *job)
{
    const uint32_t first = maker->first_box, n = maker->boxes.n;
    float *corners = mr_slot_row(&job->view, first, job->place);
    int64_t *labels = mr_slot_row(&job->view, first + 1, job->place);
    float *areas = mr_slot_row(&job->view, first + 2, job->place);
    uint8_t *crowds = mr_slot_row(&job->view, first + 3, job->place);
    for (uint32_t i = 0; i < n; i++) {
        const struct mr_box_row *row = &maker->boxes.rows[i];
        memcpy(corners + 4 * (size_t)i, row, 4 * sizeof *corners); /* the first fields */
        labels[i] = row->label;
        areas[i] = row->area;
        crowds[i] = (uint8_t)row->is_crowd;
    }
    for (uint32_t c = first; c < first + 4; c++)
        mr_slot_extra_lengths(&job->view, c)[job->place] =
            n * (uint32_t)mr_column_unit_bytes(&job->view.layout->columns.column[c]);
}

/* Store the further members of the sample as they are, or take them for the run of its pixels. */
static mr_status take_members(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                              const struct mr_read *read, mr_error *error)
{
    uint32_t column = maker->first_extra, member = 0;
    mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < read->list->n; i++) {
        const struct mr_read_part *part = &read->part[i];
        if (read->list->part[i].purpose != MR_FOR_MEMBER)
            continue;
        switch (mr_plan_member_use(&maker->control->plan, member++)) {
        case MR_MEMBER_BOXES: status = read_boxes(maker, job, part, error); break;
        case MR_MEMBER_MASK:
            status = lend_mask(maker, job, part->bytes, part->len, error);
            if (status != MR_OK)
                mr_sample_fetch_name(maker->job.catalog, job->index, error);
            break;
        default: mr_slot_extra_put(&job->view, column++, job->place, part->bytes, part->len); break;
        }
    }
    return status;
}

static mr_status make_from_parts(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                                 const struct mr_read *read, mr_error *error)
{
    struct mr_fetched fetched;
    mr_status status =
        mr_sample_fetch_take(&maker->source, job, read, label_at(job), &fetched, error);
    if (status == MR_OK)
        status = take_members(maker, job, read, error);
    if (status == MR_OK)
        status =
            maker->control->plan.kind.tokens
                ? mr_token_row_store(&maker->source, &maker->control->plan, job, &fetched, error)
                : run_pixels(maker, job, &fetched, error);
    if (status == MR_OK && maker->first_box != MR_NO_COLUMN)
        store_boxes(maker, job);
    return status;
}

/* MR_PENDING: the entry of the cache was no help, so the file must be read. */
static mr_status make_from_cache(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                                 const struct mr_read *read)
{
    mr_error unused;
    if (!mr_worker_cache_check(maker->cache, job, read))
        return MR_PENDING;
    if (make_from_parts(maker, job, read, &unused) != MR_OK) {
        mr_worker_cache_drop(maker->cache, job->index);
        return MR_PENDING;
    }
    atomic_fetch_add_explicit(&maker->record->n_cached, 1, memory_order_relaxed);
    return MR_OK;
}

/*
 * Make the sample from its read. MR_PENDING: it failed, but perhaps because of the cache or of
 * marks, so the file must be read without them, and that result counts.
 */
static mr_status make_from_read(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                                const struct mr_read *read, mr_error *error)
{
    if (job->is_from_cache)
        return make_from_cache(maker, job, read);
    mr_status status = make_from_parts(maker, job, read, error);
    if (status == MR_OK)
        mr_worker_cache_met(maker->cache, job, read);
    return status == MR_ERR_DAMAGED && job->has_marks ? MR_PENDING : status;
}

static mr_status open_spare(struct mr_sample_maker *maker, mr_error *error)
{
    struct mr_reader_options options = {.kind = MR_READER_PREAD,
                                        .depth = 1,
                                        .retry_ms = maker->job.shared.control->options.retry_ms,
                                        .other_files = mr_sample_make_files(maker)};
    return maker->spare ? MR_OK
                        : mr_reader_create(maker->job.catalog, &options, &maker->spare, error);
}

/* Read the candidate now, and make it. */
static mr_status read_and_make(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                               bool plain, mr_error *error)
{
    struct mr_sample_job own = *job;
    struct mr_part_list list;
    struct mr_read read;
    uint64_t begin_ns = mr_trace_ring_begin(maker->ring);
    own.tag = MR_SPARE_TAG;
    mr_status status = open_spare(maker, error);
    if (status == MR_OK)
        status = list_parts(maker, &own, plain, &list, error);
    if (status != MR_OK)
        return status;
    mr_reader_submit(maker->spare, own.tag, own.index, &list);
    if (!mr_reader_reap(maker->spare, true, &read))
        return mr_error_set(error, MR_ERR_IO, "the reader lost index %lld", (long long)own.index);
    mr_trace_ring_put(maker->ring, MR_TRACE_READ, begin_ns, own.index);
    count_bytes(maker, mr_read_bytes(&read));
    status = make_from_read(maker, &own, &read, error);
    mr_reader_recycle(maker->spare, &read);
    return status;
}

static mr_status check_callback_sample(const struct mr_sample_maker *maker, const mr_sample *sample,
                                       mr_error *error)
{
    const struct mr_sample_kind *kind = &maker->control->plan.kind;
    if (!sample->bytes && sample->len_bytes > 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave no bytes");
    if (sample->encoded != (kind->encoded != 0))
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave %s",
                            kind->encoded ? "raw elements" : "an encoded image");
    if (!kind->encoded && sample->len_bytes != kind->data_bytes)
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave %zu bytes, the shape needs %llu",
                            sample->len_bytes, (unsigned long long)kind->data_bytes);
    bool integer = kind->label_ndim == 0 && kind->label_dtype == MR_I64;
    if (!integer && !sample->label_record)
        return mr_error_set(error, MR_ERR_DAMAGED, "get gave no label record");
    return MR_OK;
}

static mr_status fail_length(uint64_t len, const char *name, uint64_t most, mr_error *error)
{
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "get gave %llu bytes of '%s': more than %llu, or not whole elements",
                        (unsigned long long)len, name, (unsigned long long)most);
}

/* Store the rows of the callbacks' columns, or take a mask for the run of the pixels. */
static mr_status store_columns(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                               const mr_sample *sample, mr_error *error)
{
    const struct mr_plan *plan = &maker->control->plan;
    uint32_t column = maker->first_extra;
    for (uint32_t k = 0; k < plan->kind.n_extra; k++) {
        if (mr_plan_member_use(plan, k) == MR_MEMBER_MASK) {
            const struct mr_extra *extra = &plan->kind.extra[k];
            if (sample->column_bytes[k] > extra->max_bytes)
                return fail_length(sample->column_bytes[k], extra->name, extra->max_bytes, error);
            mr_status status =
                lend_mask(maker, job, sample->column[k], sample->column_bytes[k], error);
            if (status != MR_OK)
                return status;
            continue;
        }
        const struct mr_column *c = &job->view.layout->columns.column[column];
        uint64_t len = mr_column_is_ragged(c) ? sample->column_bytes[k] : c->row_bytes;
        if (len > 0 && !sample->column[k])
            return mr_error_set(error, MR_ERR_DAMAGED, "get gave no row of '%s'", c->name);
        if (len > c->row_bytes || len % mr_dtype_size((mr_dtype)c->dtype) != 0)
            return fail_length(len, c->name, c->row_bytes, error);
        if (mr_column_is_ragged(c))
            mr_slot_extra_put(&job->view, column, job->place, sample->column[k], len);
        else
            memcpy(mr_slot_row(&job->view, column, job->place), sample->column[k], len);
        column++;
    }
    return MR_OK;
}

/*
 * A callback may fork. A child that returns from it would do this worker's work in the same slots,
 * and its death would not be noticed. So it ends here.
 */
static void exit_if_forked(const struct mr_sample_maker *maker)
{
    if (mr_fork_mark_in_child(&maker->mark))
        _exit(1);
}

static mr_status make_from_callback(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                                    mr_error *error)
{
    const mr_callbacks *callbacks = maker->job.callbacks;
    mr_sample sample = MR_SAMPLE_INIT;
    uint64_t begin_ns = mr_trace_ring_begin(maker->ring);
    int rc = callbacks->get(callbacks->user, job->index, &sample);
    exit_if_forked(maker);
    mr_trace_ring_put(maker->ring, MR_TRACE_READ, begin_ns, job->index);
    mr_status status;
    if (rc != 0) {
        sample.error[sizeof sample.error - 1] = '\0';
        status = mr_error_set(error, MR_ERR_DAMAGED, "get returned %d%s%s", rc,
                              sample.error[0] ? ": " : "", sample.error);
    } else {
        status = check_callback_sample(maker, &sample, error);
    }
    if (status == MR_OK)
        status = store_columns(maker, job, &sample, error);
    if (status != MR_OK) {
        mr_sample_fetch_name(maker->job.catalog, job->index, error);
    } else {
        uint64_t label_bytes = maker->control->plan.kind.label_bytes;
        const void *label = sample.label_record ? sample.label_record : (const void *)&sample.label;
        memcpy(label_at(job), label, label_bytes);
        struct mr_fetched fetched = {
            .bytes = sample.bytes, .len = sample.len_bytes, .encoded = sample.encoded};
        status = run_pixels(maker, job, &fetched, error);
    }
    if (callbacks->release)
        callbacks->release(callbacks->user, &sample);
    exit_if_forked(maker);
    return status;
}

static mr_status try_candidate(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                               const struct mr_read *read, mr_error *error)
{
    atomic_store_explicit(&maker->record->index, job->index, memory_order_relaxed);
    /* the time limit applies to each candidate */
    atomic_fetch_add_explicit(&maker->record->beat, 1, memory_order_relaxed);
    if (maker->job.callbacks)
        return make_from_callback(maker, job, error);
    /*
     * A candidate that has crashed a worker is made from its whole file, because the cache's entry
     * or the marks may be bad while the file is good.
     */
    bool plain = mr_place_blame(job->word) >= MR_BLAME_CRASH;
    mr_status status = MR_PENDING;
    if (!plain && read && read->index == job->index)
        status = make_from_read(maker, job, read, error);
    else if (!plain)
        status = read_and_make(maker, job, false, error);
    else
        mr_worker_cache_drop(maker->cache, job->index);
    return status == MR_PENDING ? read_and_make(maker, job, true, error) : status;
}

static void fill_hole(const struct mr_slot_view *view, uint32_t column, uint32_t place)
{
    const struct mr_column *c = &view->layout->columns.column[column];
    int64_t want = atomic_load_explicit(&view->want[place], memory_order_relaxed);
    if (mr_column_is_ragged(c))
        mr_slot_extra_put(view, column, place, NULL, 0);
    else if (c->hole == MR_HOLE_WANTED)
        memcpy(mr_slot_row(view, column, place), &want, sizeof want);
    else if (!c->has_gaps && !c->pads)
        memset(mr_slot_row(view, column, place), 0, c->row_bytes);
}

/* Leave the place without a sample. Rows that are mixed are left to the worker that mixes. */
static void leave_hole(struct mr_sample_maker *maker, const struct mr_sample_job *job,
                       enum mr_outcome outcome)
{
    const struct mr_columns *columns = &job->view.layout->columns;
    if (maker->control->plan.keeps_size)
        store_size(maker, job, 0, 0);
    for (uint32_t i = MR_COLUMN_IMAGE; i < columns->n; i++)
        if (columns->column[i].writer == MR_WRITER_SAMPLE)
            fill_hole(&job->view, i, job->place);
    if (maker->source.rows)
        mr_token_row_leave(&maker->control->plan, job);
    mr_sample_fetch_source(maker->job.catalog, job, maker->source_column,
                           atomic_load_explicit(&job->view.want[job->place], memory_order_relaxed));
    if (job->view.erases)
        memset(mr_slot_erases(&job->view, job->place), 0,
               job->view.layout->n_erases * sizeof *job->view.erases);
    atomic_store_explicit(&job->view.outcome[job->place], outcome, memory_order_relaxed);
}

static void finish_sample(const struct mr_sample_maker *maker, const struct mr_sample_job *job)
{
    mr_sample_fetch_source(maker->job.catalog, job, maker->source_column, job->index);
    *mr_slot_index(&job->view, job->place) = job->index;
    *mr_slot_mask(&job->view, job->place) = 1;
    atomic_store_explicit(&job->view.outcome[job->place], MR_OUTCOME_GOOD, memory_order_relaxed);
}

bool mr_sample_make_run(struct mr_sample_maker *maker, struct mr_sample_job *job,
                        const struct mr_read *read)
{
    mr_error error;
    bool tried = false;
    while (choose_candidate(maker, job, skip_known(maker, job))) {
        tried = true;
        mr_status status = try_candidate(maker, job, read, &error);
        if (status == MR_OK) {
            finish_sample(maker, job);
            return true;
        }
        mr_slot_record(&job->view, job->place, &error);
        if (status != MR_ERR_DAMAGED) { /* the policy is for damaged samples, not for failures of
                                           this machine */
            leave_hole(maker, job, MR_OUTCOME_FAILED);
            return true;
        }
        remember_damage(maker, job);
        mr_place_absolve(&job->view.places[job->place], &job->word);
        atomic_fetch_add_explicit(&job->view.skipped[job->place], 1, memory_order_relaxed);
    }
    bool hole = maker->control->options.on_error == MR_ON_ERROR_ZERO || maker->control->holes;
    leave_hole(maker, job, hole ? MR_OUTCOME_HOLE : MR_OUTCOME_DAMAGED);
    return tried;
}

void mr_sample_make_fill(struct mr_sample_maker *maker, uint64_t worked_ns)
{
    mr_worker_cache_fill(maker->cache, worked_ns);
}

bool mr_sample_make_fill_idle(struct mr_sample_maker *maker)
{
    return mr_worker_cache_fill_idle(maker->cache);
}
