/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole epochs with a cache. The bytes are those of the files while the cache fills, when it is
 * full, when workers are killed and when two loaders share it. The oracle is the folder without a
 * cache, loaded in the caller's thread.
 */
#include <dirent.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include <millrace/cache.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/images.h"
#include "tests/support/processes.h"
#include "tests/support/assert_words.h"

enum {
    N_EPOCHS = 3,
    N_CLASSES = 3,
    N_IMAGES = 20,
    N_JPEGS = N_CLASSES * N_IMAGES - 1,
    SETTLE_MS = 70
};
/*
 * Each fifth image is progressive, and one is turned by its EXIF block; marks cannot be used for
 * these.
 */
enum { N_MARKED = N_CLASSES * N_IMAGES * 4 / 5 - 1 };

static char *work;
static char photos[600];
static char cache[600];
static uint64_t oracle[N_EPOCHS];
static mr_cache_form form = MR_CACHE_FORM_DCT;
/* lines of the log; also written by the thread that follows the cache */
static _Atomic unsigned n_lines;

static void count_line(void *user, mr_log_level level, const char *line)
{
    (void)user, (void)level, (void)line;
    n_lines++;
}

/* How many images have an entry, and how many of them are made from the cache. */
static uint64_t n_entries(void)
{
    return form == MR_CACHE_FORM_INDEX ? N_MARKED : N_JPEGS;
}

static uint64_t n_used(void)
{
    return form == MR_CACHE_FORM_INDEX ? N_MARKED - 1 : N_JPEGS;
}

static mr_loader_options make_options(uint32_t n_workers, bool with_cache)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 7;
    options.num_workers = n_workers;
    options.on_error = MR_ON_ERROR_ZERO;
    options.cache = with_cache ? cache : NULL;
    options.cache_slowdown = 100;
    options.cache_form = form;
    return options;
}

/* Epochs from first on must equal the oracle's. */
static void check_epochs(mr_loader *loader, uint64_t first, uint64_t n)
{
    for (uint64_t e = first; e < first + n; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        if (epoch.status != MR_END)
            fail_msg("%s", mr_loader_error(loader)->text);
        assert_int_equal(epoch.digest, oracle[e]);
        mr_test_epoch_free(&epoch);
    }
}

static mr_cache_report count_cache(mr_dataset *dataset)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    assert_ok(mr_cache_stat(cache, dataset, true, &report, &error), &error);
    return report;
}

static uint64_t n_filled(mr_dataset *dataset)
{
    mr_cache_report report = count_cache(dataset);
    return form == MR_CACHE_FORM_INDEX ? report.n_filled_index : report.n_filled;
}

/* Wait until all entries exist, at most 10 s: a small epoch may end while a worker still packs. */
static void await_full(mr_dataset *dataset)
{
    for (unsigned i = 0; i < 3000 && n_filled(dataset) < n_entries(); i++)
        mr_test_sleep_ms(10);
    assert_int_equal(n_filled(dataset), n_entries());
}

static int make_folder(void **state)
{
    (void)state;
    work = mr_test_folder_create();
    snprintf(photos, sizeof photos, "%s/photos", work);
    assert_int_equal(mkdir(photos, 0777), 0);
    mr_test_folder_fill(photos, N_CLASSES, N_IMAGES);
    struct mr_test_image png =
        mr_test_png(&(struct mr_test_png){.width = 50, .height = 40, .colour_type = 2});
    struct mr_test_image turned = mr_test_jpeg(
        &(struct mr_test_jpeg){.width = 70, .height = 50, .orientation = 6, .seed = 4});
    mr_test_folder_write(photos, "class_1/005.jpg", "\xff\xd8\xff damaged", 11);
    mr_test_folder_write(photos, "class_1/900.png", png.bytes, png.len);
    mr_test_folder_write(photos, "class_2/007.jpg", turned.bytes, turned.len);
    mr_test_image_free(&png);
    mr_test_image_free(&turned);
    mr_test_sleep_ms(SETTLE_MS);
    mr_loader_options options = make_options(MR_NO_WORKERS, false);
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_loader *loader = mr_test_loader(dataset, "exif+train:48", &options);
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        oracle[e] = epoch.digest;
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return 0;
}

