/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The copier: opens the devices, owns the buffers, and puts each filled slot on the copy streams.
 * Everything that a batch needs is taken at creation. After that nothing is allocated, and only
 * await sleeps.
 *
 * Invariant: a copy stream keeps running after a call that failed, so destroy waits until the
 * stream is empty before it frees memory.
 */
#include "pinned/copier.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "base/checked.h"
#include "pinned/buffer.h"
#include "pinned/slot_extra.h"
#include "pinned/slot_pad.h"

struct mr_copier {
    struct mr_buffer_shape shape;
    uint8_t *slab;
    /* Order of issuing: host devices last, because their copies run in this thread. */
    uint32_t order[MR_PLACEMENT_DEVICES];
    uint32_t n_buffers;
    struct mr_buffer *buffers;
};

static struct mr_device_handle *first_device(const struct mr_copier *copier)
{
    return copier->shape.devices[copier->shape.placement.image[0]].handle;
}

/* Decide what each device holds, and in which order copies are issued to them. */
static void place_parts(struct mr_copier *copier)
{
    struct mr_buffer_shape *shape = &copier->shape;
    const struct mr_placement *placement = &shape->placement;
    for (uint32_t d = 0; d < placement->n_devices; d++)
        shape->devices[d].part = MR_BUFFER_NO_PART;
    for (uint32_t i = 0; i < placement->n_parts; i++) {
        assert(shape->devices[placement->image[i]].part == MR_BUFFER_NO_PART);
        shape->devices[placement->image[i]].part = i;
        shape->devices[placement->image[i]].has_small |= shape->finish.needed != 0;
        shape->devices[placement->label[i]].has_small = true;
    }
    uint32_t n = 0;
    for (uint32_t want_host = 0; want_host < 2; want_host++)
        for (uint32_t d = 0; d < placement->n_devices; d++)
            if ((placement->devices[d].ops->kind == MR_DEVICE_HOST) == want_host)
                copier->order[n++] = d;
}

static mr_status measure_rows(struct mr_buffer_shape *shape, mr_error *error)
{
    uint32_t first;
    uint64_t unused;
    mr_placement_split(shape->layout->batch_size, shape->placement.n_parts, 0, &first,
                       &shape->n_rows);
    shape->row_bytes =
        shape->finish.needed ? mr_finish_out_bytes(&shape->finish) : shape->layout->sample_bytes;
    if (!mr_checked_mul_u64(shape->n_rows, shape->row_bytes, &unused))
        return mr_error_set(error, MR_ERR_NO_MEMORY,
                            "%u samples of %llu bytes are more than 2^64 bytes", shape->n_rows,
                            (unsigned long long)shape->row_bytes);
    return MR_OK;
}

static mr_status drain_stream(const struct mr_buffer_device *device, void *stream, mr_error *error)
{
    struct mr_device_handle *handle = device->handle;
    mr_status status = handle->ops->record(handle, device->drained, stream, error);
    return status ? status : handle->ops->sync(handle, device->drained, error);
}

/* Wait until its streams are empty. The second is waited for even if the first fails. */
static mr_status drain_device(const struct mr_buffer_device *device, mr_error *error)
{
    mr_status status = drain_stream(device, device->handle->copy_stream, error);
    if (!device->handle->finish_stream)
        return status;
    mr_status other = drain_stream(device, device->handle->finish_stream, status ? NULL : error);
    return status ? status : other;
}

static mr_status take_normals(struct mr_buffer_device *device, mr_error *error)
{
    struct mr_device_handle *handle = device->handle;
    void *normals = NULL;
    mr_status status = handle->ops->alloc(handle, sizeof mr_normal_nodes, &normals, error);
    device->normals = normals;
    return status ? status
                  : handle->ops->copy_in(handle, normals, mr_normal_nodes, sizeof mr_normal_nodes,
                                         error);
}

static mr_status take_staging(const struct mr_buffer_shape *shape, struct mr_buffer_device *device,
                              mr_error *error)
{
    struct mr_device_handle *handle = device->handle;
    mr_status status = MR_OK;
    for (uint32_t t = 0; t < (handle->finish_stream ? 2 : 1) && !status; t++) {
        void *memory = NULL;
        status =
            handle->ops->alloc(handle, shape->n_rows * shape->layout->sample_bytes, &memory, error);
        device->staging[t].memory = memory;
        if (!status && handle->finish_stream)
            status = handle->ops->event_create(handle, &device->staging[t].was_read, error);
    }
    return status;
}

