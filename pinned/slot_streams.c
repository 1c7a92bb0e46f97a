/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The streams and events of page-locked slots. buffer.c does the same for buffers on a device.
 * There the next copy waits on the device; here the host waits, because workers write the slot
 * next.
 *
 * Invariant: if the end of one of a slot's readers is unknown, the slot is never free again.
 */
#include "pinned/slot_streams.h"

#include <stdlib.h>

#include "pinned/buffer.h"

/* A stream that reads a slot. */
struct reader {
    struct mr_device_handle device; /* the stream's; used for events only */
    void *stream;
    void *event; /* of that device; reused for the next stream here; NULL before the first */
    bool was_recorded;
};

struct read_slot {
    uint32_t n_readers;
    struct reader readers[MR_BUFFER_STREAMS];
    mr_error unknown; /* status 0, or why the end of a reader is unknown */
};

struct mr_slot_streams {
    struct mr_device_handle *handle;
    bool is_pinned;
    uint32_t n_slots;
    struct read_slot slots[];
};

mr_status mr_slot_streams_find(struct mr_device_name *device_out, mr_error *error)
{
    *device_out =
        (struct mr_device_name){.ops = mr_device_find(MR_DEVICE_CUDA), .id = MR_DEVICE_LOCAL};
    uint32_t n = 0;
    if (!device_out->ops)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "this build has no CUDA");
    /* Without a driver no other call may be made. */
    mr_status status = device_out->ops->count(&n, error);
    if (status == MR_OK && n > 1 && !getenv("LOCAL_RANK"))
        status = device_out->ops->stream_device(NULL, NULL, &device_out->id, error);
    return status;
}

mr_status mr_slot_streams_create(const struct mr_device_name *device, uint32_t n_slots,
                                 struct mr_slot_streams **streams_out, mr_error *error)
{
    size_t len = sizeof(struct mr_slot_streams) + n_slots * sizeof(struct read_slot);
    struct mr_slot_streams *streams = calloc(1, len);
    *streams_out = NULL;
    if (!streams)
        return mr_error_memory(error, len);
    streams->n_slots = n_slots;
    mr_status status = device->ops->open(device->id, &streams->handle, error);
    if (status == MR_OK)
        status = device->ops->enter(streams->handle, error);
    if (status == MR_OK)
        *streams_out = streams;
    else
        mr_slot_streams_destroy(streams);
    return status;
}

int32_t mr_slot_streams_numa_node(const struct mr_slot_streams *streams)
{
    return streams->handle->ops->numa_node(streams->handle);
}

mr_status mr_slot_streams_pin(struct mr_slot_streams *streams, const struct mr_slot_layout *layout,
                              uint8_t *slab, mr_error *error)
{
    mr_status status = streams->handle->ops->pin(streams->handle, slab + layout->data_off,
                                                 layout->data_bytes, layout->n_slots, error);
    streams->is_pinned = status == MR_OK;
    return status;
}

void mr_slot_streams_enter(struct mr_slot_streams *streams)
{
    /* Ignored: if the device has failed, later calls report it. */
    (void)streams->handle->ops->enter(streams->handle, NULL);
}

static void settle_slot(const struct mr_device_ops *ops, struct read_slot *slot)
{
    for (uint32_t i = 0; i < slot->n_readers; i++)
        if (slot->readers[i].was_recorded)
            (void)ops->sync(&slot->readers[i].device, slot->readers[i].event, NULL);
    for (uint32_t i = 0; i < MR_BUFFER_STREAMS; i++)
        if (slot->readers[i].event)
            ops->event_destroy(&slot->readers[i].device, slot->readers[i].event);
}

void mr_slot_streams_destroy(struct mr_slot_streams *streams)
{
    if (!streams)
        return;
    struct mr_device_handle *handle = streams->handle;
    for (uint32_t i = 0; i < streams->n_slots && handle; i++)
        settle_slot(handle->ops, &streams->slots[i]);
    if (streams->is_pinned)
        handle->ops->unpin(handle);
    if (handle)
        handle->ops->close(handle);
    free(streams);
}

