/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host as a device: host:N has its own memory and no streams, and every call has done its work
 * when it returns. This file shows what the functions of the table mean, without the waiting.
 *
 * Invariant: events and the copy stream are never NULL, and a thread may read an event that another
 * thread recorded.
 */
#include "pinned/device.h"

#include "base/checked.h"
#include "base/clock.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { N_DEVICES = 64, PAGE = 4096 };

/* Recorded work has already ended, so only the time is kept. 0: never recorded. */
struct event {
    _Atomic uint64_t recorded_ns;
};

static mr_status count_devices(uint32_t *n_out, mr_error *error)
{
    (void)error;
    *n_out = N_DEVICES;
    return MR_OK;
}

static mr_status open_host(int32_t id, struct mr_device_handle **handle_out, mr_error *error)
{
    *handle_out = NULL;
    if (id == MR_DEVICE_LOCAL)
        return mr_error_set(error, MR_ERR_INVALID, "host:local is not a device");
    if (id < 0 || id >= N_DEVICES)
        return mr_error_set(error, MR_ERR_NO_DEVICE,
                            "device 'host:%d' does not exist; there are %d", (int)id,
                            (int)N_DEVICES);
    struct mr_device_handle *handle = malloc(sizeof *handle);
    if (!handle)
        return mr_error_memory(error, sizeof *handle);
    *handle = (struct mr_device_handle){.ops = &mr_device_host,
                                        .device = {.kind = MR_DEVICE_HOST, .id = id}};
    handle->copy_stream = handle; /* a name; nothing is read through it */
    *handle_out = handle;
    return MR_OK;
}

static void close_host(struct mr_device_handle *handle)
{
    free(handle);
}

static mr_status enter_device(struct mr_device_handle *handle, mr_error *error)
{
    (void)handle, (void)error;
    return MR_OK;
}

static mr_status pin_slots(struct mr_device_handle *handle, void *base, uint64_t slot_bytes,
                           uint32_t n_slots, mr_error *error)
{
    (void)handle, (void)base, (void)slot_bytes, (void)n_slots, (void)error;
    return MR_OK;
}

static void unpin_slots(struct mr_device_handle *handle)
{
    (void)handle;
}

/* Nothing can overlap: every call has done its work when it returns. */
static mr_status split_streams(struct mr_device_handle *handle, mr_error *error)
{
    (void)handle, (void)error;
    return MR_OK;
}

/* Whole pages, at least one. */
static mr_status alloc_memory(struct mr_device_handle *handle, uint64_t len_bytes,
                              void **memory_out, mr_error *error)
{
    (void)handle;
    bool fits = len_bytes <= SIZE_MAX / 2;
    *memory_out = fits ? aligned_alloc(PAGE, mr_align_up(len_bytes ? len_bytes : 1, PAGE)) : NULL;
    return *memory_out ? MR_OK : mr_error_memory(error, len_bytes);
}

static void free_memory(struct mr_device_handle *handle, void *memory)
{
    (void)handle;
    free(memory);
}

static mr_status copy_bytes(struct mr_device_handle *handle, void *to, const void *from,
                            uint64_t len_bytes, mr_error *error)
{
    (void)handle, (void)error;
    if (len_bytes)
        memcpy(to, from, len_bytes);
    return MR_OK;
}

static mr_status finish_rows(struct mr_device_handle *handle, const struct mr_finish_job *job,
                             mr_error *error)
{
    (void)handle, (void)error;
    mr_finish_run(job);
    return MR_OK;
}

static mr_status event_create(struct mr_device_handle *handle, void **event_out, mr_error *error)
{
    (void)handle;
    struct event *event = malloc(sizeof *event);
    *event_out = event;
    if (!event)
        return mr_error_memory(error, sizeof *event);
    atomic_init(&event->recorded_ns, 0);
    return MR_OK;
}

static void event_destroy(struct mr_device_handle *handle, void *event)
{
    (void)handle;
    free(event);
}

static mr_status record_event(struct mr_device_handle *handle, void *event, void *stream,
                              mr_error *error)
{
    (void)handle, (void)stream, (void)error;
    struct event *e = event;
    atomic_store(&e->recorded_ns, mr_clock_now_ns());
    return MR_OK;
}

/* A thread that reads the event sees what was done before it was recorded. */
static mr_status wait_for(struct mr_device_handle *handle, void *stream, void *event,
                          mr_error *error)
{
    (void)handle, (void)stream, (void)error;
    struct event *e = event;
    (void)atomic_load(&e->recorded_ns);
    return MR_OK;
}

static mr_status sync_event(struct mr_device_handle *handle, void *event, mr_error *error)
{
    return wait_for(handle, handle->copy_stream, event, error);
}

static mr_status get_elapsed(struct mr_device_handle *handle, void *begin, void *end,
                             int64_t *ns_out, mr_error *error)
{
    (void)handle;
    struct event *b = begin, *e = end;
    uint64_t begin_ns = atomic_load(&b->recorded_ns), end_ns = atomic_load(&e->recorded_ns);
    if (!begin_ns || !end_ns)
        return mr_error_set(error, MR_ERR_DEVICE,
                            "the %s of the two events to compare was never "
                            "recorded",
                            begin_ns ? "second" : "first");
    *ns_out = (int64_t)(end_ns - begin_ns);
    return MR_OK;
}

static mr_status check_capture(struct mr_device_handle *handle, void *stream, mr_error *error)
{
    (void)handle, (void)stream, (void)error;
    return MR_OK;
}

static mr_status find_stream_device(const struct mr_device_handle *near, const void *stream,
                                    int32_t *id_out, mr_error *error)
{
    (void)near, (void)stream, (void)error;
    *id_out = 0;
    return MR_OK;
}

static int32_t numa_node(struct mr_device_handle *handle)
{
    (void)handle;
    return -1;
}

static void range_push(const char *name)
{
    (void)name;
}

static void range_pop(void) {}

const struct mr_device_ops mr_device_host = {
    .name = "host",
    .kind = MR_DEVICE_HOST,
    .count = count_devices,
    .open = open_host,
    .close = close_host,
    .enter = enter_device,
    .pin = pin_slots,
    .unpin = unpin_slots,
    .split = split_streams,
    .alloc = alloc_memory,
    .free = free_memory,
    .copy_in = copy_bytes,
    .finish = finish_rows,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record_event,
    .wait = wait_for,
    .sync = sync_event,
    .elapsed = get_elapsed,
    .check_capture = check_capture,
    .stream_device = find_stream_device,
    .numa_node = numa_node,
    .range_push = range_push,
    .range_pop = range_pop,
};