static mr_status take_finishing(const struct mr_buffer_shape *shape,
                                struct mr_buffer_device *device, bool overlaps, mr_error *error)
{
    struct mr_device_handle *handle = device->handle;
    void *tables = NULL;
    mr_status status = overlaps ? handle->ops->split(handle, error) : MR_OK;
    if (!status)
        status = take_staging(shape, device, error);
    if (!status)
        status = handle->ops->alloc(handle, sizeof shape->finish.table, &tables, error);
    device->tables = tables;
    if (!status)
        status = handle->ops->copy_in(handle, tables, shape->finish.table,
                                      sizeof shape->finish.table, error);
    if (!status && shape->finish.erases)
        status = take_normals(device, error);
    return status ? status : drain_device(device, error);
}

static mr_status open_device(struct mr_copier *copier, uint32_t d, bool overlaps, mr_error *error)
{
    const struct mr_device_name *name = &copier->shape.placement.devices[d];
    struct mr_buffer_device *device = &copier->shape.devices[d];
    struct mr_device_handle *handle = NULL;
    mr_status status = name->ops->open(name->id, &handle, error);
    device->handle = status ? NULL : handle;
    if (!status)
        status = name->ops->enter(handle, error);
    if (!status)
        status = name->ops->event_create(handle, &device->drained, error);
    if (!status && copier->shape.finish.needed && device->part != MR_BUFFER_NO_PART)
        status = take_finishing(&copier->shape, device, overlaps, error);
    return status;
}

static mr_status create_buffers(struct mr_copier *copier, uint32_t n_buffers, mr_error *error)
{
    copier->buffers = calloc(n_buffers, sizeof *copier->buffers);
    if (!copier->buffers)
        return mr_error_memory(error, n_buffers * sizeof *copier->buffers);
    copier->n_buffers = n_buffers;
    mr_status status = MR_OK;
    for (uint32_t b = 0; b < n_buffers && !status; b++)
        status = mr_buffer_init(&copier->shape, &copier->buffers[b], error);
    return status;
}

mr_status mr_copier_create(const struct mr_copier_options *options, struct mr_copier **copier_out,
                           mr_error *error)
{
    *copier_out = NULL;
    struct mr_copier *copier = calloc(1, sizeof *copier);
    if (!copier)
        return mr_error_memory(error, sizeof *copier);
    copier->slab = options->slab;
    copier->shape.layout = options->layout;
    copier->shape.placement = *options->placement;
    if (options->finish)
        copier->shape.finish = *options->finish;
    place_parts(copier);
    mr_status status = measure_rows(&copier->shape, error);
    for (uint32_t d = 0; d < options->placement->n_devices && !status; d++)
        status = open_device(copier, d, options->overlaps, error);
    if (!status)
        status = create_buffers(copier, options->n_buffers, error);
    if (status)
        mr_copier_destroy(copier);
    else
        *copier_out = copier;
    return status;
}

static void close_device(struct mr_buffer_device *device)
{
    struct mr_device_handle *handle = device->handle;
    if (!handle)
        return;
    if (device->normals)
        handle->ops->free(handle, device->normals);
    if (device->tables)
        handle->ops->free(handle, device->tables);
    for (uint32_t t = 2; t-- > 0;) {
        if (device->staging[t].was_read)
            handle->ops->event_destroy(handle, device->staging[t].was_read);
        if (device->staging[t].memory)
            handle->ops->free(handle, device->staging[t].memory);
    }
    if (device->drained)
        handle->ops->event_destroy(handle, device->drained);
    if (device->is_pinned)
        handle->ops->unpin(handle);
    handle->ops->close(handle);
}

void mr_copier_destroy(struct mr_copier *copier)
{
    if (!copier)
        return;
    for (uint32_t b = 0; b < copier->n_buffers; b++)
        mr_buffer_settle(&copier->shape, &copier->buffers[b]);
    for (uint32_t d = 0; d < copier->shape.placement.n_devices; d++)
        if (copier->shape.devices[d].drained)
            (void)drain_device(&copier->shape.devices[d], NULL);
    for (uint32_t b = copier->n_buffers; b-- > 0;)
        mr_buffer_fini(&copier->shape, &copier->buffers[b]);
    for (uint32_t d = copier->shape.placement.n_devices; d-- > 0;)
        close_device(&copier->shape.devices[d]);
    free(copier->buffers);
    free(copier);
}

void mr_copier_enter(struct mr_copier *copier)
{
    for (uint32_t d = 0; d < copier->shape.placement.n_devices; d++) {
        struct mr_device_handle *handle = copier->shape.devices[d].handle;
        (void)handle->ops->enter(
            handle, NULL); /* ignored: if the device has failed, later calls report it */
    }
}

