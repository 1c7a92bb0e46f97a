/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory, the events and the consumer's streams of device buffers.
 *
 * Invariant: streams and events of one kind of device mean nothing to another kind. If the host and
 * a GPU share a part, the host's memory is not overwritten before the GPU's streams have ended.
 */
#include "pinned/buffer.h"

#include <assert.h>
#include <string.h>

static struct mr_device_handle *handle_at(const struct mr_buffer_shape *shape, uint32_t device)
{
    return shape->devices[device].handle;
}

static struct mr_device_handle *handle_of(const struct mr_buffer_shape *shape,
                                          const struct mr_buffer_part *part, uint32_t end)
{
    return handle_at(shape, part->device[end]);
}

static bool has_two_ends(const struct mr_buffer_part *part)
{
    return part->device[MR_BUFFER_LABEL] != part->device[MR_BUFFER_IMAGE];
}

static mr_status take_event(struct mr_device_handle *handle, void **event, mr_error *error)
{
    return handle->ops->event_create(handle, event, error);
}

static mr_status take_memory(struct mr_device_handle *handle, uint64_t len_bytes,
                             uint8_t **memory_out, mr_error *error)
{
    void *memory = NULL;
    mr_status status = handle->ops->alloc(handle, len_bytes, &memory, error);
    *memory_out = memory;
    return status;
}

static void give_event(struct mr_device_handle *handle, void *event)
{
    if (event)
        handle->ops->event_destroy(handle, event);
}

static void give_memory(struct mr_device_handle *handle, void *memory)
{
    if (memory)
        handle->ops->free(handle, memory);
}

static mr_status init_share_memory(const struct mr_buffer_shape *shape,
                                   const struct mr_buffer_device *device,
                                   struct mr_buffer_share *share, mr_error *error)
{
    mr_status status = MR_OK;
    if (device->part != MR_BUFFER_NO_PART)
        status =
            take_memory(device->handle, shape->n_rows * shape->row_bytes, &share->image, error);
    if (!status && device->has_small)
        status = take_memory(device->handle, shape->layout->small_bytes, &share->small, error);
    return status;
}

static mr_status init_share(const struct mr_buffer_shape *shape,
                            const struct mr_buffer_device *device, struct mr_buffer_share *share,
                            mr_error *error)
{
    void **const events[] = {&share->begin, &share->end, &share->filled[0], &share->filled[1]};
    mr_status status = init_share_memory(shape, device, share, error);
    for (size_t i = 0; i < sizeof events / sizeof *events && !status; i++)
        status = take_event(device->handle, events[i], error);
    return status;
}

static mr_status init_part(const struct mr_buffer_shape *shape, uint32_t i,
                           struct mr_buffer_part *part, mr_error *error)
{
    part->device[MR_BUFFER_IMAGE] = shape->placement.image[i];
    part->device[MR_BUFFER_LABEL] = shape->placement.label[i];
    uint32_t n_ends = has_two_ends(part) ? MR_BUFFER_ENDS : 1;
    mr_status status = MR_OK;
    for (uint32_t k = 0; k < MR_BUFFER_STREAMS && !status; k++)
        for (uint32_t end = 0; end < n_ends && !status; end++)
            status =
                take_event(handle_of(shape, part, end), &part->streams[k].released[end], error);
    return status;
}

mr_status mr_buffer_init(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                         mr_error *error)
{
    mr_status status = MR_OK;
    for (uint32_t d = 0; d < shape->placement.n_devices && !status; d++)
        status = init_share(shape, &shape->devices[d], &buffer->shares[d], error);
    for (uint32_t i = 0; i < shape->placement.n_parts && !status; i++)
        status = init_part(shape, i, &buffer->parts[i], error);
    for (uint32_t t = 0; t < 2 && !status; t++)
        status = take_event(handle_of(shape, &buffer->parts[0], MR_BUFFER_IMAGE),
                            &buffer->arrives[t], error);
    if (!status)
        mr_buffer_split(shape, buffer, shape->layout->batch_size);
    return status;
}

