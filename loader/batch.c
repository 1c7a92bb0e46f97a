/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Batches: their arrays, lending and release. A lent batch holds a reference to the host, so its
 * memory outlives the loader.
 */
#include "loader/batch.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "pinned/slot_extra.h"
#include "transforms/plan_runner.h"

static void set_strides(mr_array *array)
{
    int64_t stride = (int64_t)mr_dtype_size(array->dtype);
    for (uint32_t i = array->ndim; i-- > 0;) {
        array->strides[i] = stride;
        stride *= array->shape[i];
    }
}

/* An array of n_rows rows of row_shape. */
static mr_array make_array(const char *name, mr_dtype dtype, uint32_t n_rows, uint32_t row_ndim,
                           const int64_t *row_shape, mr_device device, void *data)
{
    mr_array array = {
        .name = name, .dtype = dtype, .ndim = row_ndim + 1, .device = device, .data = data};
    array.shape[0] = n_rows;
    for (uint32_t i = 0; i < row_ndim; i++)
        array.shape[i + 1] = row_shape[i];
    set_strides(&array);
    return array;
}

/* Where the arrays of a batch or part are. */
struct memory {
    uint8_t *image;
    uint8_t *small; /* the block that begins at label_off in a slot */
    mr_device image_device;
    mr_device label_device;
    uint32_t first_row; /* in the small block's arrays; `image` starts at this row */
    uint32_t n_rows;
};

/* An array of rows of different lengths, and the array of offsets where they begin. */
static void add_extra(struct mr_batch *batch, const struct memory *at, uint32_t k)
{
    const struct mr_control *control = batch->host->shared.control;
    const struct mr_slot_layout *l = &control->layout;
    const struct mr_extra *extra = &control->plan.kind.extra[k];
    const int64_t row_shape[1] = {(int64_t)extra->max_bytes};
    int64_t *offsets = (void *)(at->small + (l->extra[k].offsets_off - l->label_off));
    mr_array *values = &batch->arrays[batch->n_arrays++];
    offsets += at->first_row;
    *values = make_array(extra->name, MR_U8, at->n_rows, 1, row_shape, at->label_device,
                         at->small + (l->extra[k].values_off - l->label_off));
    values->strides[0] = 0;
    values->row_offsets = offsets;
    values->n_values = batch->n_values[k];
    batch->arrays[batch->n_arrays++] =
        make_array(extra->offsets, MR_I64, at->n_rows + 1, 0, NULL, at->label_device, offsets);
}

static void add_mixing(struct mr_batch *batch, const struct memory *at)
{
    const struct mr_slot_layout *l = &batch->host->shared.control->layout;
    const int64_t classes_shape[1] = {l->n_classes};
    uint64_t first = at->first_row, n_classes = l->n_classes;
    uint8_t *labels = at->small + (l->mix_label_off - l->label_off) + first * sizeof(int64_t);
    uint8_t *lambdas = at->small + (l->mix_lambda_off - l->label_off) + first * sizeof(float);
    uint8_t *soft =
        at->small + (l->soft_label_off - l->label_off) + first * n_classes * sizeof(float);
    mr_array *a = &batch->arrays[batch->n_arrays];
    a[0] = make_array("mix_label", MR_I64, at->n_rows, 0, NULL, at->label_device, labels);
    a[1] = make_array("mix_lambda", MR_F32, at->n_rows, 0, NULL, at->label_device, lambdas);
    if (n_classes > 0)
        a[2] =
            make_array("soft_label", MR_F32, at->n_rows, 1, classes_shape, at->label_device, soft);
    batch->n_arrays += n_classes > 0 ? 3 : 2;
}

