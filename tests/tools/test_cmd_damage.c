/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Samples that cannot be decoded: the three policies of the command, its messages and exit
 * statuses.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tests/tools/npy_file.h"
#include "tests/tools/run_command.h"

/* Index 1 is a text; 0, 2, 3, 4 are images. */
static int set_up(void **state)
{
    mr_run_enter_folder(state);
    mr_run_make_images("photos", 1, 5);
    if (unlink("photos/class_0/1.jpg") < 0)
        return -1;
    mr_run_write_file("photos/class_0/1.jpg", "not an image", 12);
    return 0;
}

static void export_by(struct mr_run *run, const char *policy)
{
    mr_run_command(run, "export", "--data", "photos", "--transform", "train:8", "--no-shuffle",
                   "--batch-size", "2", "--workers", "1", "--on-error", policy, "--out", "x.npy",
                   NULL);
}

static void fail_names_file_and_index_and_leaves_nothing(void **state)
{
    struct mr_run run = {0};

    (void)state;
    mr_run_write_file("x.npy", "old", 3);
    export_by(&run, "fail");
    assert_int_equal(run.status, 1);
    assert_non_null(strstr(run.err, "photos/class_0/1.jpg"));
    assert_non_null(strstr(run.err, "index 1"));
    assert_int_equal(mr_run_count_entries("x."), 1);
    char *old = mr_run_read_file("x.npy", NULL);
    assert_string_equal(old, "old");
    free(old);
    mr_run_free(&run);
}

static void zero_leaves_a_masked_hole(void **state)
{
    struct mr_npy_file image, mask;
    struct mr_run run = {0};

    (void)state;
    export_by(&run, "ZERO");
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.err, "photos/class_0/1.jpg"));
    mr_npy_file_read(&image, "x.npy");
    mr_npy_file_read(&mask, "x.mask.npy");
    assert_int_equal(image.shape[0], 5);
    for (int i = 0; i < 5; i++) {
        const unsigned char *row = image.data + i * 192;
        bool zero = row[0] == 0 && memcmp(row, row + 1, 191) == 0;
        assert_int_equal(mask.data[i], i != 1);
        assert_int_equal(zero, i == 1);
    }
    mr_npy_file_free(&image);
    mr_npy_file_free(&mask);
    mr_run_free(&run);
}

static void skip_takes_the_next_good_index(void **state)
{
    static const int64_t expected[] = {0, 2, 2, 3, 4};
    struct mr_npy_file index;
    struct mr_run run = {0};

    (void)state;
    export_by(&run, "skip");
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.err, "skipped 1 time; 1 distinct sample:"));
    mr_npy_file_read(&index, "x.indices.npy");
    for (size_t i = 0; i < 5; i++)
        assert_int_equal(mr_npy_file_i64(&index, i), expected[i]);
    mr_npy_file_free(&index);
    mr_run_free(&run);
}

/* All of many damaged samples are named. */
static void every_damaged_sample_is_named_and_counted(void **state)
{
    static const char *const policies[] = {"skip", "zero"};
    struct mr_run run = {0};
    char path[64];

    (void)state;
    mr_run_make_images("many", 1, 7);
    for (int i = 0; i < 7; i++) {
        snprintf(path, sizeof path, "many/class_0/bad%d.jpg", i);
        mr_run_write_file(path, "not an image", 12);
    }
    for (int k = 0; k < 2; k++) {
        mr_run_command(&run, "export", "--data", "many", "--transform", "train:8", "--workers", "0",
                       "--world-size", "1", "--on-error", policies[k], "--out", "many.npy", NULL);
        assert_int_equal(run.status, 0);
        assert_non_null(strstr(run.err, "; 7 distinct samples:"));
        assert_non_null(
            strstr(run.err, k == 0 ? "samples skipped 7 times; 7 " : "samples zeroed 7 times; 7 "));
        for (int i = 0; i < 7; i++) {
            snprintf(path, sizeof path, "many/class_0/bad%d.jpg (index %d)", i, 7 + i);
            if (strstr(run.err, path) == NULL)
                fail_msg("'%s' is not in: %s", path, run.err);
        }
    }
    mr_run_free(&run);
}

