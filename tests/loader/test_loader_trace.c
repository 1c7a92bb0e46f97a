/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader's trace: every sample and every batch is in it, in the right row and order, however the
 * workers run.
 */
#include "tests/loader/rig.h"

#include <dirent.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "tests/loader/trace_view.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"

enum { N_CLASSES = 2, PER_CLASS = 21, N_IMAGES = N_CLASSES * PER_CLASS, BATCH = 8, N_BATCHES = 6 };

struct place {
    char *folder;
    char path[512];
    struct rig *rig;
};

static char *images; /* for all tests */

static int make_images(void **state)
{
    (void)state;
    images = mr_test_folder_filled(N_CLASSES, PER_CLASS);
    return 0;
}

static int set_up(void **state)
{
    struct place *place = calloc(1, sizeof *place);
    place->folder = mr_test_folder_create();
    snprintf(place->path, sizeof place->path, "%s/trace.json", place->folder);
    place->rig = rig_create(100);
    unsetenv("MR_TRACE");
    *state = place;
    return 0;
}

static int tear_down(void **state)
{
    struct place *place = *state;
    unsetenv("MR_TRACE");
    rig_destroy(place->rig);
    free(place);
    return 0;
}

static mr_loader_options options_of(uint32_t num_workers, mr_start start)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = BATCH;
    options.num_workers = num_workers;
    options.start = start;
    options.n_epochs = 1;
    return options;
}

static mr_loader *open_images(const mr_loader_options *options)
{
    char spec[600];
    snprintf(spec, sizeof spec, "imagefolder:%s", images);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, "train:32", options);
    mr_dataset_destroy(dataset);
    return loader;
}

/* Take the epoch. batch_of[i] is set to the batch of index i. */
static void take_all(mr_loader *loader, int64_t batch_of[N_IMAGES])
{
    mr_batch *batch;
    int64_t number = 0;
    while (mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK) {
        const int64_t *index = mr_batch_data(batch, "index");
        for (uint32_t i = 0; i < mr_batch_size(batch); i++)
            batch_of[index[i]] = number;
        number++;
        mr_batch_release(batch);
    }
    assert_int_equal(number, N_BATCHES);
}

static const struct trace_span *find(const struct trace_view *view, const char *name, int64_t value)
{
    for (unsigned i = 0; i < view->n_spans; i++)
        if (view->spans[i].value == value && strcmp(view->spans[i].name, name) == 0)
            return &view->spans[i];
    fail_msg("no %s %lld", name, (long long)value);
    return NULL;
}

/*
 * A sample is read, decoded, transformed and lent, one after the other; one worker does all but the
 * last.
 */
static void check_sample(const struct trace_view *view, int64_t index, int64_t batch)
{
    assert_int_equal(trace_view_count(view, "decode", -1, index), 1);
    assert_int_equal(trace_view_count(view, "transform", -1, index), 1);
    const struct trace_span *decode = find(view, "decode", index),
                            *transform = find(view, "transform", index);
    const struct trace_span *step = find(view, "step", batch);
    assert_true(decode->end_ns > decode->begin_ns);
    assert_true(transform->begin_ns >= decode->end_ns - 4);
    assert_true(step->begin_ns >= transform->end_ns - 4);
    assert_int_equal(decode->tid, transform->tid);
    /* a sample that two workers read is decoded by the faster one */
    const struct trace_span *read = find(view, "read", index);
    assert_true(read->end_ns > read->begin_ns);
    if (trace_view_count(view, "read", -1, index) == 1) {
        assert_int_equal(read->tid, decode->tid);
        assert_true(read->end_ns <= decode->begin_ns + 4);
    }
}

/* With n_workers 0 the consumer makes the samples, so it waits for every batch. */
static void check_epoch(const char *path, uint32_t n_workers, const int64_t batch_of[N_IMAGES])
{
    struct trace_view view = trace_view_read(path, true);
    int consumer = trace_view_row(&view, "consumer");
    char name[32];
    unsigned n_decodes = 0;
    for (uint32_t i = 0; i < (n_workers ? n_workers : 1); i++) {
        snprintf(name, sizeof name, "worker %u", i);
        n_decodes += trace_view_count(&view, "decode", trace_view_row(&view, name), -1);
    }
    assert_int_equal(n_decodes, N_IMAGES);
    assert_int_equal(trace_view_count(&view, "decode", -1, -1), N_IMAGES);
    for (int64_t i = 0; i < N_IMAGES; i++)
        check_sample(&view, i, batch_of[i]);
    assert_int_equal(trace_view_count(&view, "step", consumer, -1), N_BATCHES);
    for (int64_t b = 0; b < N_BATCHES; b++)
        assert_in_range(trace_view_count(&view, "wait", consumer, b), n_workers == 0, 1);
    trace_view_check_nesting(&view);
    trace_view_free(&view);
}

