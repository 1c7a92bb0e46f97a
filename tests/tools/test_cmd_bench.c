/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `millrace bench`: table, JSON, plot. Figures are checked for relations that must hold between
 * them, never for speed.
 */
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>
#include <jansson.h>

#include "tests/support/assert_words.h"
#include "tests/tools/run_command.h"

static int set_up(void **state)
{
    mr_run_enter_folder(state);
    mr_run_make_images("photos", 2, 8);
    return 0;
}

static double get_real(const json_t *row, const char *key)
{
    const json_t *value = json_object_get(row, key);

    if (!json_is_number(value))
        fail_msg("%s is no number", key);
    return json_number_value(value);
}

/* The kernel counts CPU time in steps of 10 ms; these photographs take longer. */
enum { SURELY_TIMED = 200 };

static void check_row(const json_t *row, const json_t *first, int workers)
{
    assert_int_equal(json_integer_value(json_object_get(row, "workers")), workers);
    assert_true(json_is_integer(json_object_get(row, "failed")));
    assert_int_equal(json_integer_value(json_object_get(row, "failed")), 0);
    assert_true(get_real(row, "img_s") > 0);
    assert_float_equal(get_real(row, "ratio"), get_real(row, "img_s") / get_real(first, "img_s"),
                       1e-6);
    assert_float_equal(get_real(row, "img_s"), get_real(row, "images") / get_real(row, "seconds"),
                       get_real(row, "img_s") * 1e-6);
    assert_float_equal(get_real(row, "images"), 4 * get_real(row, "batches"), 0);
    double workers_cpu = get_real(row, "cpu_s_per_1000") - get_real(row, "host_cpu_s_per_1000");
    if (workers == 0)
        assert_float_equal(workers_cpu, 0, 0);
    else
        assert_true(workers_cpu > 0 || get_real(row, "images") < SURELY_TIMED);
    assert_true(get_real(row, "first_batch_s") > 0);
    assert_true(get_real(row, "p99_gap_ms") >= get_real(row, "p50_gap_ms"));
    assert_true(get_real(row, "p50_gap_ms") >= 0);
    assert_true(get_real(row, "peak_pss_mb") > 0.1);
    assert_true(get_real(row, "seconds") >= 0.4);
    assert_true(strlen(json_string_value(json_object_get(row, "verdict"))) > 0);
}

static void json_holds_a_row_for_each_number_of_workers(void **state)
{
    static const int workers[] = {0, 2, 1};
    struct mr_run run = {0};
    json_error_t error;

    (void)state;
    mr_run_command(&run, "bench", "--data", "photos", "--transform", "train:32", "--workers",
                   "0,2,1", "--seconds", "0.4", "--batch-size", "4", "--json", "bench.json", NULL);
    if (run.status != 0)
        fail_msg("exits with %d: %s", run.status, run.err);
    json_t *all = json_load_file("bench.json", 0, &error);
    assert_non_null(all);
    const json_t *meta = json_object_get(all, "meta"), *rows = json_object_get(all, "rows");
    assert_int_equal(json_array_size(rows), 3);
    for (size_t i = 0; i < 3; i++)
        check_row(json_array_get(rows, i), json_array_get(rows, 0), workers[i]);
    assert_string_equal(json_string_value(json_object_get(meta, "data")), "photos");
    assert_string_equal(json_string_value(json_object_get(meta, "dtype")), "u8");
    assert_string_equal(json_string_value(json_object_get(meta, "transform")), "train:32");
    assert_int_equal(json_integer_value(json_object_get(meta, "batch_size")), 4);
    assert_true(json_integer_value(json_object_get(meta, "n_cpus")) >= 1);
    assert_int_equal(mr_run_count_entries("bench.json"), 1);
    json_decref(all);
    mr_run_free(&run);
}

static void images_of_different_sizes_are_measured(void **state)
{
    static const char *const ways[][3] = {{"--pad-batch", "128", NULL},
                                          {"--ragged", "--max-row-bytes", "64K"}};
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        mr_run_command(&run, "bench", "photos", "--transform", "random_shortest_size(24:32)",
                       "--aspect-ratio-groups", "3", "--batch-size", "4", "--workers", "1",
                       "--seconds", "0.05", ways[i][0], ways[i][1], ways[i][2], NULL);
        if (run.status != 0)
            fail_msg("exits with %d: %s", run.status, run.err);
        assert_non_null(strstr(run.out, "\nworkers "));
    }
    mr_run_command(&run, "bench", "photos", "--ragged", NULL);
    assert_int_equal(run.status, 2);
    assert_words(run.err, "ragged needs max_row_bytes");
    mr_run_free(&run);
}

