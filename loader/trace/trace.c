/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The trace's rows and its thread. In this format, spans of one row must follow or contain each
 * other. Reads and lent batches overlap, so they are written as asynchronous events.
 */
#include "loader/trace/trace.h"

#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/log.h"
#include "base/thread.h"
#include "loader/trace/trace_file.h"

enum { DRAIN_MS = 10, FIRST_HOST_TID = 1, FIRST_WORKER_TID = 100 };

struct row {
    struct mr_trace_ring *ring;
    uint32_t tid;       /* a number in the trace, not the system's; rows are sorted by it */
    uint64_t copied_ns; /* end of the last copy */
};

struct mr_trace {
    int pid;
    struct mr_trace_ring *host_rings; /* consumer, copier, devices */
    uint32_t n_host_rings;
    struct row *rows;
    uint32_t n_rows;
    uint64_t n_async;
    struct mr_trace_event *events; /* the thread's buffer for the events of one ring */
    _Atomic uint32_t stop;
    struct mr_thread thread;
    struct mr_trace_file file;
};

static const struct {
    const char *name;
    const char *value; /* meaning of the event's value */
    bool overlaps;
} kinds[MR_TRACE_N_KINDS] = {
    [MR_TRACE_READ] = {"read", "index", true},
    [MR_TRACE_DECODE] = {"decode", "index", false},
    [MR_TRACE_TRANSFORM] = {"transform", "index", false},
    [MR_TRACE_ISSUE] = {"issue", "batch", false},
    [MR_TRACE_AWAIT] = {"await", "batch", false},
    [MR_TRACE_COPY] = {"copy and finish", "batch", false},
    [MR_TRACE_WAIT] = {"wait", "batch", false},
    [MR_TRACE_STEP] = {"step", "batch", true},
};

mr_status mr_trace_create(const char *path, struct mr_trace **trace_out, mr_error *error)
{
    *trace_out = NULL;
    bool is_option = path != NULL;
    if (!is_option)
        path = getenv("MR_TRACE");
    if (!path || !*path)
        return MR_OK;
    struct mr_trace *trace = malloc(sizeof *trace);
    if (!trace)
        return mr_error_memory(error, sizeof *trace);
    memset(trace, 0, offsetof(struct mr_trace, file));
    trace->pid = (int)getpid();
    mr_error words;
    mr_status status = mr_trace_file_open(&trace->file, path, &words);
    if (status == MR_OK) {
        *trace_out = trace;
        return MR_OK;
    }
    free(trace);
    if (!is_option) {
        mr_log_line(MR_LOG_WARNING, "MR_TRACE: %s", words.text);
        return MR_OK;
    }
    mr_error_copy(error, &words);
    return status;
}

/* Microseconds, with nanoseconds as decimals. */
#define US_FORMAT "%llu.%03u"
#define US(ns) (unsigned long long)((ns) / 1000), (unsigned)((ns) % 1000)

static void write_async(struct mr_trace *trace, const struct row *row,
                        const struct mr_trace_event *event)
{
    const char *name = kinds[event->kind].name;
    unsigned long long id = ++trace->n_async;
    mr_trace_file_put(&trace->file,
                      "{\"ph\":\"b\",\"pid\":%d,\"tid\":%u,\"ts\":" US_FORMAT
                      ",\"cat\":\"%s\",\"name\":\"%s\",\"id\":\"0x%llx\",\"args\":{\"%s\":%lld}}",
                      trace->pid, row->tid, US(event->begin_ns), name, name, id,
                      kinds[event->kind].value, (long long)event->value);
    mr_trace_file_put(&trace->file,
                      "{\"ph\":\"e\",\"pid\":%d,\"tid\":%u,\"ts\":" US_FORMAT
                      ",\"cat\":\"%s\",\"name\":\"%s\",\"id\":\"0x%llx\"}",
                      trace->pid, row->tid, US(event->end_ns), name, name, id);
}

/*
 * Make copies of one row follow each other. The host may see the end of a copy late; then the next
 * copy seems to begin before it.
 */
static void separate_copies(struct row *row, struct mr_trace_event *event)
{
    if (event->begin_ns < row->copied_ns)
        event->begin_ns = row->copied_ns;
    if (event->end_ns < event->begin_ns)
        event->end_ns = event->begin_ns;
    row->copied_ns = event->end_ns;
}

static void write_event(struct mr_trace *trace, struct row *row, struct mr_trace_event *event)
{
    if (event->kind == MR_TRACE_COPY)
        separate_copies(row, event);
    if (kinds[event->kind].overlaps) {
        write_async(trace, row, event);
        return;
    }
    const char *name = kinds[event->kind].name;
    mr_trace_file_put(&trace->file,
                      "{\"ph\":\"X\",\"pid\":%d,\"tid\":%u,\"ts\":" US_FORMAT ",\"dur\":" US_FORMAT
                      ",\"cat\":\"%s\",\"name\":\"%s\",\"args\":{\"%s\":%lld}}",
                      trace->pid, row->tid, US(event->begin_ns),
                      US(event->end_ns - event->begin_ns), name, name, kinds[event->kind].value,
                      (long long)event->value);
}