/* Wait for all events of one part that were recorded at release. */
static void settle_part(const struct mr_buffer_shape *shape, const struct mr_buffer_part *part)
{
    for (uint32_t k = 0; k < part->n_streams; k++) {
        const struct mr_buffer_stream *s = &part->streams[k];
        struct mr_device_handle *handle = handle_of(shape, part, s->end);
        if (s->was_released)
            (void)handle->ops->sync(handle, s->released[s->end], NULL);
    }
}

void mr_buffer_settle(const struct mr_buffer_shape *shape, const struct mr_buffer *buffer)
{
    for (uint32_t i = 0; i < shape->placement.n_parts; i++)
        settle_part(shape, &buffer->parts[i]);
    for (uint32_t d = 0; d < shape->placement.n_devices; d++)
        for (uint32_t t = 0; t < 2; t++)
            if (buffer->shares[d].was_filled[t])
                (void)handle_at(shape, d)->ops->sync(handle_at(shape, d),
                                                     buffer->shares[d].filled[t], NULL);
}

static void fini_share(struct mr_device_handle *handle, struct mr_buffer_share *share)
{
    give_event(handle, share->filled[1]);
    give_event(handle, share->filled[0]);
    give_event(handle, share->end);
    give_event(handle, share->begin);
    give_memory(handle, share->small);
    give_memory(handle, share->image);
}

void mr_buffer_fini(const struct mr_buffer_shape *shape, struct mr_buffer *buffer)
{
    for (uint32_t t = 2; t-- > 0;)
        give_event(handle_at(shape, shape->placement.image[0]), buffer->arrives[t]);
    for (uint32_t i = shape->placement.n_parts; i-- > 0;)
        for (uint32_t k = MR_BUFFER_STREAMS; k-- > 0;)
            for (uint32_t end = MR_BUFFER_ENDS; end-- > 0;)
                give_event(handle_of(shape, &buffer->parts[i], end),
                           buffer->parts[i].streams[k].released[end]);
    for (uint32_t d = shape->placement.n_devices; d-- > 0;)
        fini_share(handle_at(shape, d), &buffer->shares[d]);
    memset(buffer, 0, sizeof *buffer);
}

void mr_buffer_split(const struct mr_buffer_shape *shape, struct mr_buffer *buffer, uint32_t n_rows)
{
    uint32_t n_parts = shape->placement.n_parts;
    buffer->n_parts = 1;
    for (uint32_t i = 0; i < buffer->n_parts; i++)
        buffer->n_parts = mr_placement_split(n_rows, n_parts, i, &buffer->parts[i].first_row,
                                             &buffer->parts[i].n_rows);
}

static bool part_is_on(const struct mr_buffer_part *part, uint32_t device)
{
    return part->device[MR_BUFFER_IMAGE] == device || part->device[MR_BUFFER_LABEL] == device;
}

bool mr_buffer_has(const struct mr_buffer *buffer, uint32_t device)
{
    for (uint32_t i = 0; i < buffer->n_parts; i++)
        if (part_is_on(&buffer->parts[i], device))
            return true;
    return false;
}

/*
 * Make a copy stream wait for one stream of the consumer. The host copies at once, so it first
 * sleeps until a GPU's stream that may still read this memory has ended. Work of the host that was
 * released has already ended.
 */
static mr_status wait_for_stream(struct mr_device_handle *copier, struct mr_device_handle *consumer,
                                 void *event, mr_error *error)
{
    if (copier->ops == consumer->ops)
        return copier->ops->wait(copier, copier->copy_stream, event, error);
    if (copier->device.kind == MR_DEVICE_HOST)
        return consumer->ops->sync(consumer, event, error);
    return MR_OK;
}

