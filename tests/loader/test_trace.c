/* SPDX-License-Identifier: Apache-2.0 */
/* A trace without a loader: rings as workers may leave them, and the file that is written. */
#include "loader/trace/trace.h"

#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/loader/trace_view.h"
#include "tests/support/folder.h"
#include "tests/support/assert_words.h"

enum { N_WORKERS = 3 };

struct rig {
    char *folder;
    char path[512];
    struct mr_trace_ring *rings;
};

static unsigned n_lines;
static char last_line[1200];

static void keep_line(void *user, mr_log_level level, const char *line)
{
    (void)user;
    (void)level;
    n_lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static int set_up(void **state)
{
    struct rig *rig = calloc(1, sizeof *rig);
    rig->folder = mr_test_folder_create();
    snprintf(rig->path, sizeof rig->path, "%s/trace.json", rig->folder);
    rig->rings = aligned_alloc(64, N_WORKERS * sizeof *rig->rings);
    memset(rig->rings, 0, N_WORKERS * sizeof *rig->rings);
    n_lines = 0;
    last_line[0] = '\0';
    mr_log_set(keep_line, NULL);
    unsetenv("MR_TRACE");
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    struct rig *rig = *state;
    mr_log_set(NULL, NULL);
    unsetenv("MR_TRACE");
    mr_test_folder_remove(rig->folder);
    free(rig->rings);
    free(rig);
    return 0;
}

static struct mr_trace *make(const char *path)
{
    struct mr_trace *trace;
    mr_error error;
    assert_ok(mr_trace_create(path, &trace, &error), &error);
    return trace;
}

static struct mr_trace *start(struct rig *rig, const char *path, uint32_t n_devices)
{
    static const char *const devices[] = {"host:0", "cuda:1"};
    struct mr_trace_rows rows = {
        .workers = rig->rings, .n_workers = N_WORKERS, .devices = devices, .n_devices = n_devices};
    struct mr_trace *trace = make(path);
    mr_error error;
    assert_int_equal(mr_trace_start(trace, &rows, &error), MR_OK);
    return trace;
}

static void no_trace_is_no_file(void **state)
{
    (void)state;
    for (int i = 0; i < 3; i++) {
        setenv("MR_TRACE", i == 0 ? "" : "/nowhere/at/all", 1);
        if (i == 1)
            unsetenv("MR_TRACE");
        /* an empty name means no trace, whatever the environment says */
        assert_null(make(i == 2 ? "" : NULL));
    }
    assert_null(mr_trace_row(NULL, MR_TRACE_CONSUMER));
    assert_null(mr_trace_path(NULL));
    mr_error error;
    assert_int_equal(mr_trace_start(NULL, NULL, &error), MR_OK);
    mr_trace_ring_put(NULL, MR_TRACE_READ, 0, 0);
    mr_trace_destroy(NULL);
    assert_int_equal(n_lines, 0);
}

static void every_row_has_its_name(void **state)
{
    struct rig *rig = *state;
    struct mr_trace *trace = start(rig, rig->path, 2);
    assert_string_equal(mr_trace_path(trace), rig->path);
    assert_non_null(mr_trace_row(trace, MR_TRACE_DEVICE + 1));
    assert_null(mr_trace_row(trace, MR_TRACE_DEVICE + 2));
    mr_trace_destroy(trace);
    struct trace_view view = trace_view_read(rig->path, true);
    static const char *const names[] = {"consumer", "copier",   "host:0",  "cuda:1",
                                        "worker 0", "worker 1", "worker 2"};
    assert_int_equal(view.n_rows, 7);
    assert_int_equal(view.pid, getpid());
    for (unsigned i = 0; i < 7; i++)
        assert_string_equal(view.rows[i].name, names[i]);
    for (unsigned i = 1; i < 7; i++)
        assert_true(view.rows[i - 1].tid < view.rows[i].tid);
    trace_view_free(&view);
}

static void without_devices_there_is_no_copier(void **state)
{
    struct rig *rig = *state;
    struct mr_trace *trace = start(rig, rig->path, 0);
    assert_non_null(mr_trace_row(trace, MR_TRACE_CONSUMER));
    assert_null(mr_trace_row(trace, MR_TRACE_COPIER));
    mr_trace_destroy(trace);
    struct trace_view view = trace_view_read(rig->path, true);
    assert_int_equal(view.n_rows, 1 + N_WORKERS);
    trace_view_free(&view);
}

/*
 * Find a span. Rows are drained in turn at any time, so the order of rows in the file means
 * nothing.
 */
static const struct trace_span *span_named(const struct trace_view *view, const char *name)
{
    for (unsigned i = 0; i < view->n_spans; i++)
        if (strcmp(view->spans[i].name, name) == 0)
            return &view->spans[i];
    fail_msg("no span %s", name);
    abort();
}

static void spans_keep_their_nanoseconds_and_values(void **state)
{
    struct rig *rig = *state;
    struct mr_trace *trace = start(rig, rig->path, 1);
    mr_trace_ring_put_span(&rig->rings[1], MR_TRACE_DECODE, 1000001, 1002999, INT64_C(1) << 40);
    mr_trace_ring_put_span(&rig->rings[2], MR_TRACE_READ, 5, 5, 0);
    mr_trace_ring_put_span(mr_trace_row(trace, MR_TRACE_COPIER), MR_TRACE_ISSUE, 7000, 8001, 3);
    mr_trace_destroy(trace);
    struct trace_view view = trace_view_read(rig->path, true);
    assert_int_equal(view.n_spans, 3);
    const struct trace_span *issue = span_named(&view, "issue"), *read = span_named(&view, "read");
    const struct trace_span *decode = span_named(&view, "decode");
    assert_int_equal(decode->tid, trace_view_row(&view, "worker 1"));
    assert_int_equal(decode->begin_ns, 1000001);
    assert_int_equal(decode->end_ns, 1002999);
    assert_int_equal(decode->value, INT64_C(1) << 40);
    assert_false(decode->overlaps);
    assert_true(read->overlaps);
    assert_int_equal(read->begin_ns, 5);
    assert_int_equal(read->end_ns, 5);
    assert_int_equal(issue->tid, trace_view_row(&view, "copier"));
    trace_view_free(&view);
}

static void a_copy_seen_late_does_not_overlap_the_next(void **state)
{
    struct rig *rig = *state;
    struct mr_trace *trace = start(rig, rig->path, 1);
    struct mr_trace_ring *ring = mr_trace_row(trace, MR_TRACE_DEVICE);
    mr_trace_ring_put_span(ring, MR_TRACE_COPY, 1000, 9000, 0);
    mr_trace_ring_put_span(ring, MR_TRACE_COPY, 5000, 12000, 1);
    mr_trace_ring_put_span(ring, MR_TRACE_COPY, 6000, 7000, 2);
    mr_trace_ring_put_span(ring, MR_TRACE_COPY, 13000, 14000, 3);
    mr_trace_destroy(trace);
    struct trace_view view = trace_view_read(rig->path, true);
    static const int64_t begins[] = {1000, 9000, 12000, 13000},
                         ends[] = {9000, 12000, 12000, 14000};
    assert_int_equal(view.n_spans, 4);
    for (unsigned i = 0; i < 4; i++) {
        assert_int_equal(view.spans[i].begin_ns, begins[i]);
        assert_int_equal(view.spans[i].end_ns, ends[i]);
    }
    trace_view_check_nesting(&view);
    trace_view_free(&view);
}

static void a_full_ring_drops_and_counts(void **state)
{
    struct rig *rig = *state;
    struct mr_trace_event *events = malloc(MR_TRACE_RING_EVENTS * sizeof *events);
    for (int64_t i = 0; i < MR_TRACE_RING_EVENTS + 7; i++)
        mr_trace_ring_put_span(rig->rings, MR_TRACE_DECODE, 1, 2, i);
    assert_int_equal(atomic_load(&rig->rings->n_dropped), 7);
    assert_int_equal(mr_trace_ring_take(rig->rings, events, 10), 10);
    mr_trace_ring_put_span(rig->rings, MR_TRACE_DECODE, 1, 2, 77777);
    assert_int_equal(mr_trace_ring_take(rig->rings, events, MR_TRACE_RING_EVENTS),
                     MR_TRACE_RING_EVENTS - 9);
    assert_int_equal(events[0].value, 10);
    assert_int_equal(events[MR_TRACE_RING_EVENTS - 11].value, MR_TRACE_RING_EVENTS - 1);
    assert_int_equal(events[MR_TRACE_RING_EVENTS - 10].value, 77777);
    assert_int_equal(mr_trace_ring_take(rig->rings, events, MR_TRACE_RING_EVENTS), 0);
    free(events);
    struct mr_trace *trace = start(rig, rig->path, 0);
    mr_trace_destroy(trace);
    assert_words(last_line, "lacks 7 spans");
}

static void a_broken_workers_ring_is_not_trusted(void **state)
{
    struct rig *rig = *state;
    struct mr_trace_event event;
    mr_trace_ring_put_span(rig->rings, MR_TRACE_DECODE, 9, 3, 1);
    mr_trace_ring_put_span(rig->rings, MR_TRACE_DECODE, 3, 9, 2);
    rig->rings->events[1].kind = 99;
    assert_int_equal(mr_trace_ring_take(rig->rings, &event, 1), 1);
    assert_int_equal(event.end_ns, 9);
    assert_int_equal(mr_trace_ring_take(rig->rings, &event, 1), 0);
    atomic_store(&rig->rings->head, UINT64_C(1) << 60);
    assert_int_equal(mr_trace_ring_take(rig->rings, &event, 1), 0);
    mr_trace_ring_put_span(rig->rings, MR_TRACE_DECODE, 3, 9, 2); /* the ring is full */
    struct mr_trace *trace = start(rig, rig->path, 0);
    mr_trace_destroy(trace);
    struct trace_view view = trace_view_read(rig->path, true);
    assert_int_equal(view.n_spans, 0);
    trace_view_free(&view);
}

/* Values count up from 0; one thread at a time. */
struct producer {
    struct mr_trace_ring *ring;
    int64_t n;
};

static void *produce(void *arg)
{
    const struct producer *producer = arg;
    for (int64_t i = 0; i < producer->n; i++) {
        while (atomic_load(&producer->ring->head) - atomic_load(&producer->ring->tail) >=
               MR_TRACE_RING_EVENTS)
            usleep(1000);
        mr_trace_ring_put(producer->ring, MR_TRACE_TRANSFORM, mr_trace_ring_begin(producer->ring),
                          i);
    }
    return NULL;
}

static void spans_of_many_threads_arrive_in_order(void **state)
{
    enum { N = 10000 };
    struct rig *rig = *state;
    pthread_t threads[N_WORKERS];
    struct producer producers[N_WORKERS];
    int64_t next[N_WORKERS] = {0};
    struct mr_trace *trace = start(rig, rig->path, 0);
    for (int i = 0; i < N_WORKERS; i++) {
        producers[i] = (struct producer){&rig->rings[i], N};
        assert_int_equal(pthread_create(&threads[i], NULL, produce, &producers[i]), 0);
    }
    for (int i = 0; i < N_WORKERS; i++)
        pthread_join(threads[i], NULL);
    mr_trace_destroy(trace);
    assert_int_equal(n_lines, 0);
    struct trace_view view = trace_view_read(rig->path, true);
    assert_int_equal(view.n_spans, N_WORKERS * N);
    int first = trace_view_row(&view, "worker 0");
    for (unsigned i = 0; i < view.n_spans; i++) {
        int64_t *expected = &next[view.spans[i].tid - first];
        assert_int_equal(view.spans[i].value, *expected);
        ++*expected;
    }
    trace_view_free(&view);
}

static void a_second_trace_of_the_same_name_gets_its_own_file(void **state)
{
    struct rig *rig = *state;
    char second[600], third[600];
    snprintf(second, sizeof second, "%s.2", rig->path);
    snprintf(third, sizeof third, "%s.3", rig->path);
    setenv("MR_TRACE", rig->path, 1);
    struct mr_trace *a = start(rig, NULL, 0);
    assert_int_equal(n_lines, 0);
    struct mr_trace *b = make(NULL);
    assert_string_equal(mr_trace_path(b), second);
    assert_int_equal(n_lines, 1);
    assert_words(last_line, second);
    mr_trace_destroy(a);
    mr_trace_destroy(b);
    struct mr_trace *c = make(rig->path); /* a file that this process wrote is not overwritten */
    assert_string_equal(mr_trace_path(c), third);
    mr_trace_destroy(c);
    struct trace_view view = trace_view_read(rig->path, true);
    assert_int_equal(view.n_rows, 1 + N_WORKERS);
    trace_view_free(&view);
}

static void an_older_file_is_replaced(void **state)
{
    struct rig *rig = *state;
    char *old = malloc(100000);
    memset(old, 'x', 100000);
    mr_test_folder_write(rig->folder, "trace.json", old, 100000);
    free(old);
    mr_trace_destroy(start(rig, rig->path, 0));
    assert_int_equal(n_lines, 0);
    struct trace_view view = trace_view_read(rig->path, true);
    assert_int_equal(view.n_rows, 1 + N_WORKERS);
    trace_view_free(&view);
}

static void another_process_gets_another_file(void **state)
{
    struct rig *rig = *state;
    char second[600];
    struct stat info;
    snprintf(second, sizeof second, "%s.2", rig->path);
    struct mr_trace *trace = make(rig->path);
    pid_t pid = fork();
    if (pid == 0) { /* the inherited descriptor does not unlock the file for the child */
        struct mr_trace *mine;
        mr_error error;
        _exit(mr_trace_create(rig->path, &mine, &error) == MR_OK &&
                      strcmp(mr_trace_path(mine), second) == 0
                  ? 0
                  : 1);
    }
    int code;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_int_equal(code, 0);
    assert_int_equal(stat(second, &info), 0);
    mr_trace_destroy(trace);
}

static void a_file_that_cannot_be_made_is_an_error_of_the_option_only(void **state)
{
    struct rig *rig = *state;
    char fifo[600], nowhere[600];
    struct mr_trace *trace;
    mr_error error;
    snprintf(fifo, sizeof fifo, "%s/fifo", rig->folder);
    snprintf(nowhere, sizeof nowhere, "%s/no/trace.json", rig->folder);
    assert_int_equal(mkfifo(fifo, 0666), 0);
    const char *const paths[] = {nowhere, rig->folder, fifo};
    static const char *const words[] = {"No such file", "Is a directory", "not a regular file"};
    for (unsigned i = 0; i < 3; i++) {
        unsigned before = n_lines;
        unsetenv("MR_TRACE");
        assert_int_equal(mr_trace_create(paths[i], &trace, &error), MR_ERR_IO);
        assert_null(trace);
        assert_words(error.text, paths[i]);
        assert_words(error.text, words[i]);
        assert_int_equal(n_lines, before);
        setenv("MR_TRACE", paths[i], 1);
        assert_null(make(NULL));
        assert_int_equal(n_lines, before + 1);
        assert_words(last_line, words[i]);
    }
}

static void a_process_that_crashes_leaves_a_readable_trace(void **state)
{
    struct rig *rig = *state;
    pid_t pid = fork();
    if (pid == 0) {
        start(rig, rig->path, 0);
        for (int64_t i = 0; i < 1000; i++)
            mr_trace_ring_put_span(&rig->rings[2], MR_TRACE_DECODE, 1000, 2000, i);
        while (atomic_load(&rig->rings[2].tail) < 1000)
            usleep(1000);
        usleep(200000); /* until the next write */
        abort();
    }
    int code;
    assert_int_equal(waitpid(pid, &code, 0), pid);
    assert_true(WIFSIGNALED(code));
    struct trace_view view = trace_view_read(rig->path, false);
    assert_int_equal(view.n_spans, 1000);
    trace_view_free(&view);
}

static void a_full_disk_harms_only_the_trace(void **state)
{
    struct rig *rig = *state;
    struct rlimit old;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &old), 0);
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    struct mr_trace *trace = start(rig, rig->path, 0);
    struct rlimit none = {.rlim_cur = 512, .rlim_max = old.rlim_max};
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &none), 0);
    for (int64_t i = 0; i < 1000; i++)
        mr_trace_ring_put_span(&rig->rings[0], MR_TRACE_DECODE, 1000, 2000, i);
    mr_trace_destroy(trace);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &old), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(n_lines, 1);
    assert_words(last_line, "incomplete: File too large");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(no_trace_is_no_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(every_row_has_its_name, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_devices_there_is_no_copier, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spans_keep_their_nanoseconds_and_values, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_copy_seen_late_does_not_overlap_the_next, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_ring_drops_and_counts, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_broken_workers_ring_is_not_trusted, set_up, tear_down),
        cmocka_unit_test_setup_teardown(spans_of_many_threads_arrive_in_order, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_second_trace_of_the_same_name_gets_its_own_file, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(an_older_file_is_replaced, set_up, tear_down),
        cmocka_unit_test_setup_teardown(another_process_gets_another_file, set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_file_that_cannot_be_made_is_an_error_of_the_option_only,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_process_that_crashes_leaves_a_readable_trace, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_full_disk_harms_only_the_trace, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