static void every_sample_is_in_the_trace_once(void **state)
{
    struct place *place = *state;
    struct rig_mode modes[8];
    unsigned n = 0;
    for (; n < rig_n_modes; n++)
        modes[n] = rig_modes[n];
    if (modes[n - 1].start == MR_START_FORK) /* not under ThreadSanitizer */
        modes[n++] = (struct rig_mode){"exec", 3, MR_START_EXEC};
    for (unsigned m = 0; m < n; m++) {
        int64_t batch_of[N_IMAGES];
        char path[600];
        mr_loader_options options = options_of(modes[m].num_workers, modes[m].start);
        snprintf(path, sizeof path, "%s.%s", place->path, modes[m].name);
        options.trace = path;
        mr_loader *loader = open_images(&options);
        assert_string_equal(mr_loader_resolved(loader)->trace, path);
        take_all(loader, batch_of);
        mr_loader_destroy(loader);
        check_epoch(path, modes[m].num_workers == MR_NO_WORKERS ? 0 : modes[m].num_workers,
                    batch_of);
    }
}

static void copies_have_rows_of_their_own(void **state)
{
    struct place *place = *state;
    int64_t batch_of[N_IMAGES];
    mr_loader_options options = options_of(2, MR_START_THREAD);
    options.trace = place->path;
    options.device = "host:0";
    mr_loader *loader = open_images(&options);
    take_all(loader, batch_of);
    mr_loader_destroy(loader);
    check_epoch(place->path, 2, batch_of);
    struct trace_view view = trace_view_read(place->path, true);
    int copier = trace_view_row(&view, "copier"), device = trace_view_row(&view, "host:0");
    for (int64_t b = 0; b < N_BATCHES; b++) {
        assert_int_equal(trace_view_count(&view, "issue", copier, b), 1);
        assert_int_equal(trace_view_count(&view, "await", copier, b), 1);
        assert_int_equal(trace_view_count(&view, "copy and finish", device, b), 1);
        assert_true(find(&view, "await", b)->begin_ns >= find(&view, "issue", b)->end_ns);
        assert_true(find(&view, "step", b)->begin_ns >= find(&view, "issue", b)->begin_ns);
    }
    trace_view_free(&view);
}

static void without_a_trace_nothing_is_written(void **state)
{
    struct place *place = *state;
    int64_t batch_of[N_IMAGES];
    char before[4096];
    unsigned n = 0;
    assert_non_null(getcwd(before, sizeof before));
    assert_int_equal(chdir(place->folder), 0);
    mr_loader_options options = options_of(2, MR_START_THREAD);
    mr_loader *loader = open_images(&options);
    assert_null(mr_loader_resolved(loader)->trace);
    take_all(loader, batch_of);
    mr_loader_destroy(loader);
    assert_int_equal(chdir(before), 0);
    DIR *folder = opendir(place->folder);
    while (readdir(folder))
        n++;
    closedir(folder);
    assert_int_equal(n, 2); /* "." and ".." */
}

static void the_environment_gives_each_loader_a_trace(void **state)
{
    struct place *place = *state;
    int64_t batch_of[2][N_IMAGES];
    char second[600];
    mr_loader_options options = options_of(2, MR_START_THREAD);
    snprintf(second, sizeof second, "%s.2", place->path);
    setenv("MR_TRACE", place->path, 1);
    rig_log_capture();
    mr_loader *a = open_images(&options), *b = open_images(&options);
    assert_string_equal(mr_loader_resolved(a)->trace, place->path);
    assert_string_equal(mr_loader_resolved(b)->trace, second);
    assert_int_equal(rig_log_count(second), 1);
    rig_log_end();
    take_all(b, batch_of[1]);
    take_all(a, batch_of[0]);
    mr_loader_destroy(a);
    mr_loader_destroy(b);
    check_epoch(place->path, 2, batch_of[0]);
    check_epoch(second, 2, batch_of[1]);
}

