/* SPDX-License-Identifier: Apache-2.0 */
/* What ran when, in virtual time. Events and waits take no time and are left out. */
#include "tests/double/double_machine.h"

#include <stdlib.h>
#include <string.h>

struct span {
    char name[32];
    char row[24];
    int device; /* DOUBLE_HOST: a host thread */
    uint32_t row_number;
    uint64_t begin_ns;
    uint64_t end_ns;
};

static struct {
    struct span *spans;
    size_t n;
    size_t room;
} timeline;

static struct span *add_span(const char *name, const char *row, uint64_t begin_ns, uint64_t end_ns)
{
    if (timeline.n == timeline.room) {
        size_t room = timeline.room > 0 ? 2 * timeline.room : 256;
        struct span *spans = realloc(timeline.spans, room * sizeof *spans);
        if (!spans)
            abort();
        timeline.spans = spans;
        timeline.room = room;
    }
    struct span *span = &timeline.spans[timeline.n++];
    *span = (struct span){.begin_ns = begin_ns, .end_ns = end_ns};
    (void)snprintf(span->name, sizeof span->name, "%s", name);
    (void)snprintf(span->row, sizeof span->row, "%s", row);
    return span;
}

void double_timeline_op(const struct double_op *op)
{
    if (!double_machine()->options.trace || op->work.kind == DOUBLE_OP_NONE)
        return;
    struct span *span = add_span(op->work.name, op->stream->name, op->begin_ns, op->end_ns);
    span->device = op->stream->device;
    span->row_number = op->stream->component;
}

void double_timeline_host(const char *name, uint64_t begin_ns, uint64_t end_ns)
{
    if (!double_machine()->options.trace)
        return;
    struct span *span = add_span(name, double_machine_thread()->name, begin_ns, end_ns);
    span->device = DOUBLE_HOST;
    span->row_number = double_machine_thread_number();
}

void double_timeline_reset(void)
{
    free(timeline.spans);
    timeline.spans = NULL;
    timeline.n = timeline.room = 0;
}

static int by_begin(const void *a, const void *b)
{
    const struct span *left = a, *right = b;
    if (left->begin_ns != right->begin_ns)
        return left->begin_ns < right->begin_ns ? -1 : 1;
    return left->row_number < right->row_number ? -1 : left->row_number > right->row_number;
}

static void sort(void)
{
    if (timeline.n > 0)
        qsort(timeline.spans, timeline.n, sizeof *timeline.spans, by_begin);
}

static void write_text(FILE *file, const char *text)
{
    for (; *text; text++)
        (void)fputc(*text == '"' || *text == '\\' || (unsigned char)*text < ' ' ? ' ' : *text,
                    file);
}

static void write_name(FILE *file, const char *kind, int process, uint32_t row, const char *name)
{
    (void)fprintf(file, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%u,\"args\":{\"name\":\"",
                  kind, process, (unsigned)row);
    write_text(file, name);
    (void)fputs("\"}},\n", file);
}

static void write_names(FILE *file)
{
    for (size_t i = 0; i < timeline.n; i++) {
        const struct span *span = &timeline.spans[i];
        bool is_new = true, is_new_device = true;
        for (size_t j = 0; j < i; j++) {
            bool same = timeline.spans[j].device == span->device;
            is_new = is_new && !(same && timeline.spans[j].row_number == span->row_number);
            is_new_device = is_new_device && !same;
        }
        char device[32] = "host";
        if (span->device != DOUBLE_HOST)
            (void)snprintf(device, sizeof device, "device %d (double)", span->device);
        if (is_new_device)
            write_name(file, "process_name", span->device + 1, 0, device);
        if (is_new)
            write_name(file, "thread_name", span->device + 1, span->row_number, span->row);
    }
}

void double_timeline_write(FILE *file)
{
    double_machine_lock();
    sort();
    (void)fputs("{\"traceEvents\":[\n", file);
    write_names(file);
    for (size_t i = 0; i < timeline.n; i++) {
        const struct span *span = &timeline.spans[i];
        (void)fputs("{\"ph\":\"X\",\"name\":\"", file);
        write_text(file, span->name);
        (void)fprintf(file, "\",\"pid\":%d,\"tid\":%u,\"ts\":%.3f,\"dur\":%.3f},\n",
                      span->device + 1, (unsigned)span->row_number, (double)span->begin_ns / 1000,
                      (double)(span->end_ns - span->begin_ns) / 1000);
    }
    (void)fputs(
        "{\"ph\":\"M\",\"name\":\"process_sort_index\",\"pid\":0,\"args\":{\"sort_index\":0}}]}\n",
        file);
    double_machine_unlock();
}

void double_timeline_print(FILE *file)
{
    double_machine_lock();
    sort();
    for (size_t i = 0; i < timeline.n; i++) {
        const struct span *span = &timeline.spans[i];
        char device[16] = "host";
        if (span->device != DOUBLE_HOST)
            (void)snprintf(device, sizeof device, "device %d", span->device);
        (void)fprintf(file, "%10.1f %10.1f us  %-9s %-24s %s\n", (double)span->begin_ns / 1000,
                      (double)span->end_ns / 1000, device, span->row, span->name);
    }
    double_machine_unlock();
}