mr_status mr_buffer_wait(const struct mr_buffer_shape *shape, const struct mr_buffer *buffer,
                         uint32_t device, mr_error *error)
{
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < shape->placement.n_parts; i++) {
        const struct mr_buffer_part *part = &buffer->parts[i];
        for (uint32_t k = 0; part_is_on(part, device) && k < part->n_streams && !status; k++) {
            const struct mr_buffer_stream *s = &part->streams[k];
            if (s->was_released)
                status = wait_for_stream(handle_at(shape, device), handle_of(shape, part, s->end),
                                         s->released[s->end], error);
        }
    }
    return status;
}

void mr_buffer_forget(struct mr_buffer *buffer)
{
    for (uint32_t i = 0; i < buffer->n_parts; i++)
        buffer->parts[i].n_streams = 0;
}

/*
 * Which ends can this stream belong to? A default stream belongs to `end`; any other may belong to
 * both. If one of the two devices is the host, which has no streams, the stream belongs to the
 * other.
 */
static void find_ends(const struct mr_buffer_shape *shape, const struct mr_buffer_part *part,
                      uint32_t end, const void *stream, bool may[MR_BUFFER_ENDS])
{
    bool both = has_two_ends(part) && !mr_stream_is_default(stream);
    may[MR_BUFFER_IMAGE] = both || end == MR_BUFFER_IMAGE;
    may[MR_BUFFER_LABEL] = both || end == MR_BUFFER_LABEL;
    for (end = 0; both && end < MR_BUFFER_ENDS; end++)
        if (handle_of(shape, part, end)->ops != handle_of(shape, part, !end)->ops)
            may[end] = handle_of(shape, part, end)->device.kind != MR_DEVICE_HOST;
}

/*
 * Find the stream's device by recording an event on it: that works only with the stream's own
 * device.
 */
static mr_status identify_stream(const struct mr_buffer_shape *shape,
                                 const struct mr_buffer_part *part, const bool may[MR_BUFFER_ENDS],
                                 struct mr_buffer_stream *candidate, mr_error *error)
{
    mr_status status = MR_ERR_INVALID;
    for (uint32_t end = 0; end < MR_BUFFER_ENDS && status == MR_ERR_INVALID; end++)
        if (may[end]) {
            struct mr_device_handle *handle = handle_of(shape, part, end);
            candidate->end = end;
            status =
                handle->ops->record(handle, candidate->released[end], candidate->stream, error);
        }
    return status;
}

/*
 * The stream's index among those of the part: its own if it is remembered, else the next free one,
 * which n_streams does not count yet. A default stream of the images' device and one of the labels'
 * device have the same handle.
 */
static mr_status find_stream(const struct mr_buffer_shape *shape, struct mr_buffer_part *part,
                             uint32_t end, void *stream, uint32_t *at_out, mr_error *error)
{
    bool may[MR_BUFFER_ENDS];
    find_ends(shape, part, end, stream, may);
    struct mr_device_handle *handle =
        handle_of(shape, part, may[MR_BUFFER_IMAGE] ? MR_BUFFER_IMAGE : MR_BUFFER_LABEL);
    mr_status status = handle->ops->check_capture(handle, stream, error);
    uint32_t at = 0;
    while (at < part->n_streams &&
           !(part->streams[at].stream == stream && may[part->streams[at].end]))
        at++;
    *at_out = at;
    if (status || at < part->n_streams)
        return status;
    if (at == MR_BUFFER_STREAMS)
        return mr_error_set(error, MR_ERR_STATE,
                            "%u streams use this part of the batch already, which is the limit",
                            MR_BUFFER_STREAMS);
    part->streams[at].stream = stream;
    part->streams[at].was_released = false;
    return identify_stream(shape, part, may, &part->streams[at], error);
}

static void keep_stream(struct mr_buffer_part *part, uint32_t at)
{
    if (at == part->n_streams)
        part->n_streams++;
}

/*
 * Between host and GPU there is nothing to wait for: the host's copies have ended, and the host has
 * no streams.
 */
static mr_status wait_for_share(struct mr_device_handle *consumer, void *stream,
                                struct mr_device_handle *copier, void *filled, mr_error *error)
{
    return consumer->ops == copier->ops ? consumer->ops->wait(consumer, stream, filled, error)
                                        : MR_OK;
}