/* One registration serves all devices of a kind. */
static bool kind_is_pinned(const struct mr_copier *copier, const struct mr_device_ops *ops)
{
    for (uint32_t d = 0; d < copier->shape.placement.n_devices; d++)
        if (copier->shape.devices[d].is_pinned && copier->shape.devices[d].handle->ops == ops)
            return true;
    return false;
}

mr_status mr_copier_pin(struct mr_copier *copier, mr_error *error)
{
    const struct mr_slot_layout *layout = copier->shape.layout;
    mr_status status = MR_OK;
    for (uint32_t d = 0; d < copier->shape.placement.n_devices && !status; d++) {
        struct mr_buffer_device *device = &copier->shape.devices[d];
        struct mr_device_handle *handle = device->handle;
        if (kind_is_pinned(copier, handle->ops))
            continue;
        status = handle->ops->pin(handle, copier->slab + layout->data_off, layout->data_bytes,
                                  layout->n_slots, error);
        device->is_pinned = !status;
    }
    return status;
}

/* Copy the used bytes of rows that differ in length, each to its place. */
static mr_status copy_used(struct mr_copier *copier, struct mr_buffer *buffer,
                           struct mr_device_handle *handle, const struct mr_buffer_part *part,
                           uint8_t *out, mr_error *error)
{
    uint64_t row_bytes = copier->shape.layout->sample_bytes;
    const uint32_t *lengths = mr_slot_extra_lengths(&buffer->slot, MR_COLUMN_IMAGE);
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < part->n_rows && !status; i++) {
        uint64_t row = part->first_row + i;
        uint64_t len = lengths[row] < row_bytes ? lengths[row] : row_bytes;
        if (len > 0)
            status = handle->ops->copy_in(handle, out + i * row_bytes,
                                          buffer->slot.data + row * row_bytes, len, error);
        buffer->bytes += len;
    }
    return status;
}

static mr_status copy_rows(struct mr_copier *copier, struct mr_buffer *buffer,
                           struct mr_device_handle *handle, const struct mr_buffer_part *part,
                           uint8_t *out, mr_error *error)
{
    const struct mr_slot_layout *layout = copier->shape.layout;
    const struct mr_column *images = &layout->columns.column[MR_COLUMN_IMAGE];
    if (images->has_gaps)
        return copy_used(copier, buffer, handle, part, out, error);
    uint64_t row_bytes = images->pads ? mr_slot_pad_row_bytes(images, buffer->slot.slot->padded)
                                      : layout->sample_bytes;
    uint64_t len = part->n_rows * row_bytes;
    buffer->bytes += len;
    return handle->ops->copy_in(handle, out, buffer->slot.data + part->first_row * row_bytes, len,
                                error);
}

/*
 * Issue at most two copies: the rows of this device's part, and the small block. If rows differ in
 * length, each is a copy.
 */
static mr_status copy_share(struct mr_copier *copier, struct mr_buffer *buffer, uint32_t d,
                            mr_error *error)
{
    const struct mr_slot_layout *layout = copier->shape.layout;
    const struct mr_buffer_device *device = &copier->shape.devices[d];
    const struct mr_buffer_share *share = &buffer->shares[d];
    struct mr_device_handle *handle = device->handle;
    mr_status status = MR_OK;
    if (device->part < buffer->n_parts && buffer->parts[device->part].n_rows > 0) {
        uint8_t *staging = device->staging[device->turn].memory;
        status = copy_rows(copier, buffer, handle, &buffer->parts[device->part],
                           staging ? staging : share->image, error);
    }
    if (!status && device->has_small) {
        status = handle->ops->copy_in(handle, share->small, buffer->slot.data + layout->small_off,
                                      layout->small_bytes, error);
        buffer->bytes += layout->small_bytes;
    }
    return status;
}

