/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that change while a loader uses their indexes. The pixels must be the new file's, never
 * those of old marks on new bytes. The oracle is a loader without a cache. Files are rewritten in
 * place, with the same number of bytes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include <cmocka.h>

#include <millrace/cache.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/processes.h"
#include "tests/support/rewrite.h"

/* A worker may not yet have counted its last entry. */
enum { N = 21, BATCH = 7, SETTLE_MS = 70, OLD = 0, NEW = 1000, MAX_WORKERS = 8 };

static char *work;
static char photos[600];
static char cache[600];

/* Rewrite the files from first on as photographs of other seeds. */
static void rewrite(unsigned first, uint32_t seed, int64_t second)
{
    char path[700];
    for (unsigned i = first; i < N; i++) {
        snprintf(path, sizeof path, "%s/class_0/%03u.jpg", photos, i);
        mr_test_rewrite(path, seed + i, second);
    }
}

static int make_folder(void **state)
{
    char path[700];
    (void)state;
    work = mr_test_folder_create();
    snprintf(photos, sizeof photos, "%s/photos", work);
    snprintf(path, sizeof path, "%s/class_0", photos);
    assert_int_equal(mkdir(photos, 0777), 0);
    assert_int_equal(mkdir(path, 0777), 0);
    return 0;
}

static mr_loader *open_loader(mr_dataset *dataset, uint32_t n_workers, mr_reader_kind reader,
                              bool with_cache)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = BATCH;
    options.no_shuffle = true;
    options.num_workers = n_workers;
    options.reader = reader;
    options.cache = with_cache ? cache : NULL;
    options.cache_form = MR_CACHE_FORM_INDEX;
    options.cache_slowdown = 100;
    return mr_test_loader(dataset, "train:48", &options);
}

static struct mr_test_epoch run_plain(mr_dataset *dataset, uint64_t e)
{
    mr_loader *loader = open_loader(dataset, MR_NO_WORKERS, MR_READER_PREAD, false);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
    assert_int_equal(epoch.n_valid, N);
    mr_loader_destroy(loader);
    return epoch;
}

static void check_epoch(mr_loader *loader, mr_dataset *dataset, uint64_t e)
{
    struct mr_test_epoch is = mr_test_epoch_run(loader, e), right = run_plain(dataset, e);
    assert_int_equal(is.status, MR_END);
    assert_int_equal(is.digest, right.digest);
    mr_test_epoch_free(&is);
    mr_test_epoch_free(&right);
}

/* Wait until all files are indexed as they are now, at most 30 s. */
static void await_full(mr_dataset *dataset)
{
    mr_cache_report report = MR_CACHE_REPORT_INIT;
    mr_error error;
    for (unsigned i = 0; i < 3000 && report.n_filled_index < N; i++) {
        mr_test_sleep_ms(10);
        assert_int_equal(mr_cache_stat(cache, dataset, true, &report, &error), MR_OK);
    }
    assert_int_equal(report.n_filled_index, N);
}

static uint64_t count_cached(mr_loader *loader)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    return stats.n_cached;
}

static void files_that_change_between_epochs_give_their_new_pixels(void **state)
{
    static const struct {
        uint32_t n_workers;
        mr_reader_kind reader;
    } ways[] = {{MR_NO_WORKERS, MR_READER_PREAD},
                {1, MR_READER_AUTO},
                {8, MR_READER_PREAD},
                {8, MR_READER_AUTO}};
    (void)state;
    for (unsigned i = 0; i < sizeof ways / sizeof *ways; i++) {
        snprintf(cache, sizeof cache, "%s/cache-%u", work, i);
        rewrite(0, OLD, 10);
        mr_test_sleep_ms(SETTLE_MS);
        mr_dataset *dataset = mr_test_dataset(photos);
        mr_loader *loader = open_loader(dataset, ways[i].n_workers, ways[i].reader, true);
        check_epoch(loader, dataset, 0);
        await_full(dataset);
        uint64_t n_before = count_cached(loader);
        /* not the next one, whose first batches may be made already */
        check_epoch(loader, dataset, 5);
        assert_true(count_cached(loader) >= n_before + N - MAX_WORKERS);
        rewrite(4, NEW, 20);
        check_epoch(loader, dataset, 10);
        mr_test_sleep_ms(SETTLE_MS);
        check_epoch(loader, dataset, 20); /* adds the files that had changed too recently */
        await_full(dataset);
        n_before = count_cached(loader);
        check_epoch(loader, dataset, 30);
        assert_true(count_cached(loader) >= n_before + N - MAX_WORKERS);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
}

/* A sample that is being made while the files change is of one version, the old or the new. */
static void files_that_change_within_an_epoch_are_of_one_version(void **state)
{
    mr_batch *batch;
    (void)state;
    snprintf(cache, sizeof cache, "%s/cache", work);
    rewrite(0, NEW, 20);
    mr_dataset *dataset = mr_test_dataset(photos);
    struct mr_test_epoch new = run_plain(dataset, 3);
    rewrite(0, OLD, 10);
    struct mr_test_epoch old = run_plain(dataset, 3);
    mr_test_sleep_ms(SETTLE_MS);
    mr_loader *loader = open_loader(dataset, MR_NO_WORKERS, MR_READER_PREAD, true);
    check_epoch(loader, dataset, 0);
    await_full(dataset);
    assert_int_equal(mr_loader_set_epoch(loader, 3), MR_OK);
    assert_int_equal(mr_loader_next(loader, MR_FOREVER, &batch), MR_OK);
    mr_batch_release(batch);
    rewrite(0, NEW, 20);
    struct mr_test_epoch rest = mr_test_epoch_rest(loader);
    assert_int_equal(rest.n_valid, N - BATCH);
    for (unsigned i = 0; i < N - BATCH; i++)
        if (rest.row_digests[i] != new.row_digests[BATCH + i])
            assert_int_equal(rest.row_digests[i], old.row_digests[BATCH + i]);
    /* workers do not read that far ahead */
    assert_int_equal(rest.row_digests[N - BATCH - 1], new.row_digests[N - 1]);
    mr_test_epoch_free(&rest);
    mr_test_epoch_free(&new);
    mr_test_epoch_free(&old);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_that_change_between_epochs_give_their_new_pixels),
        cmocka_unit_test(files_that_change_within_an_epoch_are_of_one_version),
    };
    return cmocka_run_group_tests(tests, make_folder, NULL);
}