static void table_has_one_line_for_each_number_of_workers(void **state)
{
    struct mr_run run = {0};
    unsigned workers;
    double img_s;

    (void)state;
    mr_run_command(&run, "bench", "--data", "photos", "--transform", "train:32", "--workers", "1,2",
                   "--seconds", "0.05", NULL);
    assert_int_equal(run.status, 0);
    char *line = strstr(run.out, "\nworkers ");
    assert_non_null(line);
    for (unsigned i = 1; i <= 2; i++) {
        line = strchr(line + 1, '\n');
        assert_non_null(line);
        assert_int_equal(sscanf(line, "%u %lf", &workers, &img_s), 2);
        assert_int_equal(workers, i);
        assert_true(img_s > 0);
    }
    mr_run_free(&run);
}

static void plot_is_a_png_or_the_package_is_named(void **state)
{
    struct mr_run run = {0};
    size_t len;

    (void)state;
    mr_run_command(&run, "bench", "--data", "photos", "--transform", "train:32", "--workers", "0",
                   "--seconds", "0.05", "--plot", "it's.png", NULL);
    if (run.status == 0) {
        char *png = mr_run_read_file("it's.png", &len);
        assert_true(len > 1000);
        assert_memory_equal(png, "\x89PNG\r\n\x1a\n", 8);
        free(png);
        assert_int_equal(mr_run_count_entries("it's.png"), 1);
    } else {
        assert_int_equal(run.status, 1);
        assert_words(run.err, "gnuplot-nox");
        assert_int_equal(mr_run_count_entries("it's"), 0);
    }
    setenv("PATH", "/nowhere", 1);
    mr_run_command(&run, "bench", "--data", "photos", "--workers", "0", "--plot", "none.png", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.err, "gnuplot-nox");
    assert_string_equal(run.out, "");
    mr_run_free(&run);
}

/* The test's gnuplot only stores the script. */
static void plot_names_dataset_and_transform(void **state)
{
    static const char fake[] = "#!/bin/sh\nexec /bin/cat >script.txt\n";
    const char *path = getenv("PATH");
    char *before = path != NULL ? strdup(path) : NULL, *folder = getcwd(NULL, 0);
    struct mr_run run = {0};

    (void)state;
    assert_non_null(folder);
    mr_run_write_file("gnuplot", fake, sizeof fake - 1);
    assert_int_equal(chmod("gnuplot", 0755), 0);
    setenv("PATH", folder, 1);
    mr_run_command(&run, "bench", "--data", "photos", "--transform", "train:32", "--workers", "0",
                   "--seconds", "0.05", "--plot", "kept.png", NULL);
    if (before != NULL)
        setenv("PATH", before, 1);
    assert_int_equal(run.status, 1); /* no picture was drawn */
    assert_int_equal(mr_run_count_entries("kept"), 0);
    char *script = mr_run_read_file("script.txt", NULL);
    assert_words(script, "'photos, train:32, u8, nchw, batch 64'");
    free(script);
    free(before);
    free(folder);
    mr_run_free(&run);
}

static void targets_are_refused_before_measuring(void **state)
{
    static const char *const targets[][2] = {{"--json", ""},
                                             {"--json", "missing/b.json"},
                                             {"--json", "photos"},
                                             {"--plot", "missing/b.png"},
                                             {"--json", "/proc/b.json"},
                                             {"--json", "/dev/b.json"}};
    struct mr_run run = {0};

    (void)state;
    for (size_t i = 0; i < sizeof targets / sizeof *targets; i++) {
        mr_run_command(&run, "bench", "--data", "photos", "--workers", "0", targets[i][0],
                       targets[i][1], NULL);
        assert_int_equal(run.status, 1);
        assert_string_equal(run.out, "");
        assert_true(strstr(run.err, targets[i][1]) != NULL ||
                    strstr(run.err, "gnuplot-nox") != NULL);
    }
    mr_run_free(&run);
}

static void assert_is_a_result(const char *text)
{
    json_error_t error;
    json_t *all = json_loads(text, 0, &error);

    if (json_array_size(json_object_get(all, "rows")) != 1)
        fail_msg("no JSON with one row: %s: %s", error.text, text);
    json_decref(all);
}