static mr_status wait_for_filled(const struct mr_buffer_shape *shape,
                                 const struct mr_buffer *buffer, const struct mr_buffer_part *part,
                                 const struct mr_buffer_stream *s, mr_error *error)
{
    uint32_t n_ends = has_two_ends(part) ? MR_BUFFER_ENDS : 1;
    mr_status status = MR_OK;
    for (uint32_t end = 0; end < n_ends && !status; end++)
        status =
            wait_for_share(handle_of(shape, part, s->end), s->stream, handle_of(shape, part, end),
                           buffer->shares[part->device[end]].filled[buffer->turn], error);
    return status;
}

mr_status mr_buffer_use(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                        uint32_t part, uint32_t end, void *stream, bool arrives, mr_error *error)
{
    assert(part < buffer->n_parts);
    struct mr_buffer_part *p = &buffer->parts[part];
    uint32_t at;
    mr_status status =
        find_stream(shape, p, has_two_ends(p) ? end : MR_BUFFER_IMAGE, stream, &at, error);
    if (status)
        return status;
    const struct mr_buffer_stream *s = &p->streams[at];
    struct mr_device_handle *handle = handle_of(shape, p, s->end);
    arrives = arrives && part == 0 && s->end == MR_BUFFER_IMAGE;
    if (arrives)
        status = handle->ops->record(handle, buffer->arrives[buffer->turn], stream, error);
    if (!status)
        status = wait_for_filled(shape, buffer, p, s, error);
    if (status)
        return status;
    keep_stream(p, at);
    if (arrives)
        buffer->was_asked[buffer->turn] = true;
    return MR_OK;
}

mr_status mr_buffer_remember(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                             uint32_t part, void *stream, mr_error *error)
{
    assert(part < buffer->n_parts);
    uint32_t at;
    mr_status status =
        find_stream(shape, &buffer->parts[part], MR_BUFFER_IMAGE, stream, &at, error);
    if (!status)
        keep_stream(&buffer->parts[part], at);
    return status;
}

/* Is a stream of this part in a capture? *first keeps the status of the first failure. */
static bool is_captured(const struct mr_buffer_shape *shape, const struct mr_buffer_part *part,
                        mr_status *first, mr_error *error)
{
    for (uint32_t k = 0; k < part->n_streams; k++) {
        struct mr_device_handle *handle = handle_of(shape, part, part->streams[k].end);
        mr_error words;
        mr_status status = handle->ops->check_capture(handle, part->streams[k].stream, &words);
        if (status && (status == MR_ERR_STATE || !*first)) {
            *first = status;
            mr_error_copy(error, &words);
        }
        if (status == MR_ERR_STATE)
            return true;
    }
    return false;
}

/* The buffer keeps the text of the first failure. */
static void release_stream(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                           const struct mr_buffer_part *part, struct mr_buffer_stream *s)
{
    struct mr_device_handle *handle = handle_of(shape, part, s->end);
    mr_error *error = buffer->unreleased.status ? NULL : &buffer->unreleased;
    mr_status status = handle->ops->record(handle, s->released[s->end], s->stream, error);
    s->was_released = !status;
    if (status && error)
        error->status = MR_ERR_DEVICE;
}

mr_status mr_buffer_release(const struct mr_buffer_shape *shape, struct mr_buffer *buffer,
                            mr_error *error)
{
    mr_status first = MR_OK;
    for (uint32_t i = 0; i < buffer->n_parts; i++)
        if (is_captured(shape, &buffer->parts[i], &first, error))
            return MR_ERR_STATE;
    for (uint32_t i = 0; i < buffer->n_parts; i++)
        for (uint32_t k = 0; k < buffer->parts[i].n_streams; k++)
            release_stream(shape, buffer, &buffer->parts[i], &buffer->parts[i].streams[k]);
    if (!first && buffer->unreleased.status) {
        mr_error_copy(error, &buffer->unreleased);
        first = MR_ERR_DEVICE;
    }
    return first;
}