static mr_status finish_share(struct mr_copier *copier, struct mr_buffer *buffer, uint32_t d,
                              mr_error *error)
{
    const struct mr_slot_layout *layout = copier->shape.layout;
    struct mr_buffer_device *device = &copier->shape.devices[d];
    const struct mr_buffer_share *share = &buffer->shares[d];
    struct mr_device_handle *handle = device->handle;
    struct mr_buffer_staging *staging = &device->staging[device->turn];
    if (!staging->memory || device->part >= buffer->n_parts ||
        buffer->parts[device->part].n_rows == 0)
        return MR_OK;
    const struct mr_buffer_part *part = &buffer->parts[device->part];
    const uint8_t *mask =
        share->small + (layout->columns.column[MR_COLUMN_MASK].off - layout->small_off);
    const struct mr_erase *erases =
        (void *)(share->small + (layout->erase_off - layout->small_off));
    const struct mr_finish_job job = {
        .finish = &copier->shape.finish,
        .tables = device->tables,
        .normals = device->normals,
        .mask = mask + part->first_row,
        .erases = copier->shape.finish.erases ? erases + part->first_row : NULL,
        .n = part->n_rows,
        .staging = staging->memory,
        .out = share->image,
        .mix =
            copier->shape.finish.mixes ? *buffer->slot.mix : (struct mr_mix){.kind = MR_MIX_NONE},
    };
    mr_status status = handle->ops->finish(handle, &job, error);
    if (!status && staging->was_read) {
        status = handle->ops->record(handle, staging->was_read, handle->finish_stream, error);
        staging->was_recorded = !status;
    }
    return status;
}

/*
 * If the finish has its own stream, this batch's copy waits for the finish of the batch before the
 * last one.
 */
static mr_status take_turn(struct mr_buffer_device *device, mr_error *error)
{
    struct mr_device_handle *handle = device->handle;
    if (!handle->finish_stream)
        return MR_OK;
    device->turn ^= 1;
    const struct mr_buffer_staging *staging = &device->staging[device->turn];
    return staging->was_recorded
               ? handle->ops->wait(handle, handle->copy_stream, staging->was_read, error)
               : MR_OK;
}

/*
 * Issue all that one device does for a batch: on its copy stream, and after the copy on its
 * finishing stream.
 */
static mr_status fill_share(struct mr_copier *copier, struct mr_buffer *buffer, uint32_t d,
                            mr_error *error)
{
    struct mr_buffer_share *share = &buffer->shares[d];
    struct mr_device_handle *handle = copier->shape.devices[d].handle;
    mr_status status = mr_buffer_wait(&copier->shape, buffer, d, error);
    if (!status)
        status = take_turn(&copier->shape.devices[d], error);
    if (!status)
        status = handle->ops->record(handle, share->begin, handle->copy_stream, error);
    if (!status)
        status = copy_share(copier, buffer, d, error);
    if (!status)
        status = handle->ops->record(handle, share->end, handle->copy_stream, error);
    if (!status && handle->finish_stream)
        status = handle->ops->wait(handle, handle->finish_stream, share->end, error);
    if (!status)
        status = finish_share(copier, buffer, d, error);
    if (!status)
        status = handle->ops->record(handle, share->filled[buffer->turn],
                                     mr_device_finish_stream(handle), error);
    if (!status)
        share->was_filled[buffer->turn] = true;
    return status;
}

mr_status mr_copier_issue(struct mr_copier *copier, uint32_t buffer,
                          const struct mr_slot_view *slot, uint32_t n_rows, mr_error *error)
{
    assert(buffer < copier->n_buffers && n_rows <= copier->shape.layout->batch_size);
    struct mr_buffer *b = &copier->buffers[buffer];
    assert(!b->is_issued);
    if (b->unreleased.status) {
        mr_error_copy(error, &b->unreleased);
        return (mr_status)b->unreleased.status;
    }
    mr_buffer_split(&copier->shape, b, n_rows);
    b->turn ^= 1;
    b->was_asked[b->turn] = false;
    b->slot = *slot;
    b->n_rows = n_rows;
    b->bytes = 0;
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < copier->shape.placement.n_devices && !status; i++)
        if (mr_buffer_has(b, copier->order[i]))
            status = fill_share(copier, b, copier->order[i], error);
    if (status)
        return status;
    mr_buffer_forget(b);
    b->is_issued = true;
    return MR_OK;
}

/*
 * Wait for every device, even after another has failed: afterwards nothing reads the slot any more.
 */
static mr_status await_shares(struct mr_copier *copier, const struct mr_buffer *b, mr_error *error)
{
    mr_status first = MR_OK;
    for (uint32_t d = 0; d < copier->shape.placement.n_devices; d++) {
        struct mr_device_handle *handle = copier->shape.devices[d].handle;
        if (!mr_buffer_has(b, d))
            continue;
        mr_status status =
            handle->ops->sync(handle, b->shares[d].filled[b->turn], first ? NULL : error);
        first = first ? first : status;
    }
    return first;
}

/*
 * Find out whether the consumer's stream waited for the previous batch in this buffer. Its events
 * have ended: this batch's copy has waited for its release.
 */
