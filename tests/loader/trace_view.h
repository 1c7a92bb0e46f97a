/* SPDX-License-Identifier: Apache-2.0 */
/* A trace's file as a reader sees it. A fault in it fails the test. */
#ifndef TESTS_LOADER_TRACE_VIEW_H
#define TESTS_LOADER_TRACE_VIEW_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

struct trace_span {
    char name[24];
    int tid;
    bool overlaps; /* it is asynchronous */
    int64_t begin_ns;
    int64_t end_ns;
    int64_t value;
};

struct trace_view {
    int pid;
    unsigned n_rows;
    struct {
        char name[32];
        int tid;
    } rows[64];
    unsigned n_spans;
    struct trace_span *spans;
};

/* whole: the file was closed. Otherwise it was cut off, and the reader adds the bracket. */
struct trace_view trace_view_read(const char *path, bool whole);
void trace_view_free(struct trace_view *view);

/* The number of a row; fails if there is no row of that name. */
int trace_view_row(const struct trace_view *view, const char *name);

/* The number of spans of that name in a row (-1: in any), with that value (-1: any). */
unsigned trace_view_count(const struct trace_view *view, const char *name, int tid, int64_t value);

/* Expect that the row's spans that are not asynchronous follow or contain each other. */
void trace_view_check_nesting(const struct trace_view *view);

#endif
