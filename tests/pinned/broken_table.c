/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table that breaks a rule. A handle of this table wraps a handle of the real table, and the
 * real functions must get the wrapped one. Its streams are the real ones, because callers read
 * them.
 */
#include "tests/pinned/broken_table.h"

#include <stdlib.h>

#include <cuda_runtime_api.h>

enum { MAX_DELAYED = 64 };

/* A call that is made later than asked for. */
struct delayed {
    enum { DELAYED_COPY, DELAYED_FINISH, DELAYED_RECORD } kind;
    void *to;
    const void *from;
    uint64_t len_bytes;
    struct mr_finish_job job;
};

struct handle {
    struct mr_device_handle base;
    struct mr_device_handle *real;
    cudaStream_t other; /* a second stream, besides the copy stream */
    struct delayed delayed[MAX_DELAYED];
    uint32_t n_delayed;
    /* At issue, records on the copy stream: three per batch; the last one is *filled*. */
    uint32_t n_records;
    /*
     * If the finish has its find_own stream: the first record after a finish is of the event that
     * says that the staging was read.
     */
    bool has_finished;
    void *was_read[2]; /* those events */
    uint32_t n_was_read;
};

/*
 * The rule, what the copier does now, and how many calls of the rule's kind it has made so far.
 * These are static, because a test cannot pass a pointer to the table's functions.
 */
static enum broken_rule rule;
static enum schedule_phase phase_now;
static uint32_t n_seen;

void broken_table_phase(enum schedule_phase phase)
{
    phase_now = phase;
    n_seen = 0;
}

static const struct mr_device_ops table;

static struct handle *find_own(struct mr_device_handle *handle)
{
    return (struct handle *)handle;
}

static mr_status count(uint32_t *n_out, mr_error *error)
{
    return mr_device_cuda.count(n_out, error);
}

static mr_status open_both(int32_t id, struct mr_device_handle **handle_out, mr_error *error)
{
    struct handle *h = calloc(1, sizeof *h);
    *handle_out = NULL;
    if (h == NULL)
        return mr_error_memory(error, sizeof *h);
    mr_status status = mr_device_cuda.open(id, &h->real, error);
    if (status != MR_OK) {
        free(h);
        return status;
    }
    h->base = *h->real;
    h->base.ops = &table;
    bool ok = cudaSetDevice(h->real->device.id) == cudaSuccess &&
              cudaStreamCreateWithFlags(&h->other, cudaStreamNonBlocking) == cudaSuccess;
    if (!ok)
        abort();
    *handle_out = &h->base;
    return MR_OK;
}

static void close_both(struct mr_device_handle *handle)
{
    if (cudaStreamDestroy(find_own(handle)->other) != cudaSuccess)
        abort();
    mr_device_cuda.close(find_own(handle)->real);
    free(handle);
}

static mr_status enter(struct mr_device_handle *handle, mr_error *error)
{
    return mr_device_cuda.enter(find_own(handle)->real, error);
}

static mr_status pin(struct mr_device_handle *handle, void *base, uint64_t slot_bytes,
                     uint32_t n_slots, mr_error *error)
{
    return mr_device_cuda.pin(find_own(handle)->real, base, slot_bytes, n_slots, error);
}

static void unpin(struct mr_device_handle *handle)
{
    mr_device_cuda.unpin(find_own(handle)->real);
}

static mr_status alloc(struct mr_device_handle *handle, uint64_t len_bytes, void **memory_out,
                       mr_error *error)
{
    return mr_device_cuda.alloc(find_own(handle)->real, len_bytes, memory_out, error);
}

static void free_memory(struct mr_device_handle *handle, void *memory)
{
    mr_device_cuda.free(find_own(handle)->real, memory);
}

static mr_status delay(struct handle *h, const struct delayed *delayed)
{
    if (h->n_delayed == MAX_DELAYED)
        abort();
    h->delayed[h->n_delayed++] = *delayed;
    return MR_OK;
}

