/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a trace with jansson, strictly: an unexpected event is a failure. */
#include "tests/loader/trace_view.h"

#include <jansson.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Times are microseconds with decimals. A double keeps the nanoseconds of a hundred days. */
enum { SLACK_NS = 4 };

static char *read_text(const char *path, bool whole)
{
    FILE *file = fopen(path, "r");
    if (!file)
        fail_msg("no %s", path);
    assert_int_equal(fseek(file, 0, SEEK_END), 0);
    size_t len = (size_t)ftell(file);
    rewind(file);
    char *text = malloc(len + 2);
    assert_non_null(text);
    assert_int_equal(fread(text, 1, len, file), len);
    fclose(file);
    strcpy(text + len, whole ? "" : "]");
    return text;
}

static const char *text_of(const json_t *event, const char *key)
{
    const char *text = json_string_value(json_object_get(event, key));
    if (!text)
        fail_msg("an event lacks %s", key);
    return text;
}

static int64_t ns_of(const json_t *event, const char *key)
{
    const json_t *number = json_object_get(event, key);
    assert_true(json_is_real(number));
    return llround(json_real_value(number) * 1000);
}

static int tid_of(const json_t *event)
{
    assert_true(json_is_integer(json_object_get(event, "tid")));
    return (int)json_integer_value(json_object_get(event, "tid"));
}

static int64_t value_of(const json_t *event)
{
    json_t *args = json_object_get(event, "args");
    void *at = json_object_iter(args);
    assert_int_equal(json_object_size(args), 1);
    assert_true(json_is_integer(json_object_iter_value(at)));
    return json_integer_value(json_object_iter_value(at));
}

static void add_name(struct trace_view *view, const json_t *event)
{
    const char *what = text_of(event, "name");
    if (strcmp(what, "thread_name") != 0) {
        assert_true(strcmp(what, "process_name") == 0 || strcmp(what, "thread_sort_index") == 0);
        return;
    }
    assert_true(view->n_rows < 64);
    snprintf(view->rows[view->n_rows].name, 32, "%s",
             text_of(json_object_get(event, "args"), "name"));
    view->rows[view->n_rows++].tid = tid_of(event);
}

static struct trace_span *add_span(struct trace_view *view, const json_t *event)
{
    struct trace_span *span = &view->spans[view->n_spans++];
    snprintf(span->name, sizeof span->name, "%s", text_of(event, "name"));
    span->tid = tid_of(event);
    span->begin_ns = ns_of(event, "ts");
    span->value = value_of(event);
    return span;
}

/* In the file, the end of an asynchronous span follows its beginning directly. */
static void end_async(struct trace_view *view, const json_t *begin, const json_t *event)
{
    struct trace_span *span = &view->spans[view->n_spans - 1];
    assert_string_equal(text_of(begin, "ph"), "b");
    assert_string_equal(text_of(begin, "id"), text_of(event, "id"));
    assert_string_equal(text_of(begin, "cat"), text_of(event, "cat"));
    assert_string_equal(span->name, text_of(event, "name"));
    assert_int_equal(span->tid, tid_of(event));
    span->overlaps = true;
    span->end_ns = ns_of(event, "ts");
}

static void add_event(struct trace_view *view, const json_t *array, size_t i)
{
    const json_t *event = json_array_get(array, i);
    const char *ph = text_of(event, "ph");
    int pid = (int)json_integer_value(json_object_get(event, "pid"));
    if (view->pid == 0)
        view->pid = pid;
    assert_int_equal(pid, view->pid);
    if (strcmp(ph, "M") == 0) {
        add_name(view, event);
    } else if (strcmp(ph, "X") == 0) {
        struct trace_span *span = add_span(view, event);
        span->end_ns = span->begin_ns + ns_of(event, "dur");
    } else if (strcmp(ph, "b") == 0) {
        add_span(view, event);
    } else {
        assert_string_equal(ph, "e");
        end_async(view, json_array_get(array, i - 1), event);
    }
}

struct trace_view trace_view_read(const char *path, bool whole)
{
    struct trace_view view = {0};
    json_error_t error;
    char *text = read_text(path, whole);
    json_t *array = json_loads(text, 0, &error);
    if (!array)
        fail_msg("%s:%d: %s", path, error.line, error.text);
    assert_true(json_is_array(array));
    view.spans = calloc(json_array_size(array), sizeof *view.spans);
    for (size_t i = 0; i < json_array_size(array); i++)
        add_event(&view, array, i);
    for (unsigned i = 0; i < view.n_spans; i++)
        if (view.spans[i].end_ns < view.spans[i].begin_ns)
            fail_msg("%s %lld ends before it begins", view.spans[i].name,
                     (long long)view.spans[i].value);
    json_decref(array);
    free(text);
    return view;
}

void trace_view_free(struct trace_view *view)
{
    free(view->spans);
}

int trace_view_row(const struct trace_view *view, const char *name)
{
    for (unsigned i = 0; i < view->n_rows; i++)
        if (strcmp(view->rows[i].name, name) == 0)
            return view->rows[i].tid;
    fail_msg("no row '%s'", name);
    return -1;
}

unsigned trace_view_count(const struct trace_view *view, const char *name, int tid, int64_t value)
{
    unsigned n = 0;
    for (unsigned i = 0; i < view->n_spans; i++) {
        const struct trace_span *span = &view->spans[i];
        n += strcmp(span->name, name) == 0 && (tid < 0 || span->tid == tid) &&
             (value < 0 || span->value == value);
    }
    return n;
}

void trace_view_check_nesting(const struct trace_view *view)
{
    for (unsigned i = 0; i < view->n_spans; i++)
        for (unsigned j = 0; j < view->n_spans; j++) {
            const struct trace_span *a = &view->spans[i], *b = &view->spans[j];
            if (a->tid == b->tid && !a->overlaps && !b->overlaps &&
                a->begin_ns + SLACK_NS < b->begin_ns && b->begin_ns + SLACK_NS < a->end_ns &&
                a->end_ns + SLACK_NS < b->end_ns)
                fail_msg("%s %lld and %s %lld cross in row %d", a->name, (long long)a->value,
                         b->name, (long long)b->value, a->tid);
        }
}
