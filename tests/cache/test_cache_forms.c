/* SPDX-License-Identifier: Apache-2.0 */
/* The forms of a cache: which form a run chooses, and two forms in one directory. */
#include <malloc.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <millrace/cache.h>

#include "cache/cache_form.h"
#include "cache/cache_key.h"
#include "tests/cache/cache_pixels.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

enum { N = 10, N_MARKED = 8 };

static unsigned n_lines;
static char last_line[1200];

static void store_line(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level;
    n_lines++;
    snprintf(last_line, sizeof last_line, "%s", line);
}

static int set_up(void **state)
{
    struct cache_rig *rig = calloc(1, sizeof *rig);
    cache_rig_set_up(rig, N);
    n_lines = 0;
    mr_log_set(store_line, NULL);
    *state = rig;
    return 0;
}

static int tear_down(void **state)
{
    cache_rig_tear_down(*state);
    mr_log_set(NULL, NULL);
    free(*state);
    return 0;
}

static void fill_with(struct cache_rig *rig, uint32_t encoding)
{
    struct cache_run run;
    rig->encoding = encoding;
    cache_run_begin(&run, rig, NULL);
    assert_int_equal(cache_run_fill_all(&run), rig->n);
    assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig));
    cache_run_end(&run);
}

/* The form that a run chooses with this budget. Its log line must contain words. */
static uint32_t choose_form(struct cache_rig *rig, uint64_t budget, const char *words)
{
    struct cache_run run;
    struct mr_cache_host_options options = cache_rig_options(rig);
    options.encoding = 0;
    options.budget_bytes = budget;
    n_lines = 0;
    cache_run_begin(&run, rig, &options);
    uint32_t encoding = run.region->encoding;
    cache_run_end(&run);
    assert_int_equal(n_lines, 1);
    assert_words(last_line, words);
    return encoding;
}

static uint64_t count_file_bytes(const struct cache_rig *rig)
{
    struct mr_cache_version version;
    uint64_t bytes = 0;
    for (int64_t i = 0; i < rig->n; i++) {
        assert_int_equal(mr_cache_key_stat(rig->catalog, i, &version), 0);
        bytes += version.file_bytes;
    }
    return bytes;
}

static void budget_chooses_the_form(void **state)
{
    struct cache_rig *rig = *state;
    char words[100];
    uint64_t need = mr_cache_form_estimate(rig->catalog);
    assert_in_range(need, count_file_bytes(rig) * 140 / 100 - 1,
                    count_file_bytes(rig) * 140 / 100 + 1);
    snprintf(
        words, sizeof words,
        "of form dct: coefficients of this dataset need about %llu bytes, and cache_bytes is %llu",
        (unsigned long long)need, (unsigned long long)need);
    assert_int_equal(choose_form(rig, need, words), MR_PACKED_DCT);
    assert_int_equal(choose_form(rig, need - 1, "of form index: coefficients of this dataset need"),
                     MR_PACKED_MARKED);
    assert_int_equal(choose_form(rig, 0, "and the disk has room for"), MR_PACKED_DCT);
}

/* More files than the estimate reads, but less than twice as many. The last ones are large. */
static void estimate_reads_files_of_all_parts(void **state)
{
    enum { N_FILES = 240, LARGE = 3000 };
    static const uint8_t bytes[LARGE];
    struct cache_rig *rig = *state;
    char name[40];
    for (unsigned i = 0; i < N_FILES; i++) {
        snprintf(name, sizeof name, "class_0/%03u.jpg", i);
        mr_test_folder_write(rig->photos, name, bytes, i < N_FILES / 2 ? 1 : LARGE);
    }
    cache_rig_reopen(rig);
    assert_int_equal(rig->n, N_FILES);
    uint64_t is = mr_cache_form_estimate(rig->catalog), right = count_file_bytes(rig) * 140 / 100;
    assert_in_range(is, right * 95 / 100, right * 105 / 100);
}

static struct cache_rig *limitless;

static int choose_without_a_limit(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", limitless->dir, "tmpfs", 0, "size=0") != 0)
        return 77; /* only root may */
    return choose_form(limitless, 0, "the disk has room for 18446744073709551615") == MR_PACKED_DCT
               ? 0
               : 1;
}

static void file_system_without_a_limit_has_space(void **state)
{
    limitless = *state;
    assert_int_equal(mkdir(limitless->dir, 0777), 0);
    int rc = mr_test_in_child(choose_without_a_limit);
    if (rc == 77)
        skip();
    assert_int_equal(rc, 0);
}

