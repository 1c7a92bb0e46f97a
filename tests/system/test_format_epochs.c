/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Epochs over images of every format of tests/data/formats.json. A file's bytes decide its format,
 * so all files are called .webp. Worker processes (which may be linked differently from the
 * library), packs, a cache and a tar must give the same bits as a loader in one process.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/format_corpus.h"
#include "tests/support/packs.h"
#include "tests/support/shards.h"

static char *folder;
static char files[4096];
static int64_t n_files;
static uint64_t wanted; /* the digest of an epoch over the files */

static uint64_t digest_of(const char *spec, uint32_t workers, const char *cache)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 16;
    options.num_workers = workers;
    options.cache = cache;
    mr_dataset *dataset = mr_test_dataset(spec);
    assert_int_equal(mr_dataset_n_samples(dataset), n_files);
    mr_loader *loader = mr_test_loader(dataset, "train:16", &options);
    struct mr_test_epoch epoch;
    for (uint64_t i = 0; i < (cache ? 2 : 1); i++) {
        epoch = mr_test_epoch_run(loader, 0);
        assert_int_equal(epoch.status, MR_END);
        assert_int_equal(epoch.n_failures, 0);
        assert_int_equal(epoch.n_valid, n_files);
        mr_test_epoch_free(&epoch);
    }
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return epoch.digest;
}

static int set_up(void **state)
{
    (void)state;
    size_t n;
    struct mr_format_example *examples = mr_format_corpus_load(&n);
    struct mr_test_shard shard = {0};
    char name[64];
    folder = mr_test_folder_create();
    char class[4096 + 2];
    snprintf(files, sizeof files, "%s/files", folder);
    snprintf(class, sizeof class, "%s/a", files);
    assert_true(mkdir(files, 0700) == 0 && mkdir(class, 0700) == 0);
    bool webp = strstr(mr_features(), "webp") != NULL, tiff = strstr(mr_features(), "tiff") != NULL;
    for (size_t i = 0; i < n; i++) {
        if ((!webp && strncmp(examples[i].name, "webp", 4) == 0) ||
            (!tiff && strncmp(examples[i].name, "tiff", 4) == 0))
            continue;
        snprintf(name, sizeof name, "files/a/%03zu.webp", i);
        mr_test_folder_write(folder, name, examples[i].file.bytes, examples[i].file.len);
        mr_test_shard_add(&shard, name + 8, examples[i].file.bytes, examples[i].file.len);
        n_files++;
    }
    mr_test_shard_end(&shard);
    mr_test_folder_write(folder, "t.tar", shard.bytes, shard.len);
    mr_test_shard_free(&shard);
    mr_format_corpus_free(examples, n);
    wanted = digest_of(files, MR_NO_WORKERS, NULL);
    return 0;
}

static void workers_have_every_format(void **state)
{
    (void)state;
    assert_true(digest_of(files, 2, NULL) == wanted);
}

static void a_cache_has_the_same_bits(void **state)
{
    (void)state;
    char cache[4096];
    snprintf(cache, sizeof cache, "%s/cache", folder);
    assert_int_equal(mkdir(cache, 0700), 0);
    assert_true(digest_of(files, 2, cache) == wanted);
}

static void packs_have_the_same_bits(void **state)
{
    (void)state;
    static const mr_pack_encoding encodings[] = {MR_PACK_DCT, MR_PACK_JPEG, MR_PACK_RAW};
    for (int i = 0; i < 3; i++) {
        char dir[4000], spec[4096];
        snprintf(dir, sizeof dir, "%s/pack%d", folder, i);
        snprintf(spec, sizeof spec, "pack:%s", dir);
        mr_test_packs_make(files, dir, encodings[i]);
        assert_true(digest_of(spec, 2, NULL) == wanted);
    }
}

static void a_tar_has_the_same_bits(void **state)
{
    (void)state;
    char spec[4096];
    snprintf(spec, sizeof spec, "tar:%s/t.tar?label=none", folder);
    assert_true(digest_of(spec, 2, NULL) == wanted);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(workers_have_every_format),
        cmocka_unit_test(a_cache_has_the_same_bits),
        cmocka_unit_test(packs_have_the_same_bits),
        cmocka_unit_test(a_tar_has_the_same_bits),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