static mr_status run_delayed(struct handle *h, const struct delayed *d, mr_error *error)
{
    switch (d->kind) {
    case DELAYED_COPY: return mr_device_cuda.copy_in(h->real, d->to, d->from, d->len_bytes, error);
    case DELAYED_FINISH: return mr_device_cuda.finish(h->real, &d->job, error);
    default: return mr_device_cuda.record(h->real, d->to, (void *)d->from, error);
    }
}

static mr_status catch_up(struct handle *h, mr_error *error)
{
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < h->n_delayed && status == MR_OK; i++)
        status = run_delayed(h, &h->delayed[i], error);
    h->n_delayed = 0;
    return status;
}

/* Swap the real handle's copy stream with another stream. */
static void swap_stream(struct handle *h, void **stream)
{
    void *other = h->other;
    h->other = *stream;
    *stream = other;
}

static mr_status copy_in(struct mr_device_handle *handle, void *device, const void *host,
                         uint64_t len_bytes, mr_error *error)
{
    struct handle *h = find_own(handle);
    if (rule == BROKEN_FILLED_BEFORE_COPY && phase_now == PHASE_ISSUE)
        return delay(h,
                     &(struct delayed){
                         .kind = DELAYED_COPY, .to = device, .from = host, .len_bytes = len_bytes});
    bool elsewhere =
        rule == BROKEN_SMALL_ON_ANOTHER_STREAM && phase_now == PHASE_ISSUE && n_seen++ % 2 == 1;
    if (elsewhere)
        swap_stream(h, &h->real->copy_stream);
    mr_status status = mr_device_cuda.copy_in(h->real, device, host, len_bytes, error);
    if (elsewhere)
        swap_stream(h, &h->real->copy_stream);
    return status;
}

static mr_status finish(struct mr_device_handle *handle, const struct mr_finish_job *job,
                        mr_error *error)
{
    struct handle *h = find_own(handle);
    void **stream = h->real->finish_stream ? &h->real->finish_stream : &h->real->copy_stream;
    h->has_finished = true;
    if (rule == BROKEN_FILLED_BEFORE_COPY || rule == BROKEN_FILLED_BEFORE_FINISH)
        return delay(h, &(struct delayed){.kind = DELAYED_FINISH, .job = *job});
    if (rule != BROKEN_FINISH_ON_ANOTHER_STREAM)
        return mr_device_cuda.finish(h->real, job, error);
    swap_stream(h, stream);
    mr_status status = mr_device_cuda.finish(h->real, job, error);
    swap_stream(h, stream);
    return status;
}

static mr_status split(struct mr_device_handle *handle, mr_error *error)
{
    mr_status status = mr_device_cuda.split(find_own(handle)->real, error);
    handle->finish_stream = find_own(handle)->real->finish_stream;
    return status;
}

static mr_status event_create(struct mr_device_handle *handle, void **event_out, mr_error *error)
{
    return mr_device_cuda.event_create(find_own(handle)->real, event_out, error);
}

static void event_destroy(struct mr_device_handle *handle, void *event)
{
    mr_device_cuda.event_destroy(find_own(handle)->real, event);
}

static bool is_was_read(const struct handle *h, const void *event)
{
    return event == h->was_read[0] || event == h->was_read[1];
}

/*
 * At issue: true if this record is *filled*. Notes the addresses of the two events that say that a
 * staging was read.
 */
static bool says_filled(struct handle *h, void *event, const void *stream)
{
    const void *finish = h->real->finish_stream;
    if (!finish)
        return ++h->n_records % 3 == 0;
    if (stream != finish)
        return false;
    bool filled = !h->has_finished;
    if (!filled && !is_was_read(h, event))
        h->was_read[h->n_was_read++ % 2] = event;
    h->has_finished = false;
    return filled;
}