static void fill_arrays(struct mr_batch *batch, const struct memory *at)
{
    static const int64_t geometry_shape[1] = {MR_GEOMETRY_FIELDS};
    const struct mr_host *host = batch->host;
    const struct mr_control *control = host->shared.control;
    const struct mr_slot_layout *l = &control->layout;
    const struct mr_sample_kind *kind = &control->plan.kind;
    const struct mr_image_form *form = &host->image;
    mr_array *a = batch->arrays;
    uint32_t n = at->n_rows;
    uint64_t first = at->first_row;
    uint8_t *small = at->small;
    mr_device labels = at->label_device;
    a[0] = make_array(kind->picture ? "image" : "data", form->dtype, n, form->ndim, form->shape,
                      at->image_device, at->image);
    a[1] = make_array("label", kind->label_dtype, n, kind->label_ndim, kind->label_shape, labels,
                      small + first * l->label_bytes);
    a[2] = make_array("index", MR_I64, n, 0, NULL, labels,
                      small + (l->index_off - l->label_off) + first * sizeof(int64_t));
    a[3] =
        make_array("mask", MR_U8, n, 0, NULL, labels, small + (l->mask_off - l->label_off) + first);
    a[4] = make_array("geometry", MR_I32, n, 1, geometry_shape, labels,
                      small + (l->geometry_off - l->label_off) +
                          first * MR_GEOMETRY_FIELDS * sizeof(int32_t));
    batch->n_arrays = MR_BATCH_ARRAYS;
    if (l->mixes)
        add_mixing(batch, at);
    for (uint32_t k = 0; k < l->n_extra; k++)
        add_extra(batch, at, k);
    batch->n_rows = n;
}

static void fill_from_slot(struct mr_batch *batch)
{
    struct mr_slot_view view = mr_host_slot(batch->host, batch->slot);
    mr_device on_host = {.kind = MR_DEVICE_HOST, .id = 0};
    struct memory at = {.image = view.data,
                        .small = view.label,
                        .image_device = on_host,
                        .label_device = on_host,
                        .n_rows = batch->n_rows};
    fill_arrays(batch, &at);
}

/*
 * The slot may be in use again, so its mask cannot be read here: mr_batch_describe() counted the
 * valid rows of each part.
 */
static void fill_from_buffer(struct mr_batch *batch, const struct mr_batch *whole, uint32_t i)
{
    struct mr_copied_part part = mr_copier_part(whole->host->copier, whole->buffer, i);
    struct memory at = {.image = part.image,
                        .small = part.small,
                        .image_device = part.image_device,
                        .label_device = part.label_device,
                        .first_row = part.first_row,
                        .n_rows = part.n_rows};
    if (batch != whole) {
        batch->slot = whole->slot;
        batch->epoch = whole->epoch;
        batch->number = whole->number;
    }
    fill_arrays(batch, &at);
}

static uint32_t count_valid(const struct mr_slot_view *view, uint32_t first, uint32_t n)
{
    uint32_t n_valid = 0;
    for (uint32_t i = first; i < first + n; i++)
        n_valid += view->mask[i];
    return n_valid;
}

static mr_status make_parts(struct mr_batch *batch, uint32_t n_parts, mr_error *error)
{
    batch->parts = batch;
    if (n_parts == 1)
        return MR_OK;
    struct mr_batch *parts = calloc(n_parts, sizeof *parts);
    if (!parts)
        return mr_error_memory(error, n_parts * sizeof *parts);
    batch->parts = parts;
    for (uint32_t i = 0; i < n_parts; i++) {
        parts[i].host = batch->host;
        parts[i].whole = batch;
        parts[i].parts = &parts[i];
        parts[i].n_parts = 1;
        parts[i].part = i;
        parts[i].buffer = batch->buffer;
    }
    return MR_OK;
}

mr_status mr_batch_make_all(struct mr_host *host, mr_error *error)
{
    bool lends = host->placement.lends_slots;
    uint32_t n = lends ? host->options.n_slots : host->options.n_buffers;
    host->batches = calloc(n, sizeof *host->batches);
    if (!host->batches)
        return mr_error_memory(error, n * sizeof *host->batches);
    host->n_batch_objects = n;
    for (uint32_t i = 0; i < n; i++) {
        host->batches[i].host = host;
        host->batches[i].whole = &host->batches[i];
        host->batches[i].parts = &host->batches[i]; /* so that a host can be freed half made */
        host->batches[i].buffer = i;
    }
    mr_status status = MR_OK;
    for (uint32_t i = 0; status == MR_OK && i < n; i++)
        status = make_parts(&host->batches[i], lends ? 1 : host->placement.n_parts, error);
    return status;
}

