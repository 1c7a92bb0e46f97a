/* SPDX-License-Identifier: Apache-2.0 */
/*
 * See scripted_device.h. It asserts inside calls of the copier, so a broken rule ends the test
 * there.
 */
#include "tests/pinned/scripted_device.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { MAX_THINGS = 4096, LOG_BYTES = 1 << 16 };

/* A resource in use: memory, an event, a handle, a registration. */
struct thing {
    const void *address;
    uint64_t len_bytes; /* of memory; else 0 */
    int32_t device;
};

struct event {
    char name[12];
    bool was_recorded;
};

static struct {
    struct thing things[MAX_THINGS];
    uint32_t n_things;
    enum scripted_call failing;
    uint32_t failing_at; /* 0: never */
    bool is_sticky;
    bool has_failed;
    uint32_t counts[SCRIPTED_CALLS];
    int64_t elapsed_ns;
    uint32_t n_names;
    size_t len;
    char log[LOG_BYTES];
} script;

const char *const scripted_names[SCRIPTED_CALLS] = {
    "open",         "enter",  "pin",  "alloc", "copy_in", "finish",
    "event_create", "record", "wait", "sync",  "elapsed", "check_capture"};

static int32_t get_id(const struct mr_device_handle *handle)
{
    return handle->device.id;
}

__attribute__((format(printf, 1, 2))) static void log_word(const char *format, ...)
{
    va_list args;
    va_start(args, format);
    if (script.len)
        script.log[script.len++] = ' ';
    int n = vsnprintf(script.log + script.len, LOG_BYTES - script.len, format, args);
    va_end(args);
    assert_true(n >= 0 && script.len + (size_t)n + 1 < LOG_BYTES);
    script.len += (size_t)n;
}

static void take(const void *address, uint64_t len_bytes, int32_t device)
{
    assert_true(script.n_things < MAX_THINGS);
    script.things[script.n_things++] = (struct thing){address, len_bytes, device};
}

/*
 * The resource must be in use and the device's; otherwise it is given back twice, or by the wrong
 * device.
 */
static void give(const void *address, int32_t device)
{
    for (uint32_t i = 0; i < script.n_things; i++)
        if (script.things[i].address == address && script.things[i].device == device) {
            script.things[i] = script.things[--script.n_things];
            return;
        }
    fail_msg("device %d gives back what it has not taken", (int)device);
}

static bool is_taken(const void *address, int32_t device)
{
    for (uint32_t i = 0; i < script.n_things; i++)
        if (script.things[i].address == address &&
            (device < 0 || script.things[i].device == device))
            return true;
    return false;
}

static void assert_memory(const void *address, uint64_t len_bytes, int32_t device)
{
    const uint8_t *from = address;
    for (uint32_t i = 0; i < script.n_things; i++) {
        const uint8_t *start = script.things[i].address;
        uint64_t len = script.things[i].len_bytes;
        if (script.things[i].device == device && len && from >= start &&
            from + len_bytes <= start + len)
            return;
    }
    fail_msg("%llu bytes are not memory of device %d", (unsigned long long)len_bytes, (int)device);
}

/* Count the call; returns the status that it must have. */
static mr_status attempt(enum scripted_call call, mr_status status, mr_error *error)
{
    script.counts[call]++;
    bool is_this = call == script.failing && script.counts[call] == script.failing_at;
    script.has_failed |= is_this;
    if (is_this || (script.has_failed && script.is_sticky))
        return mr_error_set(error, status, "%s failure of %s", is_this ? "scripted" : "further",
                            scripted_names[call]);
    return MR_OK;
}

static const char *name_event(struct event *event)
{
    uint32_t n = script.n_names;
    if (!event->name[0]) {
        if (n < 26)
            snprintf(event->name, sizeof event->name, "%c", (char)('A' + n));
        else
            snprintf(event->name, sizeof event->name, "%u", n);
        script.n_names++;
    }
    return event->name;
}

static char stream_name(const void *stream)
{
    const struct scripted_stream *s = stream;
    return s ? s->name : '0';
}

static mr_status count_devices(uint32_t *n_out, mr_error *error)
{
    (void)error;
    *n_out = SCRIPTED_DEVICES;
    return MR_OK;
}

