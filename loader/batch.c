/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Lent batches. A batch holds a reference to the core, so its memory outlives the loader.
 */
#include <string.h>
#include <unistd.h>

#include "loader/core.h"
#include "transforms/pixels.h"

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
    mr_array array = {.name = name, .dtype = dtype, .ndim = row_ndim + 1, .device = device, .data = data};
    array.shape[0] = n_rows;
    for (uint32_t i = 0; i < row_ndim; i++)
        array.shape[i + 1] = row_shape[i];
    set_strides(&array);
    return array;
}

void mr_batch_fill(struct mr_batch *batch, struct mr_core *core, uint32_t slot)
{
    static const int64_t geometry_shape[1] = {MR_GEOMETRY_FIELDS};
    struct mr_slot_view view = mr_core_slot(core, slot);
    const struct mr_plan *plan = &core->shared.control->plan;
    const struct mr_sample_kind *kind = &plan->kind;
    uint32_t n = atomic_load_explicit(&view.slot->n_places, memory_order_relaxed);
    batch->core = core;
    batch->slot = slot;
    batch->n_rows = n;
    batch->epoch = atomic_load_explicit(&view.slot->epoch, memory_order_relaxed);
    batch->number = atomic_load_explicit(&view.slot->batch, memory_order_relaxed);
    batch->n_valid = 0;
    for (uint32_t i = 0; i < n; i++)
        batch->n_valid += view.mask[i];
    mr_array *a = batch->arrays;
    mr_device device = core->device;
    a[0] = make_array(kind->picture ? "image" : "data", plan->dtype, n, plan->out_ndim, plan->out_shape, device,
                      view.data);
    a[1] = make_array("label", kind->label_dtype, n, kind->label_ndim, kind->label_shape, device, view.label);
    a[2] = make_array("index", MR_I64, n, 0, NULL, device, view.index);
    a[3] = make_array("mask", MR_U8, n, 0, NULL, device, view.mask);
    a[4] = make_array("geometry", MR_I32, n, 1, geometry_shape, device, view.geometry);
}

uint32_t mr_batch_size(const mr_batch *batch)
{
    return batch->n_rows;
}

uint32_t mr_batch_valid(const mr_batch *batch)
{
    return batch->n_valid;
}

uint64_t mr_batch_epoch(const mr_batch *batch)
{
    return batch->epoch;
}

uint64_t mr_batch_number(const mr_batch *batch)
{
    return batch->number;
}

uint32_t mr_batch_n_arrays(const mr_batch *batch)
{
    (void)batch;
    return MR_BATCH_ARRAYS;
}

const mr_array *mr_batch_array_at(const mr_batch *batch, uint32_t i)
{
    return i < MR_BATCH_ARRAYS ? &batch->arrays[i] : NULL;
}

const mr_array *mr_batch_array(const mr_batch *batch, const char *name)
{
    for (uint32_t i = 0; i < MR_BATCH_ARRAYS; i++)
        if (strcmp(batch->arrays[i].name, name) == 0)
            return &batch->arrays[i];
    return NULL;
}

void *mr_batch_data(const mr_batch *batch, const char *name)
{
    const mr_array *array = mr_batch_array(batch, name);
    return array ? array->data : NULL;
}

void mr_batch_release(mr_batch *batch)
{
    if (!batch || batch->core->pid != getpid())
        return;
    struct mr_core *core = batch->core;
    pthread_mutex_lock(&core->lock);
    mr_slot_move(mr_core_slot(core, batch->slot).slot, MR_SLOT_LENT, MR_SLOT_FREE);
    mr_core_publish(core);
    pthread_mutex_unlock(&core->lock);
    mr_core_release(core);
}