static int new_cache(void **state)
{
    static unsigned n;
    (void)state;
    snprintf(cache, sizeof cache, "%s/cache-%u", work, n++);
    n_lines = 0;
    mr_log_set(count_line, NULL);
    return 0;
}

static int forget_cache(void **state)
{
    (void)state;
    mr_log_set(NULL, NULL);
    return 0;
}

static mr_loader_stats run_with(uint32_t n_workers, mr_start start, uint64_t n_epochs)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_loader_options options = make_options(n_workers, true);
    options.start = start;
    mr_loader *loader = mr_test_loader(dataset, "exif+train:48", &options);
    check_epochs(loader, 0, n_epochs);
    await_full(dataset);
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return stats;
}

static void bytes_are_the_files_while_it_fills_and_after(void **state)
{
    static const struct {
        uint32_t n_workers;
        mr_start start;
    } ways[] = {{MR_NO_WORKERS, MR_START_EXEC},
                {1, MR_START_EXEC},
                {8, MR_START_EXEC},
                {3, MR_START_THREAD},
                {2, MR_START_FORK}};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        new_cache(state);
        mr_loader_stats stats = run_with(ways[i].n_workers, ways[i].start, N_EPOCHS); /* fills */
        /* A worker counts an entry after it exists. */
        assert_in_range(stats.n_packed, n_entries() - 8, n_entries());
        mr_dataset *dataset = mr_test_dataset(photos);
        mr_cache_report report = count_cache(dataset);
        assert_int_equal(report.n_filled, n_entries());
        assert_int_equal(report.n_entries, n_entries()); /* each sample once */
        assert_int_equal(report.n_damaged, 0);
        stats = run_with(ways[i].n_workers, ways[i].start, N_EPOCHS); /* uses */
        assert_int_equal(stats.n_packed, 0);
        /* more if workers are an epoch ahead */
        assert_true(stats.n_cached >= N_EPOCHS * n_used());
        report = count_cache(dataset);
        assert_int_equal(report.n_entries, n_entries());
        mr_dataset_destroy(dataset);
    }
    assert_int_equal(n_lines, 0);
}

/*
 * Overwrite every JPEG with zeros, with the same size and time, so that only a cache has its
 * pixels.
 */
static void hide_files(bool hide)
{
    char path[1300], aside[1300];
    for (unsigned i = 0; i < N_CLASSES * N_IMAGES; i++) {
        struct stat st;
        if (i == 25) /* class_1/005.jpg is damaged */
            continue;
        snprintf(path, sizeof path, "%s/class_%u/%03u.jpg", photos, i / N_IMAGES, i % N_IMAGES);
        snprintf(aside, sizeof aside, "%s/aside-%u", work, i);
        if (!hide) {
            assert_int_equal(rename(aside, path), 0);
            continue;
        }
        assert_int_equal(stat(path, &st), 0);
        assert_int_equal(rename(path, aside), 0);
        int fd = open(path, O_WRONLY | O_CREAT | O_EXCL, 0666);
        assert_true(fd >= 0);
        assert_int_equal(ftruncate(fd, st.st_size), 0);
        assert_int_equal(futimens(fd, (struct timespec[2]){st.st_atim, st.st_mtim}), 0);
        close(fd);
    }
}

static void full_cache_is_read_and_files_are_not(void **state)
{
    (void)state;
    run_with(2, MR_START_EXEC, N_EPOCHS);
    hide_files(true);
    run_with(2, MR_START_EXEC, N_EPOCHS);
    run_with(MR_NO_WORKERS, MR_START_EXEC, 1);
    hide_files(false);
    mr_test_sleep_ms(SETTLE_MS);
}