static mr_status open_device(int32_t id, struct mr_device_handle **handle_out, mr_error *error)
{
    mr_status status = attempt(SCRIPTED_OPEN, MR_ERR_NO_DEVICE, error);
    if (status)
        return status;
    struct scripted_device *device = calloc(1, sizeof *device);
    assert_non_null(device);
    device->copy_stream = (struct scripted_stream){.name = 'c', .device = id};
    device->handle = (struct mr_device_handle){.ops = &scripted_table,
                                               .device = {MR_DEVICE_CUDA, id},
                                               .copy_stream = &device->copy_stream};
    take(device, 0, id);
    *handle_out = &device->handle;
    return MR_OK;
}

static void close_device(struct mr_device_handle *handle)
{
    int32_t id = get_id(handle);
    give(handle, id);
    for (uint32_t i = 0; i < script.n_things; i++)
        assert_int_not_equal(script.things[i].device,
                             id); /* a device's handle is closed after all its other resources */
    free(handle);
}

static mr_status enter(struct mr_device_handle *handle, mr_error *error)
{
    log_word("enter%d", get_id(handle));
    return attempt(SCRIPTED_ENTER, MR_ERR_DEVICE, error);
}

static mr_status pin(struct mr_device_handle *handle, void *base, uint64_t slot_bytes,
                     uint32_t n_slots, mr_error *error)
{
    log_word("pin%d", get_id(handle));
    assert_non_null(base);
    assert_true(slot_bytes > 0 && n_slots > 0);
    mr_status status = attempt(SCRIPTED_PIN, MR_ERR_NO_MEMORY, error);
    if (!status)
        /* a unique address */
        take(&((struct scripted_device *)handle)->copy_stream, 0, get_id(handle));
    return status;
}

static void unpin(struct mr_device_handle *handle)
{
    log_word("unpin%d", get_id(handle));
    give(&((struct scripted_device *)handle)->copy_stream, get_id(handle));
}

static mr_status alloc(struct mr_device_handle *handle, uint64_t len_bytes, void **memory_out,
                       mr_error *error)
{
    mr_status status = attempt(SCRIPTED_ALLOC, MR_ERR_NO_MEMORY, error);
    if (status)
        return status;
    assert_true(len_bytes > 0);
    *memory_out = malloc(len_bytes);
    assert_non_null(*memory_out);
    take(*memory_out, len_bytes, get_id(handle));
    return MR_OK;
}

static void free_memory(struct mr_device_handle *handle, void *memory)
{
    give(memory, get_id(handle));
    free(memory);
}

static mr_status copy_in(struct mr_device_handle *handle, void *device, const void *host,
                         uint64_t len_bytes, mr_error *error)
{
    log_word("copy_in%d", get_id(handle));
    assert_true(len_bytes > 0);
    assert_memory(device, len_bytes, get_id(handle));
    mr_status status = attempt(SCRIPTED_COPY_IN, MR_ERR_DEVICE, error);
    if (!status)
        memcpy(device, host, len_bytes);
    return status;
}

static mr_status finish(struct mr_device_handle *handle, const struct mr_finish_job *job,
                        mr_error *error)
{
    int32_t id = get_id(handle);
    log_word("finish%d", id);
    assert_true(job->n > 0);
    assert_memory(job->tables, sizeof job->finish->table, id);
    assert_memory(job->mask, job->n, id);
    assert_memory(job->staging,
                  job->n * job->finish->height * job->finish->width * job->finish->channels, id);
    assert_memory(job->out, job->n * mr_finish_out_bytes(job->finish), id);
    mr_status status = attempt(SCRIPTED_FINISH, MR_ERR_DEVICE, error);
    if (!status)
        mr_finish_run(job);
    return status;
}

static mr_status event_create(struct mr_device_handle *handle, void **event_out, mr_error *error)
{
    mr_status status = attempt(SCRIPTED_EVENT_CREATE, MR_ERR_DEVICE, error);
    if (status)
        return status;
    *event_out = calloc(1, sizeof(struct event));
    assert_non_null(*event_out);
    take(*event_out, 0, get_id(handle));
    return MR_OK;
}

static void event_destroy(struct mr_device_handle *handle, void *event)
{
    give(event, get_id(handle));
    free(event);
}