/* Where row `end` begins in each byte array. */
static void measure_values(struct mr_batch *batch, const struct mr_slot_view *view, uint32_t end)
{
    const struct mr_slot_layout *layout = &batch->host->shared.control->layout;
    for (uint32_t k = 0; k < layout->n_extra; k++)
        batch->n_values[k] = mr_slot_extra_offsets(layout, view, k)[end];
}

void mr_batch_describe(struct mr_batch *batch, uint32_t slot)
{
    struct mr_slot_view view = mr_host_slot(batch->host, slot);
    batch->slot = slot;
    batch->n_rows = atomic_load_explicit(&view.slot->n_places, memory_order_relaxed);
    batch->n_valid = count_valid(&view, 0, batch->n_rows);
    mr_slot_extra_join(&batch->host->shared.control->layout, &view, batch->n_rows);
    measure_values(batch, &view, batch->n_rows);
    batch->n_warnings = atomic_load_explicit(&view.slot->n_warnings, memory_order_relaxed);
    batch->epoch = atomic_load_explicit(&view.slot->epoch, memory_order_relaxed);
    batch->number = atomic_load_explicit(&view.slot->batch, memory_order_relaxed);
    batch->n_parts = 1;
    if (batch->parts == batch)
        return;
    for (uint32_t i = 0; i < batch->n_parts; i++) {
        uint32_t first, n;
        batch->n_parts =
            mr_placement_split(batch->n_rows, batch->host->placement.n_parts, i, &first, &n);
        batch->parts[i].n_valid = count_valid(&view, first, n);
        measure_values(&batch->parts[i], &view, first + n);
    }
}

void mr_batch_lend(struct mr_batch *batch)
{
    struct mr_host *host = batch->host;
    batch->n_holds = 1;
    batch->is_lent = true;
    batch->lent_ns = mr_trace_ring_begin(mr_trace_row(host->trace, MR_TRACE_CONSUMER));
    batch->n_arrays = 0;
    batch->error = (mr_error){0};
    mr_host_retain(host);
    if (host->placement.lends_slots)
        fill_from_slot(batch);
    for (uint32_t i = 0; !host->placement.lends_slots && i < batch->n_parts; i++)
        fill_from_buffer(mr_batch_part(batch, i), batch, i);
}

mr_batch *mr_batch_whole(mr_batch *batch)
{
    return batch->whole;
}

void mr_batch_retain(mr_batch *batch)
{
    struct mr_batch *whole = batch->whole;
    pthread_mutex_lock(&whole->host->lock);
    whole->n_holds++;
    pthread_mutex_unlock(&whole->host->lock);
}

uint32_t mr_batch_size(const mr_batch *batch)
{
    return batch ? batch->n_rows : 0;
}

uint32_t mr_batch_valid(const mr_batch *batch)
{
    return batch ? batch->n_valid : 0;
}

uint64_t mr_batch_epoch(const mr_batch *batch)
{
    return batch ? batch->epoch : 0;
}

uint64_t mr_batch_number(const mr_batch *batch)
{
    return batch ? batch->number : 0;
}

uint32_t mr_batch_n_arrays(const mr_batch *batch)
{
    return batch ? batch->n_arrays : 0;
}

const mr_array *mr_batch_array_at(const mr_batch *batch, uint32_t i)
{
    return batch && i < batch->n_arrays ? &batch->arrays[i] : NULL;
}

const mr_array *mr_batch_array(const mr_batch *batch, const char *name)
{
    for (uint32_t i = 0; batch && name && i < batch->n_arrays; i++)
        if (strcmp(batch->arrays[i].name, name) == 0)
            return &batch->arrays[i];
    return NULL;
}