static mr_status record(struct mr_device_handle *handle, void *event, void *stream, mr_error *error)
{
    struct handle *h = find_own(handle);
    if (phase_now == PHASE_RELEASE) {
        n_seen++;
        if (rule == BROKEN_RELEASE_RECORDS_NOTHING ||
            (rule == BROKEN_RELEASE_RECORDS_ONE && n_seen > 1))
            return MR_OK;
        if (rule == BROKEN_RELEASE_RECORDS_LATE)
            return delay(h, &(struct delayed){.kind = DELAYED_RECORD, .to = event, .from = stream});
    }
    bool is_filled = phase_now == PHASE_ISSUE && says_filled(h, event, stream);
    if (is_filled && rule == BROKEN_FILLED_BEFORE_OTHER_FINISH)
        stream = h->real->copy_stream;
    mr_status status = mr_device_cuda.record(h->real, event, stream, error);
    if (status != MR_OK || phase_now != PHASE_ISSUE)
        return status;
    return is_filled || rule == BROKEN_RELEASE_RECORDS_LATE ? catch_up(h, error) : MR_OK;
}

static mr_status wait_for(struct mr_device_handle *handle, void *stream, void *event,
                          mr_error *error)
{
    struct handle *h = find_own(handle);
    bool at_issue = phase_now == PHASE_ISSUE;
    bool of_finish = at_issue && h->real->finish_stream && stream == h->real->finish_stream;
    bool of_staging = at_issue && is_was_read(h, event);
    bool of_streams = at_issue && !of_finish && !of_staging;
    if (of_streams && rule == BROKEN_COPY_DOES_NOT_WAIT)
        return MR_OK;
    if (of_streams && rule == BROKEN_COPY_WAITS_FOR_ONE && n_seen++ > 0)
        return MR_OK;
    if (of_finish && rule == BROKEN_FINISH_WAITS_FOR_NO_COPY)
        return MR_OK;
    if (of_staging && rule == BROKEN_COPY_WAITS_FOR_NO_FINISH)
        return MR_OK;
    if (phase_now == PHASE_USE && rule == BROKEN_STREAM_DOES_NOT_WAIT)
        return MR_OK;
    if (phase_now == PHASE_USE && rule == BROKEN_STREAM_WAITS_FOR_ONE_DEVICE && n_seen++ > 0)
        return MR_OK;
    return mr_device_cuda.wait(h->real, stream, event, error);
}

static mr_status sync_event(struct mr_device_handle *handle, void *event, mr_error *error)
{
    if (phase_now == PHASE_AWAIT && rule == BROKEN_AWAIT_DOES_NOT_SLEEP)
        return MR_OK;
    return mr_device_cuda.sync(find_own(handle)->real, event, error);
}

/* If the events have not ended, CUDA fails; the rules are not about that. */
static mr_status elapsed(struct mr_device_handle *handle, void *begin, void *end, int64_t *ns_out,
                         mr_error *error)
{
    *ns_out = 0;
    if (rule != BROKEN_NOTHING)
        return MR_OK;
    return mr_device_cuda.elapsed(find_own(handle)->real, begin, end, ns_out, error);
}

static mr_status check_capture(struct mr_device_handle *handle, void *stream, mr_error *error)
{
    return mr_device_cuda.check_capture(find_own(handle)->real, stream, error);
}

static int32_t numa_node(struct mr_device_handle *handle)
{
    return mr_device_cuda.numa_node(find_own(handle)->real);
}

static void range_push(const char *name)
{
    mr_device_cuda.range_push(name);
}

static void range_pop(void)
{
    mr_device_cuda.range_pop();
}

static const struct mr_device_ops table = {
    .name = "cuda",
    .kind = MR_DEVICE_CUDA,
    .count = count,
    .open = open_both,
    .close = close_both,
    .enter = enter,
    .pin = pin,
    .unpin = unpin,
    .split = split,
    .alloc = alloc,
    .free = free_memory,
    .copy_in = copy_in,
    .finish = finish,
    .event_create = event_create,
    .event_destroy = event_destroy,
    .record = record,
    .wait = wait_for,
    .sync = sync_event,
    .elapsed = elapsed,
    .check_capture = check_capture,
    .numa_node = numa_node,
    .range_push = range_push,
    .range_pop = range_pop,
};

const struct mr_device_ops *broken_table(enum broken_rule broken)
{
    rule = broken;
    return &table;
}