/* With this many in one batch, some have only their name and no reason. */
static void all_damaged_samples_of_a_batch_are_named(void **state)
{
    static const char *const policies[] = {"skip", "zero"};
    struct mr_run run = {0};
    char path[64];

    (void)state;
    mr_run_make_images("worse", 1, 3);
    for (int i = 0; i < 90; i++) {
        snprintf(path, sizeof path, "worse/class_0/bad%d.jpg", i);
        mr_run_write_file(path, "not an image", 12);
    }
    for (int k = 0; k < 4; k++) {
        mr_run_command(&run, "export", "--data", "worse", "--transform", "train:8", "--workers",
                       k < 2 ? "0" : "3", "--world-size", "1", "--batch-size", "93", "--on-error",
                       policies[k % 2], "--out", "worse.npy", NULL);
        assert_int_equal(run.status, 0);
        assert_non_null(strstr(run.err, "; 90 distinct samples:"));
        assert_non_null(strstr(run.err, " 90 times; "));
        for (int i = 0; i < 90; i++) {
            snprintf(path, sizeof path, "/bad%d.jpg", i);
            if (!strstr(run.err, path))
                fail_msg("'%s' lacks %s", run.err, path);
        }
        assert_null(strstr(run.err, " more"));
    }
    mr_run_free(&run);
}

/*
 * Each damaged place counts once, however many substitutes were tried for it. At most 100 samples
 * get a line.
 */
static void a_run_of_damaged_samples_takes_a_hundred_lines_and_a_sum(void **state)
{
    struct mr_run run = {0};
    FILE *list = fopen("run.txt", "w");
    unsigned n_lines = 0;

    (void)state;
    assert_non_null(list);
    for (int i = 0; i < 3000; i++)
        fprintf(list, "missing%d.jpg\t0\n", i);
    fputs("photos/class_0/0.jpg\t0\n", list);
    assert_int_equal(fclose(list), 0);
    mr_run_command(&run, "export", "list:run.txt", "--transform", "train:8", "--workers", "2",
                   "--world-size", "1", "--on-error", "skip", "--out", "run.npy", NULL);
    assert_int_equal(run.status, 0);
    assert_non_null(strstr(run.err, "damaged samples skipped 3000 times; 3000 distinct samples:"));
    assert_non_null(strstr(run.err, "and 2900 more"));
    /* Of millrace: AddressSanitizer may say that it could not stop a thread to look for leaks. */
    for (const char *p = run.err; p; p = strchr(p, '\n')) {
        p += *p == '\n';
        n_lines += strncmp(p, "millrace", strlen("millrace")) == 0;
    }
    if (n_lines != 102)
        fail_msg("%u lines instead of 102: %s", n_lines, run.err);
    mr_run_free(&run);
}

static void bench_exits_1_only_when_samples_fail(void **state)
{
    static const char *const policies[] = {"fail", "skip", "zero"};
    struct mr_run run = {0};

    (void)state;
    for (int i = 0; i < 3; i++) {
        mr_run_command(&run, "bench", "--data", "photos", "--transform", "train:8", "--workers",
                       "1", "--seconds", "0.05", "--batch-size", "2", "--on-error", policies[i],
                       NULL);
        assert_int_equal(run.status, i == 0 ? 1 : 0);
        assert_non_null(strstr(run.err, "photos/class_0/1.jpg"));
    }
    mr_run_free(&run);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(fail_names_file_and_index_and_leaves_nothing),
        cmocka_unit_test(zero_leaves_a_masked_hole),
        cmocka_unit_test(skip_takes_the_next_good_index),
        cmocka_unit_test(every_damaged_sample_is_named_and_counted),
        cmocka_unit_test(all_damaged_samples_of_a_batch_are_named),
        cmocka_unit_test(a_run_of_damaged_samples_takes_a_hundred_lines_and_a_sum),
        cmocka_unit_test(bench_exits_1_only_when_samples_fail),
    };

    return cmocka_run_group_tests(tests, set_up, mr_run_leave_folder);
}