#ifndef MR_TEST_TSAN
static void killed_workers_change_nothing(void **state)
{
    (void)state;
    for (unsigned round = 0; round < (form == MR_CACHE_FORM_DCT ? 4 : 2); round++) {
        mr_dataset *dataset = mr_test_dataset(photos);
        mr_loader_options options = make_options(3, true);
        mr_loader *loader = mr_test_loader(dataset, "exif+train:48", &options);
        for (uint64_t e = 0; e < N_EPOCHS; e++) {
            assert_int_equal(mr_loader_set_epoch(loader, e), MR_OK);
            mr_test_sleep_ms(3 + 2 * (long)round);
            mr_test_signal_workers(getpid(), SIGKILL);
            struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
            assert_int_equal(epoch.status, MR_END);
            assert_int_equal(epoch.digest, oracle[e]);
            mr_test_epoch_free(&epoch);
        }
        mr_loader_destroy(loader);
        mr_cache_report report = count_cache(dataset);
        assert_int_equal(report.n_damaged, 0);
        mr_dataset_destroy(dataset);
    }
    mr_dataset *dataset = mr_test_dataset(photos);
    run_with(2, MR_START_EXEC, N_EPOCHS);
    mr_cache_report report = count_cache(dataset);
    assert_int_equal(report.n_filled, n_entries());
    mr_dataset_destroy(dataset);
}
#endif

static void two_loaders_fill_one_cache(void **state)
{
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_loader_options options = make_options(2, true);
    mr_loader *a = mr_test_loader(dataset, "exif+train:48", &options);
    mr_loader *b = mr_test_loader(dataset, "exif+train:48", &options);
    (void)state;
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        check_epochs(a, e, 1);
        check_epochs(b, e, 1);
    }
    await_full(dataset);
    mr_loader_destroy(a);
    mr_loader_destroy(b);
    mr_cache_report report = count_cache(dataset);
    assert_int_equal(report.n_filled, n_entries());
    assert_int_equal(report.n_damaged, 0);
    mr_dataset_destroy(dataset);
}

static void cache_that_cannot_grow_is_logged_once_and_does_no_harm(void **state)
{
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_loader_options options = make_options(2, true);
    (void)state;
    options.cache_bytes = 50000;
    options.allow_same_epoch = true; /* otherwise its warning would be counted */
    mr_loader *loader = mr_test_loader(dataset, "exif+train:48", &options);
    check_epochs(loader, 0, N_EPOCHS);
    /* Workers continue to pack, and the host checks each second. */
    for (unsigned i = 0; i < 3000 && atomic_load(&n_lines) == 0; i++)
        mr_test_sleep_ms(10);
    check_epochs(loader, 0, 1);
    mr_loader_destroy(loader);
    mr_cache_report report = count_cache(dataset);
    assert_true(report.n_filled > 0 && report.n_filled < n_entries());
    assert_true(report.bytes < 70000);
    assert_int_equal(n_lines, 1);
    mr_dataset_destroy(dataset);
}

static void directory_that_is_not_a_cache_is_an_error_of_the_loader(void **state)
{
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_loader_options options = make_options(2, true);
    mr_loader *loader;
    mr_error error;
    (void)state;
    options.cache = photos;
    assert_error(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_INVALID, &error,
                 "is not a cache");
    options.cache = "/nowhere/at/all";
    assert_int_equal(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_IO);
    options.cache = cache;
    options.cache_slowdown = 101;
    assert_int_equal(mr_loader_create(dataset, NULL, &options, &loader, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "cache_slowdown 101 is above the limit of 100");
    mr_dataset_destroy(dataset);
}

static void records_are_loaded_without_a_cache(void **state)
{
    char spec[700];
    mr_loader_options options = make_options(1, true);
    (void)state;
    mr_test_folder_write(work, "records", "0123456789", 10);
    snprintf(spec, sizeof spec, "records:%s/records?bytes=5", work);
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader *loader = mr_test_loader(dataset, NULL, &options);
    assert_null(mr_loader_resolved(loader)->cache);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.n_valid, 2);
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    assert_int_equal(n_lines, 1);
}