static void drain_rings(struct mr_trace *trace)
{
    for (uint32_t r = 0; r < trace->n_rows; r++) {
        struct row *row = &trace->rows[r];
        uint32_t n = mr_trace_ring_take(row->ring, trace->events, MR_TRACE_RING_EVENTS);
        for (uint32_t i = 0; i < n; i++)
            write_event(trace, row, &trace->events[i]);
    }
    mr_trace_file_flush(&trace->file);
}

static void *trace_main(void *arg)
{
    struct mr_trace *trace = arg;
    bool last;
    do {
        last = atomic_load(
            &trace->stop); /* read before the drain, which then finds everything that was put */
        drain_rings(trace);
        if (!last)
            mr_futex_wait(&trace->stop, 0, DRAIN_MS);
    } while (!last);
    return NULL;
}

/* Add a row and its metadata. */
static void add_row(struct mr_trace *trace, struct mr_trace_ring *ring, uint32_t tid,
                    const char *name)
{
    trace->rows[trace->n_rows++] = (struct row){.ring = ring, .tid = tid};
    mr_trace_file_put(
        &trace->file,
        "{\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"name\":\"thread_name\",\"args\":{\"name\":\"%s\"}}",
        trace->pid, tid, name);
    mr_trace_file_put(&trace->file,
                      "{\"ph\":\"M\",\"pid\":%d,\"tid\":%u,\"name\":\"thread_sort_index\",\"args\":"
                      "{\"sort_index\":%u}}",
                      trace->pid, tid, tid);
}

static void add_rows(struct mr_trace *trace, const struct mr_trace_rows *rows)
{
    char name[32];
    add_row(trace, &trace->host_rings[MR_TRACE_CONSUMER], FIRST_HOST_TID, "consumer");
    if (rows->n_devices > 0)
        add_row(trace, &trace->host_rings[MR_TRACE_COPIER], FIRST_HOST_TID + MR_TRACE_COPIER,
                "copier");
    for (uint32_t i = MR_TRACE_DEVICE; i < trace->n_host_rings; i++)
        add_row(trace, &trace->host_rings[i], FIRST_HOST_TID + i,
                rows->devices[i - MR_TRACE_DEVICE]);
    for (uint32_t i = 0; i < rows->n_workers; i++) {
        snprintf(name, sizeof name, "worker %u", i);
        add_row(trace, &rows->workers[i], FIRST_WORKER_TID + i, name);
    }
}

mr_status mr_trace_start(struct mr_trace *trace, const struct mr_trace_rows *rows, mr_error *error)
{
    if (!trace)
        return MR_OK;
    uint32_t n_host = rows->n_devices > 0 ? MR_TRACE_DEVICE + rows->n_devices : 1;
    trace->events = malloc(MR_TRACE_RING_EVENTS * sizeof *trace->events);
    trace->rows = calloc((size_t)n_host + rows->n_workers, sizeof *trace->rows);
    trace->host_rings =
        aligned_alloc(alignof(struct mr_trace_ring), n_host * sizeof *trace->host_rings);
    if (!trace->events || !trace->rows || !trace->host_rings)
        return mr_error_memory(error, (MR_TRACE_RING_EVENTS * sizeof *trace->events) +
                                          n_host * sizeof *trace->host_rings);
    memset(trace->host_rings, 0, n_host * sizeof *trace->host_rings);
    trace->n_host_rings = n_host;
    add_rows(trace, rows);
    mr_trace_file_flush(&trace->file);
    return mr_thread_run(&trace->thread, "the trace's thread", trace_main, trace, error);
}

struct mr_trace_ring *mr_trace_row(const struct mr_trace *trace, uint32_t row)
{
    return trace && row < trace->n_host_rings ? &trace->host_rings[row] : NULL;
}

const char *mr_trace_path(const struct mr_trace *trace)
{
    return trace ? trace->file.path : NULL;
}

static void report_dropped(const struct mr_trace *trace)
{
    uint64_t n = 0;
    for (uint32_t r = 0; r < trace->n_rows; r++)
        n += atomic_load_explicit(&trace->rows[r].ring->n_dropped, memory_order_relaxed);
    if (n > 0)
        mr_log_line(MR_LOG_WARNING,
                    "trace %s lacks %llu spans: they came faster than they were written",
                    trace->file.path, (unsigned long long)n);
}

void mr_trace_destroy(struct mr_trace *trace)
{
    if (!trace)
        return;
    if (trace->thread.runs) {
        atomic_store(&trace->stop, 1);
        mr_futex_wake(&trace->stop, 1);
        mr_thread_join(&trace->thread);
        report_dropped(trace);
    }
    mr_trace_file_close(&trace->file);
    free(trace->host_rings);
    free(trace->events);
    free(trace->rows);
    free(trace);
}
