/* SPDX-License-Identifier: Apache-2.0 */
/*
 * For each sample its parts are looked up once, and each of its files is opened once at most,
 * wherever the sample is: in a folder, in a pack with or without marks, in a cache of either form.
 * An entry of the cache that crashes a worker is used once. The linker redirects the calls
 * (--wrap).
 */
#include "tests/loader/rig.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/packed_image.h"
#include "base/regular_file.h"
#include "cache/cache_log.h"
#include "dataset/catalog.h"
#include "loader/workers/worker_cache.h"
#include "tests/support/assert_words.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"

#include <millrace/pack.h>

enum { N = 128, BATCH = 8, N_SLOTS = 3 };

/* A forked worker dies when it is about to use this sample's entry in the cache; -1: none. */
static int64_t deadly_index = -1;
static pid_t parent;

/* Calls since the beginning of a run. All workers are threads. */
static struct {
    _Atomic unsigned parts, packed, paths, opens, records;
} calls;

void __real_mr_catalog_parts(const struct mr_catalog *catalog, int64_t index, uint64_t max_bytes,
                             struct mr_part_list *list_out);
mr_status __real_mr_catalog_packed(const struct mr_catalog *catalog, int64_t index,
                                   struct mr_packed_image *image_out, mr_error *error);
int __real_mr_catalog_path(const struct mr_catalog *catalog, uint64_t file,
                           char path_out[MR_CATALOG_PATH]);
int __real_mr_regular_file_open(int folder, const char *name, int flags, struct stat *st_out);
bool __real_mr_cache_log_read(int log, uint64_t at, uint32_t kind, uint8_t *buffer);
bool __real_mr_worker_cache_check(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                                  const struct mr_read *read);
bool __wrap_mr_worker_cache_check(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                                  const struct mr_read *read);
void __wrap_mr_catalog_parts(const struct mr_catalog *catalog, int64_t index, uint64_t max_bytes,
                             struct mr_part_list *list_out);
mr_status __wrap_mr_catalog_packed(const struct mr_catalog *catalog, int64_t index,
                                   struct mr_packed_image *image_out, mr_error *error);
int __wrap_mr_catalog_path(const struct mr_catalog *catalog, uint64_t file,
                           char path_out[MR_CATALOG_PATH]);
int __wrap_mr_regular_file_open(int folder, const char *name, int flags, struct stat *st_out);
bool __wrap_mr_cache_log_read(int log, uint64_t at, uint32_t kind, uint8_t *buffer);

void __wrap_mr_catalog_parts(const struct mr_catalog *catalog, int64_t index, uint64_t max_bytes,
                             struct mr_part_list *list_out)
{
    calls.parts++;
    __real_mr_catalog_parts(catalog, index, max_bytes, list_out);
}

mr_status __wrap_mr_catalog_packed(const struct mr_catalog *catalog, int64_t index,
                                   struct mr_packed_image *image_out, mr_error *error)
{
    calls.packed++;
    return __real_mr_catalog_packed(catalog, index, image_out, error);
}

int __wrap_mr_catalog_path(const struct mr_catalog *catalog, uint64_t file,
                           char path_out[MR_CATALOG_PATH])
{
    calls.paths++;
    return __real_mr_catalog_path(catalog, file, path_out);
}

int __wrap_mr_regular_file_open(int folder, const char *name, int flags, struct stat *st_out)
{
    calls.opens++;
    return __real_mr_regular_file_open(folder, name, flags, st_out);
}

bool __wrap_mr_cache_log_read(int log, uint64_t at, uint32_t kind, uint8_t *buffer)
{
    calls.records++;
    return __real_mr_cache_log_read(log, at, kind, buffer);
}

bool __wrap_mr_worker_cache_check(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                                  const struct mr_read *read)
{
    if (job->index == deadly_index && getpid() != parent)
        raise(SIGSEGV);
    return __real_mr_worker_cache_check(cache, job, read);
}

static char *make_folder(void)
{
    char *folder = mr_test_folder_create(), path[256];
    snprintf(path, sizeof path, "%s/class", folder);
    assert_int_equal(mkdir(path, 0777), 0);
    for (unsigned i = 0; i < N; i++) {
        char name[32];
        struct mr_test_image image =
            mr_test_jpeg(&(struct mr_test_jpeg){.width = 320, .height = 240, .seed = i + 1});
        snprintf(name, sizeof name, "class/%03u.jpg", i);
        mr_test_folder_write(folder, name, image.bytes, image.len);
        mr_test_image_free(&image);
    }
    return folder;
}

static mr_loader_options make_options(mr_reader_kind reader)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.start = MR_START_THREAD;
    options.num_workers = 2;
    options.batch_size = BATCH;
    options.n_slots = N_SLOTS;
    options.reader = reader;
    return options;
}

/* Load an epoch of small crops. Returns how many samples came from the cache. */
static uint64_t run(mr_dataset *dataset, const mr_loader_options *options)
{
    mr_transform *transform;
    mr_loader *loader;
    mr_batch *batch;
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    mr_error error;
    unsigned n = 0;
    assert_ok(mr_transform_parse("random_crop(32)", &transform, &error), &error);
    memset(&calls, 0, sizeof calls);
    assert_ok(mr_loader_create(dataset, transform, options, &loader, &error), &error);
    for (; mr_loader_next(loader, MR_FOREVER, &batch) == MR_OK; n++)
        mr_batch_release(batch);
    assert_int_equal(n, N / BATCH);
    mr_loader_get_stats(loader, &stats);
    mr_loader_destroy(loader);
    mr_transform_destroy(transform);
    return stats.n_cached;
}