/* NULL names a different stream on each device. */
static bool is_remembered(const struct read_slot *slot, const struct mr_device_handle *device,
                          const void *stream)
{
    for (uint32_t i = 0; i < slot->n_readers; i++)
        if (slot->readers[i].stream == stream &&
            slot->readers[i].device.device.id == device->device.id)
            return true;
    return false;
}

/* An event belongs to one device, so another device's stream gets a new one. */
static mr_status give_event(struct reader *reader, const struct mr_device_handle *device,
                            mr_error *error)
{
    if (reader->event && reader->device.device.id == device->device.id)
        return MR_OK;
    if (reader->event)
        device->ops->event_destroy(&reader->device, reader->event);
    reader->event = NULL;
    reader->device = *device;
    return device->ops->event_create(&reader->device, &reader->event, error);
}

/* Recording fails if the stream is not the device's. */
static mr_status add_reader(struct read_slot *slot, const struct mr_device_handle *device,
                            void *stream, mr_error *error)
{
    if (slot->n_readers == MR_BUFFER_STREAMS)
        return mr_error_set(error, MR_ERR_STATE,
                            "%u streams use this batch already, which is the limit",
                            MR_BUFFER_STREAMS);
    struct reader *reader = &slot->readers[slot->n_readers];
    mr_status status = give_event(reader, device, error);
    if (status == MR_OK)
        status = device->ops->record(&reader->device, reader->event, stream, error);
    if (status != MR_OK)
        return status;
    reader->stream = stream;
    reader->was_recorded = false;
    slot->n_readers++;
    return MR_OK;
}

/* The first failure's error is kept. */
static void lose_track(struct read_slot *slot, const mr_error *error)
{
    if (slot->unknown.status != MR_OK)
        return;
    slot->unknown = *error;
    slot->unknown.status = MR_ERR_DEVICE;
}

mr_status mr_slot_streams_use(struct mr_slot_streams *streams, uint32_t slot, void *stream,
                              mr_error *error)
{
    struct read_slot *s = &streams->slots[slot];
    const struct mr_device_ops *ops = streams->handle->ops;
    struct mr_device_handle device = {.ops = ops, .device = {.kind = ops->kind}};
    mr_status status = ops->stream_device(streams->handle, stream, &device.device.id, error);
    if (status == MR_OK)
        status = ops->check_capture(&device, stream, error);
    if (status == MR_OK && !is_remembered(s, &device, stream))
        status = add_reader(s, &device, stream, error);
    return status;
}

void mr_slot_streams_lose(struct mr_slot_streams *streams, uint32_t slot, const mr_error *error)
{
    lose_track(&streams->slots[slot], error);
}

mr_status mr_slot_streams_release(struct mr_slot_streams *streams, uint32_t slot, bool *waits_out,
                                  mr_error *error)
{
    struct read_slot *s = &streams->slots[slot];
    const struct mr_device_ops *ops = streams->handle->ops;
    mr_error words;
    for (uint32_t i = 0; i < s->n_readers; i++) {
        mr_status status = ops->check_capture(&s->readers[i].device, s->readers[i].stream, &words);
        if (status == MR_ERR_STATE) {
            mr_error_copy(error, &words);
            return status;
        }
    }
    for (uint32_t i = 0; i < s->n_readers; i++) {
        struct reader *reader = &s->readers[i];
        reader->was_recorded =
            ops->record(&reader->device, reader->event, reader->stream, &words) == MR_OK;
        if (!reader->was_recorded)
            lose_track(s, &words);
    }
    *waits_out = s->n_readers > 0 || s->unknown.status != MR_OK;
    if (s->unknown.status != MR_OK)
        mr_error_copy(error, &s->unknown);
    return (mr_status)s->unknown.status;
}

mr_status mr_slot_streams_await(struct mr_slot_streams *streams, uint32_t slot, mr_error *error)
{
    struct read_slot *s = &streams->slots[slot];
    mr_error words;
    for (uint32_t i = 0; i < s->n_readers; i++) {
        struct reader *reader = &s->readers[i];
        if (reader->was_recorded &&
            reader->device.ops->sync(&reader->device, reader->event, &words) != MR_OK)
            lose_track(s, &words);
    }
    if (s->unknown.status != MR_OK)
        mr_error_copy(error, &s->unknown);
    else
        s->n_readers = 0;
    return (mr_status)s->unknown.status;
}