/* Overwrite the second half of each file in the directory with this ending. */
static void destroy_files(const char *ending)
{
    static const uint8_t noise[65536] = {0xa5, 0x5a, 0xff, 0xd9};
    const struct dirent *entry;
    char path[900];
    DIR *listing = opendir(cache);
    assert_non_null(listing);
    while ((entry = readdir(listing))) {
        struct stat st;
        if (!strstr(entry->d_name, ending))
            continue;
        snprintf(path, sizeof path, "%s/%.64s", cache, entry->d_name);
        int fd = open(path, O_WRONLY);
        assert_true(fd >= 0 && fstat(fd, &st) == 0);
        assert_true(st.st_size / 2 <= (off_t)sizeof noise);
        assert_int_equal(pwrite(fd, noise, (size_t)(st.st_size / 2), st.st_size / 2),
                         st.st_size / 2);
        close(fd);
    }
    closedir(listing);
}

static void cache_that_is_destroyed_under_a_loader_changes_nothing(void **state)
{
    static const char *const endings[] = {".data", ".log"};
    for (unsigned i = 0; i < 2; i++) {
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        new_cache(state);
        run_with(2, MR_START_EXEC, 1);
        mr_dataset *dataset = mr_test_dataset(photos);
        mr_loader_options options = make_options(i ? MR_NO_WORKERS : 2, true);
        options.cache_bytes = 1; /* so that nothing is written again */
        mr_loader *loader = mr_test_loader(dataset, "exif+train:48", &options);
        check_epochs(loader, 0, 1);
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
        uint64_t n_before = stats.n_cached;
        destroy_files(endings[i]);
        check_epochs(loader, 1, 2);
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
        assert_true(n_before >= n_used() && stats.n_cached < 3 * n_used());
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}

static void form_is_chosen_by_the_budget_and_logged(void **state)
{
    mr_dataset *dataset = mr_test_dataset(photos);
    mr_loader_options options = make_options(2, true);
    for (unsigned i = 0; i < 2; i++) {
        new_cache(state);
        options.cache_form = MR_CACHE_FORM_AUTO;
        options.cache_bytes = i ? UINT64_C(1) << 30 : 60000;
        options.cache = cache;
        mr_loader *loader = mr_test_loader(dataset, "exif+train:48", &options);
        assert_int_equal(mr_loader_resolved(loader)->cache_form,
                         i ? MR_CACHE_FORM_DCT : MR_CACHE_FORM_INDEX);
        assert_int_equal(n_lines, 1);
        check_epochs(loader, 0, 1);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
}

#define CACHE_TEST(f) cmocka_unit_test_setup_teardown(f, new_cache, forget_cache)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CACHE_TEST(bytes_are_the_files_while_it_fills_and_after),
        CACHE_TEST(full_cache_is_read_and_files_are_not),
#ifndef MR_TEST_TSAN
        CACHE_TEST(killed_workers_change_nothing),
#endif
        CACHE_TEST(two_loaders_fill_one_cache),
        CACHE_TEST(cache_that_cannot_grow_is_logged_once_and_does_no_harm),
        CACHE_TEST(directory_that_is_not_a_cache_is_an_error_of_the_loader),
        CACHE_TEST(records_are_loaded_without_a_cache),
    };
    const struct CMUnitTest index_tests[] = {
        CACHE_TEST(bytes_are_the_files_while_it_fills_and_after),
#ifndef MR_TEST_TSAN
        CACHE_TEST(killed_workers_change_nothing),
#endif
        CACHE_TEST(cache_that_is_destroyed_under_a_loader_changes_nothing),
        CACHE_TEST(form_is_chosen_by_the_budget_and_logged),
    };
    int n_failed = cmocka_run_group_tests(tests, make_folder, NULL);
    form = MR_CACHE_FORM_INDEX;
    return n_failed + cmocka_run_group_tests(index_tests, make_folder, NULL);
}
