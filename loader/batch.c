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
#include "pinned/slot_pad.h"
#include "transforms/plan_runner.h"

static void set_strides(mr_array *array)
{
    int64_t stride = (int64_t)mr_dtype_size(array->dtype);
    for (uint32_t i = array->ndim; i-- > 0;) {
        array->strides[i] = stride;
        stride *= array->shape[i];
    }
}

/* Where the arrays of a batch or part are. */
struct memory {
    uint8_t *image;
    uint8_t *small; /* the block that begins at small_off in a slot */
    mr_device image_device;
    mr_device label_device;
    uint32_t first_row; /* in the small block's arrays; `image` starts at this row */
    uint32_t n_rows;
};

/* Rows with gaps are lent as one row of elements. */
static void make_flat(mr_array *array)
{
    array->ndim = 1;
    array->shape[0] *= array->shape[1];
    array->strides[0] = array->strides[1];
}

/* The sides of padded rows. */
static void fill_sides(mr_array *array, const uint32_t padded[2])
{
    for (uint32_t i = 1, side = 0; i < array->ndim; i++)
        if (array->shape[i] == 0)
            array->shape[i] = padded[side++];
}

/* The array of a column, without its rows' offsets. */
static mr_array make_array(const struct mr_column *column, const uint32_t padded[2],
                           uint32_t n_rows, mr_device device, void *data)
{
    mr_array array = {.name = column->name,
                      .dtype = (mr_dtype)column->dtype,
                      .ndim = column->ndim + 1,
                      .device = device,
                      .data = data};
    array.shape[0] = n_rows;
    for (uint32_t i = 0; i < column->ndim; i++)
        array.shape[i + 1] = column->shape[i];
    if (column->pads)
        fill_sides(&array, padded);
    set_strides(&array);
    if (column->has_gaps)
        make_flat(&array);
    return array;
}

static void add_offsets(struct mr_batch *batch, const struct mr_column *column, uint32_t n_rows,
                        int64_t *offsets)
{
    static const struct mr_column rows = {.dtype = MR_I64};
    mr_array *values = &batch->arrays[batch->n_arrays - 1];
    values->strides[0] = 0;
    values->row_offsets = offsets;
    mr_array *array = &batch->arrays[batch->n_arrays++];
    *array = make_array(&rows, NULL, n_rows + 1, values->device, offsets);
    array->name = column->offsets_name;
}

/* Rows of the samples are those of the part alone; the small block is the whole batch's. */
static void fill_arrays(struct mr_batch *batch, const struct memory *at)
{
    const struct mr_slot_layout *l = &batch->host->shared.control->layout;
    const uint32_t *padded = batch->whole->padded;
    batch->n_rows = at->n_rows;
    batch->arrays[0] = make_array(&l->columns.column[MR_COLUMN_IMAGE], padded, at->n_rows,
                                  at->image_device, at->image);
    batch->n_arrays = 1;
    for (uint32_t i = MR_COLUMN_IMAGE + 1; i < l->columns.n; i++) {
        const struct mr_column *column = &l->columns.column[i];
        bool is_ragged = mr_column_is_ragged(column);
        uint64_t row_bytes =
            column->pads ? mr_slot_pad_row_bytes(column, padded) : column->row_bytes;
        uint64_t first = is_ragged ? 0 : at->first_row * row_bytes;
        mr_array *array = &batch->arrays[batch->n_arrays++];
        *array = make_array(column, padded, at->n_rows, at->label_device,
                            at->small + (column->off - l->small_off) + first);
        if (!is_ragged)
            continue;
        array->n_values = batch->n_values[i];
        int64_t *offsets = (void *)(at->small + (column->offsets_off - l->small_off));
        add_offsets(batch, column, at->n_rows, offsets + at->first_row);
    }
}

static void fill_from_slot(struct mr_batch *batch)
{
    struct mr_slot_view view = mr_host_slot(batch->host, batch->slot);
    mr_device on_host = {.kind = MR_DEVICE_HOST, .id = 0};
    struct memory at = {.image = view.data,
                        .small = view.data + view.layout->small_off,
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
        n_valid += *mr_slot_mask(view, i);
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

/* Where row `end` begins, in each column whose rows differ in length. */
static void measure_values(struct mr_batch *batch, const struct mr_slot_view *view, uint32_t end)
{
    const struct mr_columns *columns = &view->layout->columns;
    for (uint32_t i = 0; i < columns->n; i++)
        if (mr_column_is_ragged(&columns->column[i]))
            batch->n_values[i] = mr_slot_extra_offsets(view, i)[end];
}

/* Where the rows of a part begin that stay at their places, from the part's first row. */
static void place_rows(const struct mr_slot_view *view, uint32_t first, uint32_t n)
{
    for (uint32_t c = 0; c < view->layout->columns.n; c++) {
        const struct mr_column *column = &view->layout->columns.column[c];
        for (uint32_t i = 0; column->has_gaps && i < n; i++)
            *(int64_t *)mr_slot_row(view, column->starts, first + i) = i * column->shape[0];
    }
}

void mr_batch_describe(struct mr_batch *batch, uint32_t slot)
{
    struct mr_slot_view view = mr_host_slot(batch->host, slot);
    batch->slot = slot;
    batch->n_rows = atomic_load_explicit(&view.slot->n_places, memory_order_relaxed);
    batch->n_valid = count_valid(&view, 0, batch->n_rows);
    mr_slot_extra_join(&view, batch->n_rows);
    mr_slot_pad_rows(&view, batch->n_rows);
    memcpy(batch->padded, view.slot->padded, sizeof batch->padded);
    measure_values(batch, &view, batch->n_rows);
    place_rows(&view, 0, batch->n_rows);
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
        place_rows(&view, first, n);
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

uint32_t mr_batch_channels(const mr_batch *batch)
{
    return batch ? batch->host->image.n_channels : 0;
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