static void json_goes_to_stdout_alone_and_the_table_to_stderr(void **state)
{
    static const char *const names[] = {"-", "/dev/stdout"};
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < 2; i++) {
        mr_run_command(&run, "bench", "--data", "photos", "--workers", "0", "--seconds", "0.1",
                       "--json", names[i], NULL);
        if (run.status != 0)
            fail_msg("--json %s ends with %d: %s", names[i], run.status, run.err);
        assert_is_a_result(run.out);
        assert_words(run.err, "workers     img/s");
    }
    assert_false(mr_run_exists("-"));
    mr_run_free(&run);
}

static void json_goes_to_a_pipe(void **state)
{
    static char text[1 << 16];
    struct mr_run run = {0};

    (void)state;
    assert_int_equal(mkfifo("pipe", 0666), 0);
    int pipe_end = open("pipe", O_RDWR | O_NONBLOCK);
    assert_true(pipe_end >= 0);
    mr_run_command(&run, "bench", "--data", "photos", "--workers", "0", "--seconds", "0.1",
                   "--json", "pipe", NULL);
    if (run.status != 0)
        fail_msg("ends with %d: %s", run.status, run.err);
    assert_words(run.out, "workers     img/s");
    ssize_t len = read(pipe_end, text, sizeof text - 1);
    assert_true(len > 0);
    text[len] = '\0';
    assert_is_a_result(text);
    close(pipe_end);
    assert_int_equal(unlink("pipe"), 0);
    mr_run_free(&run);
}

static void interrupt_ends_it_at_once(void **state)
{
    const char *const args[] = {"bench",     "--data", "photos", "--workers", "2",
                                "--seconds", "60",     "--json", "i.json",    NULL};
    struct timespec before, after;
    struct mr_run run = {0};

    (void)state;
    clock_gettime(CLOCK_MONOTONIC, &before);
    mr_run_command_to(&run, ".stdout", 1000, args);
    clock_gettime(CLOCK_MONOTONIC, &after);
    if (run.status != 128 + 2)
        fail_msg("ends with %d: %s", run.status, run.err);
    assert_true(after.tv_sec - before.tv_sec < 20);
    assert_int_equal(mr_run_count_entries("i.json"), 0);
    mr_run_free(&run);
}

static const char none_txt[] = "x.jpg\t0\ny.jpg\t0\n";
static const char half_txt[] =
    "x.jpg\t0\ny.jpg\t0\nphotos/class_0/0.jpg\t0\nphotos/class_0/0.jpg\t0\n";

static void the_dtype_is_named_without_a_batch_too(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_write_file("none.txt", none_txt, sizeof none_txt - 1);
    mr_run_command(&run, "bench", "list:none.txt", "--workers", "0", "--seconds", "0.05", NULL);
    assert_int_equal(run.status, 1);
    assert_words(run.out, "2 samples, train:224, u8, nchw,");
    mr_run_free(&run);
}

/* An epoch is a batch of two damaged samples and one of two good ones. */
static void a_failed_batch_counts_once(void **state)
{
    struct mr_run run = {0};
    json_error_t error;

    (void)state;
    mr_run_write_file("half.txt", half_txt, sizeof half_txt - 1);
    mr_run_command(&run, "bench", "list:half.txt", "--workers", "0", "--seconds", "0.2",
                   "--no-shuffle", "--batch-size", "2", "--json", "half.json", NULL);
    assert_int_equal(run.status, 1);
    json_t *all = json_load_file("half.json", 0, &error);
    assert_non_null(all);
    const json_t *row = json_array_get(json_object_get(all, "rows"), 0);
    if (get_real(row, "failed") > get_real(row, "batches") / 2 + 2)
        fail_msg("%.0f of %.0f batches failed", get_real(row, "failed"), get_real(row, "batches"));
    json_decref(all);
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_dtype_is_named_without_a_batch_too),
        cmocka_unit_test(a_failed_batch_counts_once),
        cmocka_unit_test(json_holds_a_row_for_each_number_of_workers),
        cmocka_unit_test(table_has_one_line_for_each_number_of_workers),
        cmocka_unit_test(images_of_different_sizes_are_measured),
        cmocka_unit_test(plot_names_dataset_and_transform),
        cmocka_unit_test(targets_are_refused_before_measuring),
        cmocka_unit_test(json_goes_to_stdout_alone_and_the_table_to_stderr),
        cmocka_unit_test(json_goes_to_a_pipe),
        cmocka_unit_test(interrupt_ends_it_at_once),
        cmocka_unit_test(plot_is_a_png_or_the_package_is_named),
    };

    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