static mr_dataset *open_dataset(const char *kind, const char *path)
{
    char spec[300];
    mr_dataset *dataset;
    mr_error error;
    snprintf(spec, sizeof spec, "%s:%s", kind, path);
    assert_ok(mr_dataset_open(spec, NULL, &dataset, &error), &error);
    return dataset;
}

/*
 * Once for each sample of the epoch and for some of the next one. When the consumer waits, two
 * workers may read the same sample.
 */
static void expect_once(const char *what, unsigned n_calls)
{
    if (n_calls < N || n_calls > N + N / 2)
        fail_msg("%s: %u times for %d samples", what, n_calls, N);
}

static void expect_few(const char *what, unsigned n_calls)
{
    if (n_calls > N / 4)
        fail_msg("%s: %u times for all samples", what, n_calls);
}

static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};

static void files_of_a_folder_are_opened_once(void **state)
{
    (void)state;
    char *folder = make_folder();
    mr_dataset *dataset = open_dataset("imagefolder", folder);
    for (unsigned i = 0; i < 2; i++) {
        mr_loader_options options = make_options(readers[i]);
        run(dataset, &options);
        expect_once("parts of a file", calls.parts);
        expect_once("path of a file", calls.paths);
        if (readers[i] == MR_READER_PREAD)
            expect_once("file", calls.opens);
    }
    mr_dataset_destroy(dataset);
    mr_test_folder_remove(folder);
}

static void samples_of_a_pack_are_looked_up_once(void **state)
{
    (void)state;
    static const mr_pack_encoding encodings[] = {MR_PACK_DCT, MR_PACK_JPEG};
    char *folder = make_folder(), *packs = mr_test_folder_create();
    mr_dataset *dataset = open_dataset("imagefolder", folder);
    for (unsigned i = 0; i < 4; i++) {
        mr_pack_options how = MR_PACK_OPTIONS_INIT;
        char path[256];
        mr_error error;
        how.encoding = encodings[i / 2];
        snprintf(path, sizeof path, "%s/%u", packs, i);
        assert_ok(mr_dataset_pack(dataset, path, &how, NULL, &error), &error);
        mr_dataset *pack = open_dataset("pack", path);
        mr_loader_options options = make_options(readers[i % 2]);
        run(pack, &options);
        expect_once("parts in a pack", calls.parts);
        expect_once("entry of a pack's index", calls.packed);
        expect_few("file of a pack", calls.opens);
        mr_dataset_destroy(pack);
    }
    mr_dataset_destroy(dataset);
    mr_test_folder_remove(folder);
    mr_test_folder_remove(packs);
}

static void samples_of_a_cache_are_looked_up_once(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    char *folder = make_folder(), *caches = mr_test_folder_create();
    mr_dataset *dataset = open_dataset("imagefolder", folder);
    sleep(1); /* files that have just been written are not cached */
    for (unsigned i = 0; i < 4; i++) {
        char path[256];
        mr_loader_options options = make_options(readers[i % 2]);
        unsigned n_tries = 0;
        snprintf(path, sizeof path, "%s/%u", caches, i);
        options.cache = path;
        options.cache_form = forms[i / 2];
        options.cache_slowdown = 100;
        while (run(dataset, &options) < N)
            assert_in_range(++n_tries, 1, 200);
        assert_true(run(dataset, &options) >= N);
        expect_once("parts in a cache", calls.parts);
        /* and the templates */
        expect_once("record of a cache", calls.records);
        if (forms[i / 2] == MR_CACHE_FORM_DCT)
            expect_few("file of a cache", calls.opens);
        else if (readers[i % 2] == MR_READER_PREAD)
            expect_once("file and few of the cache", calls.opens);
    }
    mr_dataset_destroy(dataset);
    mr_test_folder_remove(folder);
    mr_test_folder_remove(caches);
}

/* The entry was read ahead, before the worker knew that it had crashed another one. */
static void a_sample_that_crashed_a_worker_is_made_from_its_file(void **state)
{
    (void)state;
    static const mr_cache_form forms[] = {MR_CACHE_FORM_DCT, MR_CACHE_FORM_INDEX};
    char *folder = make_folder(), *caches = mr_test_folder_create();
    mr_dataset *dataset = open_dataset("imagefolder", folder);
    parent = getpid();
    sleep(1); /* files that have just been written are not cached */
    for (unsigned i = 0; i < 2; i++) {
        char path[256];
        mr_loader_options options = make_options(MR_READER_AUTO);
        unsigned n_tries = 0;
        snprintf(path, sizeof path, "%s/%u", caches, i);
        options.cache = path;
        options.cache_form = forms[i];
        options.cache_slowdown = 100;
        while (run(dataset, &options) < N)
            assert_in_range(++n_tries, 1, 200);
        options.start = MR_START_FORK;
        deadly_index = 40;
        assert_true(run(dataset, &options) > 0); /* each batch arrives, so no sample is damaged */
        deadly_index = -1;
    }
    mr_dataset_destroy(dataset);
    mr_test_folder_remove(folder);
    mr_test_folder_remove(caches);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_of_a_folder_are_opened_once),
        cmocka_unit_test(samples_of_a_pack_are_looked_up_once),
        cmocka_unit_test(samples_of_a_cache_are_looked_up_once),
        cmocka_unit_test(a_sample_that_crashed_a_worker_is_made_from_its_file),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