void *mr_batch_data(const mr_batch *batch, const char *name)
{
    const mr_array *array = mr_batch_array(batch, name);
    return array ? array->data : NULL;
}

uint32_t mr_batch_buffer(const mr_batch *batch)
{
    return batch ? batch->buffer : 0;
}

uint32_t mr_batch_n_parts(const mr_batch *batch)
{
    return batch ? batch->n_parts : 0;
}

mr_batch *mr_batch_part(mr_batch *batch, uint32_t i)
{
    if (!batch)
        return NULL;
    if (batch->n_parts == 1) /* also in a loader that splits, if there are too few rows */
        return i == 0 ? batch : NULL;
    return i < batch->n_parts ? &batch->parts[i] : NULL;
}

const mr_error *mr_batch_error(const mr_batch *batch)
{
    return batch ? &batch->error : mr_error_null_handle();
}

static bool is_usable(const struct mr_batch *batch)
{
    return batch && batch->host->pid == getpid();
}

static mr_status refuse_fork(mr_batch *batch)
{
    return mr_error_set(&batch->error, MR_ERR_STATE, "a batch cannot be used in a forked child");
}

mr_status mr_batch_check_process(mr_batch *batch)
{
    return is_usable(batch) ? MR_OK : refuse_fork(batch);
}

/*
 * With image, a NULL stream is the default stream of the images' device, otherwise that of the
 * device of all other arrays.
 */
static mr_status use_stream(mr_batch *batch, bool image, void *stream)
{
    if (!is_usable(batch))
        return batch ? refuse_fork(batch) : MR_ERR_INVALID;
    struct mr_host *host = batch->host;
    if (host->slot_streams)
        return mr_slot_streams_use(host->slot_streams, batch->slot, stream, &batch->error);
    if (host->placement.lends_slots)
        return MR_OK;
    if (image)
        return mr_copier_use(host->copier, batch->buffer, batch->part, stream, false,
                             &batch->error);
    return mr_copier_use_label(host->copier, batch->buffer, batch->part, stream, &batch->error);
}

mr_status mr_batch_use(mr_batch *batch, void *stream)
{
    return use_stream(batch, true, stream);
}

mr_status mr_batch_use_array(mr_batch *batch, const mr_array *array, void *stream)
{
    return use_stream(batch, array == &batch->arrays[0], stream);
}

/* True when this was the last hold. */
static bool drop_hold(struct mr_batch *batch)
{
    pthread_mutex_lock(&batch->host->lock);
    bool last = batch->n_holds == 1;
    if (!last)
        batch->n_holds--;
    pthread_mutex_unlock(&batch->host->lock);
    return last;
}

/*
 * With the lock held. With waits, streams still read the slot; the freeing thread frees it when
 * they have finished.
 */
static void return_slot(struct mr_host *host, struct mr_batch *batch, bool waits)
{
    mr_slot_move(mr_host_slot(host, batch->slot).slot, MR_SLOT_LENT,
                 waits ? MR_SLOT_COPYING : MR_SLOT_FREE);
    if (waits) {
        batch->freed_at = ++host->n_freed;
        pthread_cond_signal(&host->freeing_wanted);
        return;
    }
    mr_host_publish(host);
    if (host->options.wait_when_lent) /* a next() without workers makes the batch itself */
        mr_control_wake_host(&host->shared);
}

