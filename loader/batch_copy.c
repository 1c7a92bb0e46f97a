/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Copies a batch into one block of memory, so that its slot or buffer can be released.
 *
 * The copy outlives the loader, so it has its own host. Only the lock, the pid, lends_slots and
 * n_channels are set in it: the functions of a batch without streams read nothing else.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "loader/batch.h"

enum { ALIGNMENT = 64 }; /* as in a slot */

/* The start of the block; the arrays' data follows. */
struct copy {
    struct mr_batch batch;
    struct mr_host host;
    /* of the arrays; the loader's are freed with it */
    char names[MR_BATCH_MAX_ARRAYS][MR_COLUMN_NAME];
};

static size_t round_up(size_t bytes)
{
    return (bytes + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

static size_t size_array(const mr_array *array)
{
    return array->row_offsets ? (size_t)(array->n_values * array->strides[1])
                              : (size_t)(array->shape[0] * array->strides[0]);
}

static mr_status check_arrays(struct mr_batch *batch)
{
    if (batch->n_parts != 1)
        return mr_error_set(&batch->error, MR_ERR_UNSUPPORTED, "the batch has %u parts",
                            batch->n_parts);
    for (uint32_t i = 0; i < batch->n_arrays; i++)
        if (batch->arrays[i].device.kind != MR_DEVICE_HOST)
            return mr_error_set(&batch->error, MR_ERR_UNSUPPORTED,
                                "array '%s' is in a GPU's memory", batch->arrays[i].name);
    return MR_OK;
}

/* row_offsets pointed into the original. An array of offsets follows its array of values. */
static void own_array(struct copy *copy, uint32_t i)
{
    mr_array *array = &copy->batch.arrays[i];
    snprintf(copy->names[i], sizeof copy->names[i], "%s", array->name);
    array->name = copy->names[i];
    if (i > 0 && array[-1].row_offsets)
        array[-1].row_offsets = array->data;
}

static void fill_copy(struct copy *copy, const struct mr_batch *batch)
{
    uint8_t *data = (uint8_t *)copy + round_up(sizeof *copy);
    struct mr_batch *made = &copy->batch;
    *made = (struct mr_batch){.host = &copy->host,
                              .whole = made,
                              .parts = made,
                              .n_parts = 1,
                              .buffer = MR_NO_BUFFER,
                              .n_rows = batch->n_rows,
                              .n_valid = batch->n_valid,
                              .epoch = batch->epoch,
                              .number = batch->number,
                              .n_holds = 1,
                              .is_lent = true,
                              .is_copy = true,
                              .n_arrays = batch->n_arrays};
    for (uint32_t i = 0; i < batch->n_arrays; i++) {
        made->arrays[i] = batch->arrays[i];
        made->arrays[i].data = data;
        memcpy(data, batch->arrays[i].data, size_array(&batch->arrays[i]));
        data += round_up(size_array(&batch->arrays[i]));
        own_array(copy, i);
    }
}

mr_status mr_batch_copy(mr_batch *batch, mr_batch **copy_out)
{
    if (copy_out)
        *copy_out = NULL;
    if (!batch)
        return MR_ERR_INVALID;
    if (!copy_out)
        return mr_error_set(&batch->error, MR_ERR_INVALID, "copy_out is NULL");
    mr_status status = mr_batch_check_process(batch);
    if (status == MR_OK)
        status = check_arrays(batch);
    if (status != MR_OK)
        return status;
    size_t bytes = round_up(sizeof(struct copy));
    for (uint32_t i = 0; i < batch->n_arrays; i++)
        bytes += round_up(size_array(&batch->arrays[i]));
    struct copy *copy = aligned_alloc(ALIGNMENT, bytes);
    if (!copy)
        return mr_error_memory(&batch->error, bytes);
    memset(&copy->host, 0, sizeof copy->host);
    if (pthread_mutex_init(&copy->host.lock, NULL) != 0) {
        free(copy);
        return mr_error_memory(&batch->error, sizeof copy->host.lock);
    }
    copy->host.pid = batch->host->pid;
    copy->host.placement.lends_slots = true;
    copy->host.image.n_channels = batch->host->image.n_channels;
    fill_copy(copy, batch);
    *copy_out = &copy->batch;
    return MR_OK;
}

void mr_batch_free_copy(struct mr_batch *batch)
{
    struct copy *copy = (struct copy *)batch; /* the batch is its first member */
    pthread_mutex_destroy(&copy->host.lock);
    free(copy);
}