/* A run that first reads entries of the other form finds all entries too. */
static void existing_entries_choose_the_form(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    struct mr_cache_host_options options = cache_rig_options(rig);
    fill_with(rig, MR_PACKED_MARKED);
    assert_int_equal(choose_form(rig, 0, "of form index: it holds 8 samples of this dataset"),
                     MR_PACKED_MARKED);
    options.encoding = 0;
    cache_run_begin(&run, rig, &options);
    assert_int_equal(cache_run_count(&run), N_MARKED);
    assert_int_equal(cache_run_fill_all(&run), 0);
    cache_pixels_compare(&run);
    cache_run_end(&run);
    fill_with(rig, MR_PACKED_DCT);
    assert_int_equal(choose_form(rig, 1, "of form dct: it holds 10 samples of this dataset"),
                     MR_PACKED_DCT);
}

static void choice_without_the_decoder_is_dct(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    struct mr_cache_host *host;
    struct mr_cache_host_options options = cache_rig_options(rig);
    mr_error error;
    options.encoding = 0;
    options.budget_bytes = 1;
    options.stock_jpeg = true;
    cache_run_begin(&run, rig, &options);
    assert_int_equal(run.region->encoding, MR_PACKED_DCT);
    assert_words(last_line, "of form dct: an index of JPEG files needs millrace's own decoder");
    options.encoding = MR_PACKED_MARKED;
    assert_int_equal(mr_cache_host_create(&options, rig->catalog, run.region, &host, &error),
                     MR_ERR_UNSUPPORTED);
    assert_null(host);
    cache_run_end(&run);
}

static void two_forms_share_one_directory(void **state)
{
    struct cache_rig *rig = *state;
    struct cache_run run;
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    fill_with(rig, MR_PACKED_MARKED);
    fill_with(rig, MR_PACKED_DCT);
    for (unsigned i = 0; i < 2; i++) {
        rig->encoding = i ? MR_PACKED_DCT : MR_PACKED_MARKED;
        cache_run_begin(&run, rig, NULL);
        assert_int_equal(cache_run_fill_all(&run), 0);
        assert_int_equal(cache_run_count(&run), cache_rig_n_fit(rig));
        cache_pixels_compare(&run);
        cache_run_end(&run);
    }
    assert_int_equal(mr_cache_stat(rig->dir, rig->dataset, true, &report, NULL), MR_OK);
    assert_int_equal(report.n_entries, N + N_MARKED);
    assert_int_equal(report.n_index, N_MARKED);
    assert_int_equal(report.n_as_files, N - N_MARKED);
    assert_int_equal(report.n_filled, N);
    assert_int_equal(report.n_filled_index, N_MARKED);
    assert_int_equal(report.n_filled_as_files, 0); /* files without marks are packed */
    assert_true(report.index_bytes > 0 && report.index_bytes < report.packed_bytes);
    assert_true(report.index_bytes + report.packed_bytes < report.bytes);
    cache_rig_change(rig, "class_0/003.jpg", 777);
    assert_int_equal(mr_cache_stat(rig->dir, rig->dataset, true, &report, NULL), MR_OK);
    assert_int_equal(report.n_filled, N - 1);
    assert_int_equal(report.n_filled_index, N_MARKED - 1);
    assert_int_equal(report.n_filled_stale, 1);
}

/* A progressive file cannot have marks. Allocations of this size are separate mappings. */
static void large_file_without_marks_leaves_no_buffer(void **state)
{
    enum { LARGE = 40 << 20 };
    struct cache_rig *rig = *state;
    struct cache_run run;
    char path[700];
    snprintf(path, sizeof path, "%s/class_0/004.jpg", rig->photos);
    assert_int_equal(truncate(path, LARGE), 0);
    rig->encoding = MR_PACKED_MARKED;
    cache_rig_reopen(rig);
    cache_run_begin(&run, rig, NULL);
    size_t before = mallinfo2().hblkhd;
    assert_int_equal(cache_run_fill_all(&run), N);
    assert_true(mallinfo2().hblkhd < before + LARGE / 2);
    assert_int_equal(cache_run_count(&run), N_MARKED);
    cache_run_end(&run);
}

#define FORMS_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        FORMS_TEST(budget_chooses_the_form),
        FORMS_TEST(estimate_reads_files_of_all_parts),
        FORMS_TEST(file_system_without_a_limit_has_space),
        FORMS_TEST(existing_entries_choose_the_form),
        FORMS_TEST(choice_without_the_decoder_is_dct),
        FORMS_TEST(two_forms_share_one_directory),
        FORMS_TEST(large_file_without_marks_leaves_no_buffer),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