static mr_status compare_arrival(struct mr_copier *copier, const struct mr_buffer *b,
                                 struct mr_copy_report *report, mr_error *error)
{
    uint32_t before = !b->turn;
    struct mr_device_handle *handle = first_device(copier);
    const struct mr_buffer_share *share = &b->shares[b->parts[0].device[MR_BUFFER_IMAGE]];
    int64_t early_ns = 0;
    int64_t late_ns = 0;
    report->was_ready = -1;
    if (!b->was_asked[before])
        return MR_OK;
    mr_status status =
        handle->ops->elapsed(handle, share->filled[before], b->arrives[before], &early_ns, error);
    /*
     * CUDA does not promise that a reversed interval is negative, so 0 is measured the other way
     * round too.
     */
    if (!status && early_ns == 0)
        status = handle->ops->elapsed(handle, b->arrives[before], share->filled[before], &late_ns,
                                      error);
    if (!status)
        report->was_ready = early_ns > 0 || (early_ns == 0 && late_ns <= 0);
    return status;
}

static mr_status measure_copies(struct mr_copier *copier, const struct mr_buffer *b,
                                struct mr_copy_report *report, mr_error *error)
{
    report->bytes = b->bytes;
    report->ns = 0;
    for (uint32_t d = 0; d < copier->shape.placement.n_devices; d++) {
        struct mr_device_handle *handle = copier->shape.devices[d].handle;
        int64_t ns = 0;
        if (!mr_buffer_has(b, d))
            continue;
        mr_status status =
            handle->ops->elapsed(handle, b->shares[d].begin, b->shares[d].end, &ns, error);
        if (status)
            return status;
        if (ns > 0 && (uint64_t)ns > report->ns)
            report->ns = (uint64_t)ns;
    }
    return compare_arrival(copier, b, report, error);
}

mr_status mr_copier_await(struct mr_copier *copier, uint32_t buffer,
                          struct mr_copy_report *report_out, mr_error *error)
{
    assert(buffer < copier->n_buffers && copier->buffers[buffer].is_issued);
    struct mr_buffer *b = &copier->buffers[buffer];
    struct mr_copy_report report;
    b->is_issued = false;
    mr_status status = await_shares(copier, b, error);
    if (!status)
        status = measure_copies(copier, b, &report, error);
    if (!status)
        *report_out = report;
    return status;
}

uint32_t mr_copier_n_parts(const struct mr_copier *copier, uint32_t buffer)
{
    return copier->buffers[buffer].n_parts;
}

mr_device mr_copier_image_device(const struct mr_copier *copier)
{
    return first_device(copier)->device;
}

struct mr_copied_part mr_copier_part(const struct mr_copier *copier, uint32_t buffer, uint32_t part)
{
    const struct mr_buffer *b = &copier->buffers[buffer];
    const struct mr_buffer_part *p = &b->parts[part];
    const uint32_t image = p->device[MR_BUFFER_IMAGE];
    const uint32_t label = p->device[MR_BUFFER_LABEL];
    return (struct mr_copied_part){
        .image = b->shares[image].image,
        .small = b->shares[label].small,
        .first_row = p->first_row,
        .n_rows = p->n_rows,
        .image_device = copier->shape.devices[image].handle->device,
        .label_device = copier->shape.devices[label].handle->device,
    };
}

mr_status mr_copier_use(struct mr_copier *copier, uint32_t buffer, uint32_t part, void *stream,
                        bool arrives, mr_error *error)
{
    return mr_buffer_use(&copier->shape, &copier->buffers[buffer], part, MR_BUFFER_IMAGE, stream,
                         arrives, error);
}

mr_status mr_copier_use_label(struct mr_copier *copier, uint32_t buffer, uint32_t part,
                              void *stream, mr_error *error)
{
    return mr_buffer_use(&copier->shape, &copier->buffers[buffer], part, MR_BUFFER_LABEL, stream,
                         false, error);
}

mr_status mr_copier_remember(struct mr_copier *copier, uint32_t buffer, uint32_t part, void *stream,
                             mr_error *error)
{
    return mr_buffer_remember(&copier->shape, &copier->buffers[buffer], part, stream, error);
}

mr_status mr_copier_release(struct mr_copier *copier, uint32_t buffer, mr_error *error)
{
    return mr_buffer_release(&copier->shape, &copier->buffers[buffer], error);
}

void mr_copier_range_push(struct mr_copier *copier, const char *name)
{
    first_device(copier)->ops->range_push(name);
}

void mr_copier_range_pop(struct mr_copier *copier)
{
    first_device(copier)->ops->range_pop();
}

int32_t mr_copier_numa_node(const struct mr_copier *copier)
{
    const struct mr_device_handle *handle = first_device(copier);
    return handle->ops->numa_node(first_device(copier));
}