static mr_status record(struct mr_device_handle *handle, void *event, void *stream, mr_error *error)
{
    const struct scripted_stream *s = stream;
    struct event *e = event;
    assert_true(is_taken(event, get_id(handle)));
    log_word("record%d:%s@%c", get_id(handle), name_event(e), stream_name(stream));
    assert_false(s && s->is_captured); /* a recorded event would become part of the graph */
    mr_status status = attempt(SCRIPTED_RECORD, MR_ERR_DEVICE, error);
    if (status)
        return status;
    if (s && s->device != get_id(handle))
        return mr_error_set(error, MR_ERR_INVALID, "the stream is of device %d", (int)s->device);
    e->was_recorded = true;
    return MR_OK;
}

static mr_status wait(struct mr_device_handle *handle, void *stream, void *event, mr_error *error)
{
    const struct scripted_stream *s = stream;
    struct event *e = event;
    assert_true(is_taken(event, -1));
    log_word("wait%d:%s@%c", get_id(handle), name_event(e), stream_name(stream));
    assert_true(e->was_recorded); /* a wait for an event that was never recorded orders nothing */
    assert_false(s && s->is_captured);
    return attempt(SCRIPTED_WAIT, MR_ERR_DEVICE, error);
}

static mr_status sync_event(struct mr_device_handle *handle, void *event, mr_error *error)
{
    assert_true(is_taken(event, get_id(handle)));
    log_word("sync%d:%s", get_id(handle), name_event(event));
    return attempt(SCRIPTED_SYNC, MR_ERR_DEVICE, error);
}

static mr_status elapsed(struct mr_device_handle *handle, void *begin, void *end, int64_t *ns_out,
                         mr_error *error)
{
    struct event *b = begin, *e = end;
    assert_true(is_taken(begin, get_id(handle)) && is_taken(end, get_id(handle)));
    log_word("elapsed%d:%s-%s", get_id(handle), name_event(b), name_event(e));
    assert_true(b->was_recorded && e->was_recorded);
    *ns_out = script.elapsed_ns;
    return attempt(SCRIPTED_ELAPSED, MR_ERR_DEVICE, error);
}

static mr_status check_capture(struct mr_device_handle *handle, void *stream, mr_error *error)
{
    const struct scripted_stream *s = stream;
    log_word("check%d@%c", get_id(handle), stream_name(stream));
    mr_status status = attempt(SCRIPTED_CHECK_CAPTURE, MR_ERR_DEVICE, error);
    if (!status && s && s->is_captured)
        return mr_error_set(error, MR_ERR_STATE, "the stream is in a capture");
    return status;
}

static int32_t numa_node(struct mr_device_handle *handle)
{
    return 10 + get_id(handle);
}

static void range_push(const char *name)
{
    log_word("push:%s", name);
}

static void range_pop(void)
{
    log_word("pop");
}

const struct mr_device_ops scripted_table = {
    .name = "scripted",
    .kind = MR_DEVICE_CUDA,
    .count = count_devices,
    .open = open_device,
    .close = close_device,
    .enter = enter,
    .pin = pin,
    .unpin = unpin,
    .alloc = alloc,
    .free = free_memory,
    .copy_in = copy_in,
    .finish = finish,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record,
    .wait = wait,
    .sync = sync_event,
    .elapsed = elapsed,
    .check_capture = check_capture,
    .numa_node = numa_node,
    .range_push = range_push,
    .range_pop = range_pop,
};

void scripted_reset(void)
{
    assert_int_equal(script.n_things, 0);
    memset(&script, 0, sizeof script);
}

void scripted_fail(enum scripted_call call, uint32_t n, bool is_sticky)
{
    script.failing = call;
    script.failing_at = n;
    script.is_sticky = is_sticky;
}

bool scripted_has_failed(void)
{
    return script.has_failed;
}

uint32_t scripted_count(enum scripted_call call)
{
    return script.counts[call];
}

uint32_t scripted_n_taken(void)
{
    return script.n_things;
}

const char *scripted_log(void)
{
    return script.log;
}

void scripted_clear(void)
{
    script.len = 0;
    script.log[0] = '\0';
}

void scripted_set_elapsed(int64_t ns)
{
    script.elapsed_ns = ns;
}

void scripted_expect(const char *words)
{
    assert_string_equal(scripted_log(), words);
    scripted_clear();
}