static void a_trace_that_cannot_be_written_is_an_error_or_a_warning(void **state)
{
    struct place *place = *state;
    int64_t indices[100];
    mr_loader_options options = rig_options();
    options.trace = "/nowhere/at/all/trace.json";
    rig_refuses(place->rig, &options, MR_ERR_IO, "/nowhere/at/all/trace.json");
    setenv("MR_TRACE", options.trace, 1);
    options.trace = NULL;
    rig_log_capture();
    mr_loader *loader = rig_loader(place->rig, &options);
    assert_int_equal(rig_log_count("/nowhere/at/all/trace.json"), 1);
    rig_log_end();
    rig_drain(loader, false, indices, 100);
    mr_loader_destroy(loader);
}

static void batches_may_be_lent_together_and_longer_than_the_loader(void **state)
{
    struct place *place = *state;
    mr_loader_options options = rig_options();
    options.trace = place->path;
    mr_loader *loader = rig_loader(place->rig, &options);
    mr_batch *a = rig_next(loader), *b = rig_next(loader), *c = rig_next(loader);
    mr_batch_release(a);
    usleep(2000);
    mr_batch_release(b);
    mr_loader_destroy(loader);
    mr_batch_release(c);
    struct trace_view view = trace_view_read(place->path, true);
    assert_int_equal(trace_view_count(&view, "step", -1, -1), 2);
    const struct trace_span *first = find(&view, "step", 0), *second = find(&view, "step", 1);
    assert_true(second->begin_ns < first->end_ns && first->end_ns < second->end_ns);
    assert_true(trace_view_count(&view, "decode", -1, -1) == 0); /* these samples are no images */
    assert_true(trace_view_count(&view, "transform", -1, 5) == 1);
    trace_view_check_nesting(&view);
    trace_view_free(&view);
}

static void a_trace_outlives_its_workers(void **state)
{
    struct place *place = *state;
    int64_t pids[8], indices[100];
    rig_needs_fork();
    mr_loader_options options = rig_options_of(&rig_modes[rig_n_modes - 1]);
    options.trace = place->path;
    options.n_epochs = 1;
    place->rig->shared->slow_us = 500;
    mr_loader *loader = rig_loader(place->rig, &options);
    for (int i = 0; i < 3; i++) {
        mr_batch_release(rig_next(loader));
        uint32_t n = mr_loader_worker_pids(loader, pids, 8);
        for (uint32_t k = 0; k < n; k++)
            kill((pid_t)pids[k], SIGKILL);
    }
    rig_drain(loader, false, indices, 100);
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    assert_true(stats.n_deaths >= 2);
    mr_loader_destroy(loader);
    atomic_store(&place->rig->shared->n_live, 0); /* the killed workers released nothing */
    struct trace_view view = trace_view_read(place->path, true);
    trace_view_row(&view, "worker 0");
    trace_view_row(&view, "worker 1");
    /* a sample is finished after its span, so spans lost in a death were made again */
    for (int64_t i = 0; i < 100; i++) {
        unsigned n = trace_view_count(&view, "transform", -1, i);
        assert_true(i < 80 ? n >= 1 : n == 1);
    }
    trace_view_check_nesting(&view);
    trace_view_free(&view);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(every_sample_is_in_the_trace_once, set_up, tear_down),
        cmocka_unit_test_setup_teardown(copies_have_rows_of_their_own, set_up, tear_down),
        cmocka_unit_test_setup_teardown(without_a_trace_nothing_is_written, set_up, tear_down),
        cmocka_unit_test_setup_teardown(the_environment_gives_each_loader_a_trace, set_up,
                                        tear_down),
        cmocka_unit_test_setup_teardown(a_trace_that_cannot_be_written_is_an_error_or_a_warning,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(batches_may_be_lent_together_and_longer_than_the_loader,
                                        set_up, tear_down),
        cmocka_unit_test_setup_teardown(a_trace_outlives_its_workers, set_up, tear_down),
    };
    return cmocka_run_group_tests(tests, make_images, NULL);
}