/* Called by the last holder only. On MR_ERR_STATE the batch stays lent. */
static mr_status return_batch(struct mr_batch *batch)
{
    struct mr_host *host = batch->host;
    mr_status status = MR_OK;
    bool waits = false;
    if (batch->is_copy) {
        mr_batch_free_copy(batch);
        return MR_OK;
    }
    if (host->slot_streams)
        status = mr_slot_streams_release(host->slot_streams, batch->slot, &waits, &batch->error);
    else if (!host->placement.lends_slots)
        status = mr_copier_release(host->copier, batch->buffer, &batch->error);
    if (status == MR_ERR_STATE)
        return status;
    pthread_mutex_lock(&host->lock);
    batch->is_lent = false;
    batch->n_holds = 0;
    if (!host->closed)
        mr_trace_ring_put(mr_trace_row(host->trace, MR_TRACE_CONSUMER), MR_TRACE_STEP,
                          batch->lent_ns, (int64_t)batch->number);
    if (host->placement.lends_slots) {
        return_slot(host, batch, waits);
    } else {
        mr_host_give_buffer(host, batch);
        mr_control_wake_host(&host->shared); /* the copier */
    }
    mr_host_update_fd(host);
    pthread_mutex_unlock(&host->lock);
    mr_host_release(host);
    return status == MR_OK ? MR_OK : MR_ERR_DEVICE; /* in any case the batch is returned */
}

static mr_status refuse_part(mr_batch *batch)
{
    return mr_error_set(&batch->error, MR_ERR_INVALID, "part %u is released with its batch",
                        batch->part);
}

mr_status mr_batch_release(mr_batch *batch)
{
    if (!is_usable(batch))
        return batch ? refuse_fork(batch) : MR_OK;
    if (batch->whole != batch)
        return refuse_part(batch);
    return drop_hold(batch) ? return_batch(batch) : MR_OK;
}

mr_status mr_batch_release_on(mr_batch *batch, void *stream)
{
    if (!is_usable(batch))
        return batch ? refuse_fork(batch) : MR_OK;
    if (batch->whole != batch)
        return refuse_part(batch);
    struct mr_host *host = batch->host;
    mr_status status = MR_OK;
    if (host->slot_streams)
        status = mr_slot_streams_use(host->slot_streams, batch->slot, stream, &batch->error);
    else if (!host->placement.lends_slots)
        status = mr_copier_remember(host->copier, batch->buffer, 0, stream, &batch->error);
    /* the batch stays lent: its release would not wait for that stream */
    if (status == MR_ERR_INVALID || status == MR_ERR_STATE)
        return status;
    if (status != MR_OK && host->slot_streams)
        mr_slot_streams_lose(host->slot_streams, batch->slot, &batch->error);
    mr_status released = drop_hold(batch) ? return_batch(batch) : MR_OK;
    return status != MR_OK && released == MR_OK ? MR_ERR_DEVICE : released;
}

void mr_batch_release_or_defer(mr_batch *batch)
{
    struct mr_batch *whole = batch->whole;
    if (!is_usable(whole) || mr_batch_release(whole) != MR_ERR_STATE)
        return;
    struct mr_host *host = whole->host;
    pthread_mutex_lock(&host->lock);
    whole->is_deferred = true;
    host->n_deferred++;
    pthread_mutex_unlock(&host->lock);
    /* waiters that sleep without limit must poll from now on */
    mr_control_wake_host(&host->shared);
}

/*
 * Take one deferred batch. It stays counted in n_deferred until it is returned, so all waiters keep
 * polling.
 */
static struct mr_batch *take_deferred(struct mr_host *host)
{
    struct mr_batch *found = NULL;
    pthread_mutex_lock(&host->lock);
    for (uint32_t i = 0; host->n_deferred > 0 && !found && i < host->n_batch_objects; i++)
        if (host->batches[i].is_deferred)
            found = &host->batches[i];
    if (found)
        found->is_deferred = false;
    pthread_mutex_unlock(&host->lock);
    return found;
}

void mr_batch_retry_deferred(struct mr_host *host)
{
    for (uint32_t i = 0; i < host->n_batch_objects; i++) {
        struct mr_batch *batch = take_deferred(host);
        if (!batch)
            return;
        bool is_deferred = mr_batch_release(batch) == MR_ERR_STATE;
        pthread_mutex_lock(&host->lock);
        if (is_deferred)
            batch->is_deferred = true; /* otherwise the batch may be lent again already */
        else
            host->n_deferred--;
        pthread_mutex_unlock(&host->lock);
    }
}
