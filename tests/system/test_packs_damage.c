/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs that are truncated or altered, in shard or index. The affected samples are damaged, named
 * and counted under the chosen policy. All other samples have their bytes, and nothing crashes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/rng.h"
#include "dataset/pack_format.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/folder_fill.h"
#include "tests/support/killer.h"
#include "tests/support/packs.h"

enum { N_CLASSES = 2, N_IMAGES = 16, N = N_CLASSES * N_IMAGES, PATH = 600 };

/* One folder of good photographs for all tests, and a new pack of it for each test. */
static char *work;
static char folder[PATH];
static char pack[PATH];
static char spec[PATH + 8];

static mr_loader_options plain(uint32_t workers, mr_on_error policy)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 4;
    o.no_shuffle = true;
    o.num_workers = workers;
    o.on_error = policy;
    return o;
}

static struct mr_test_epoch run_folder(const char *transform)
{
    mr_dataset *dataset = mr_test_dataset(folder);
    mr_loader_options o = plain(MR_NO_WORKERS, MR_ON_ERROR_FAIL);
    mr_loader *loader = mr_test_loader(dataset, transform, &o);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    assert_int_equal(epoch.status, MR_END);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    return epoch;
}

/* Ways to read a pack. */
static const struct way {
    uint32_t workers;
    mr_reader_kind reader;
} ways[] = {{MR_NO_WORKERS, MR_READER_PREAD},
            {MR_NO_WORKERS, MR_READER_AUTO},
            {2, MR_READER_PREAD},
            {2, MR_READER_AUTO}};
enum { N_WAYS = sizeof ways / sizeof *ways };

/*
 * Run one epoch with zeros for damaged samples. Exactly the samples in is_bad must be damaged, with
 * these words, and all others must equal the folder's. words NULL: any.
 */
static void check_bad(mr_dataset *dataset, mr_loader_options o, const char *transform,
                      const bool is_bad[N], const char *words)
{
    struct mr_test_epoch expected = run_folder(transform);
    mr_loader *loader = mr_test_loader(dataset, transform, &o);
    struct mr_test_epoch got = mr_test_epoch_run(loader, 0);
    uint64_t n_bad = 0;
    mr_error error;
    assert_int_equal(got.status, MR_END);
    assert_int_equal(got.n_samples, N);
    for (int64_t i = 0; i < N; i++) {
        if (!is_bad[i] && got.row_digests[i] != expected.row_digests[i])
            fail_msg("index %lld differs from its file", (long long)i);
        if (!is_bad[i])
            continue;
        assert_int_equal(mr_loader_damaged(loader, n_bad++, &error), MR_OK);
        assert_int_equal(error.index, i);
        char name[64];
        snprintf(name, sizeof name, "class_%lld/%03lld.jpg", (long long)i / N_IMAGES,
                 (long long)i % N_IMAGES);
        if (!strstr(error.text, name) || !strstr(error.text, "shard-00000") ||
            (words && !strstr(error.text, words)))
            fail_msg("'%s' lacks %s, the shard or '%s'", error.text, name, words ? words : "");
    }
    assert_int_equal(mr_loader_damaged(loader, n_bad, &error), MR_END);
    assert_int_equal(got.n_valid, N - n_bad);
    mr_test_epoch_free(&expected);
    mr_test_epoch_free(&got);
    mr_loader_destroy(loader);
}

static void check_bad_all_ways(mr_dataset *dataset, bool verify, const bool is_bad[N],
                               const char *words)
{
    for (int i = 0; i < N_WAYS; i++) {
        mr_loader_options o = plain(ways[i].workers, MR_ON_ERROR_ZERO);
        o.reader = ways[i].reader;
        o.verify_packs = verify;
        check_bad(dataset, o, "resize(32:32)", is_bad, words);
    }
}

static void truncated_shard_damages_the_samples_after_the_cut(void **state)
{
    (void)state;
    bool is_bad[N] = {0};
    char path[2 * PATH];
    mr_dataset *dataset = mr_test_dataset(spec);
    struct mr_test_packs_place place = mr_test_packs_find(pack, 20);
    snprintf(path, sizeof path, "%s/%s", pack, place.shard);
    assert_int_equal(truncate(path, (off_t)(place.offset + place.len / 2)), 0);
    for (int i = 20; i < N; i++)
        is_bad[i] = true;
    check_bad_all_ways(dataset, false, is_bad, NULL);
    check_bad_all_ways(dataset, true, is_bad, NULL);
    mr_dataset_destroy(dataset);
    mr_error error;
    assert_int_not_equal(mr_dataset_open(spec, NULL, &dataset, &error), MR_OK);
    if (!strstr(error.text, "shard-00000"))
        fail_msg("'%s' does not name the shard", error.text);
}

/* A crop that ends before the cut is complete. */
static void crop_above_the_cut_is_not_damaged(void **state)
{
    (void)state;
    bool is_bad[N] = {0};
    char path[2 * PATH];
    mr_dataset *dataset = mr_test_dataset(spec);
    struct mr_test_packs_place place = mr_test_packs_find(pack, N - 1);
    snprintf(path, sizeof path, "%s/%s", pack, place.shard);
    assert_int_equal(truncate(path, (off_t)(place.offset + place.len - 1)), 0);
    mr_loader_options o = plain(MR_NO_WORKERS, MR_ON_ERROR_ZERO);
    check_bad(dataset, o, "center_crop(8)", is_bad, NULL);
    is_bad[N - 1] = true;
    check_bad(dataset, o, "resize(32:32)", is_bad, NULL);
    mr_dataset_destroy(dataset);
}

static void every_flipped_byte_is_found_by_verifying(void **state)
{
    (void)state;
    bool is_bad[N] = {0};
    struct mr_rng rng;
    mr_rng_init(&rng, 5, 0, 0);
    for (int i = 1; i < N; i += 3) {
        is_bad[i] = true;
        mr_test_packs_flip(pack, i, mr_rng_below(&rng, (uint32_t)mr_test_packs_find(pack, i).len));
    }
    mr_dataset *dataset = mr_test_dataset(spec);
    check_bad_all_ways(dataset, true, is_bad, "checksum");
    mr_dataset_destroy(dataset);
}

/*
 * Each worker opens a shard when it needs it. A missing file of a folder is handled in the same
 * way.
 */
static void missing_shard_damages_its_samples(void **state)
{
    (void)state;
    bool is_bad[N];
    char path[2 * PATH];
    memset(is_bad, 1, sizeof is_bad);
    mr_dataset *dataset = mr_test_dataset(spec);
    snprintf(path, sizeof path, "%s/%s", pack, mr_test_packs_find(pack, 0).shard);
    assert_int_equal(unlink(path), 0);
    check_bad_all_ways(dataset, false, is_bad, "No such file");
    mr_dataset_destroy(dataset);
}

/*
 * Each row that a crop reads is compared with its checksum, so an altered sample has its own pixels
 * or is damaged.
 */
static void flipped_bytes_never_make_other_pixels(void **state)
{
    (void)state;
    struct mr_rng rng;
    struct mr_test_epoch expected = run_folder("train:40");
    mr_rng_init(&rng, 6, 0, 0);
    for (int round = 0; round < 12; round++) {
        for (int i = 0; i < N; i += 2)
            mr_test_packs_flip(pack, i,
                               mr_rng_below(&rng, (uint32_t)mr_test_packs_find(pack, i).len));
        mr_dataset *dataset = mr_test_dataset(spec);
        mr_loader_options o = plain(round % 2 ? 2 : MR_NO_WORKERS, MR_ON_ERROR_ZERO);
        mr_loader *loader = mr_test_loader(dataset, "train:40", &o);
        struct mr_test_epoch got = mr_test_epoch_run(loader, 0);
        assert_int_equal(got.status, MR_END);
        assert_int_equal(got.n_samples, N);
        uint64_t n_different = 0;
        for (int i = 0; i < N; i++) {
            bool same = got.row_digests[i] == expected.row_digests[i];
            assert_true(same || i % 2 == 0);
            n_different += !same;
        }
        assert_int_equal(n_different, got.n_samples - got.n_valid);
        assert_true(n_different > 0);
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        mr_loader_get_stats(loader, &stats);
        assert_int_equal(stats.n_deaths, 0);
        mr_test_epoch_free(&got);
        mr_loader_destroy(loader);
        mr_dataset_destroy(dataset);
    }
    mr_test_epoch_free(&expected);
}

/* Invalid entries of an index that has a correct checksum. */

static struct mr_pack_sample *sample_at(uint8_t *index, int64_t i)
{
    const struct mr_pack_header *header = (const void *)index;
    return (struct mr_pack_sample *)(void *)(index + header->sections[MR_PACK_SAMPLES].off) + i;
}

static void set_width(uint8_t *index, int64_t i)
{
    sample_at(index, i)->width += 4096;
}

static void set_rows(uint8_t *index, int64_t i)
{
    sample_at(index, i)->rows = UINT64_MAX / 2;
}

static void set_n_rows(uint8_t *index, int64_t i)
{
    sample_at(index, i)->n_rows = 1;
}

static void set_template(uint8_t *index, int64_t i)
{
    sample_at(index, i)->template = 9999;
}

static void set_encoding(uint8_t *index, int64_t i)
{
    sample_at(index, i)->encoding = 77;
}

static void set_len(uint8_t *index, int64_t i)
{
    sample_at(index, i)->len = UINT64_MAX / 2;
}

static void set_offset(uint8_t *index, int64_t i)
{
    sample_at(index, i)->offset = UINT64_MAX - 7;
}

static void set_shard(uint8_t *index, int64_t i)
{
    sample_at(index, i)->shard = 1234;
}

static void set_huge(uint8_t *index, int64_t i)
{
    sample_at(index, i)->width = sample_at(index, i)->height = UINT32_MAX;
}

static void (*const edits[])(uint8_t *, int64_t) = {set_width,    set_rows,     set_n_rows,
                                                    set_template, set_encoding, set_len,
                                                    set_offset,   set_shard,    set_huge};
enum { N_EDITS = sizeof edits / sizeof *edits };

/* Make every third sample invalid. If its entry names a missing shard, so does the error. */
static void edit_index(bool is_bad_out[N])
{
    memset(is_bad_out, 0, N * sizeof *is_bad_out);
    for (int i = 0; i < N_EDITS; i++) {
        mr_test_packs_edit(pack, edits[i], 3 * i + 1);
        is_bad_out[3 * i + 1] = true;
    }
}

static void invalid_entry_is_damage(void **state)
{
    (void)state;
    bool is_bad[N];
    edit_index(is_bad);
    mr_dataset *dataset = mr_test_dataset(spec);
    struct mr_test_epoch expected = run_folder("train:40");
    for (int i = 0; i < 2 * N_WAYS; i++) {
        mr_loader_options o = plain(ways[i / 2].workers, MR_ON_ERROR_ZERO);
        o.reader = ways[i / 2].reader;
        o.verify_packs = i % 2;
        mr_loader *loader = mr_test_loader(dataset, "train:40", &o);
        struct mr_test_epoch got = mr_test_epoch_run(loader, 0);
        assert_int_equal(got.status, MR_END);
        assert_int_equal(got.n_valid, N - N_EDITS);
        for (int k = 0; k < N; k++)
            if (!is_bad[k] && got.row_digests[k] != expected.row_digests[k])
                fail_msg("index %d differs from its file", k);
        for (int k = 0; k < N_EDITS; k++) {
            mr_error error;
            char which[32];
            assert_int_equal(mr_loader_damaged(loader, (uint64_t)k, &error), MR_OK);
            assert_int_equal(error.index, 3 * k + 1);
            snprintf(which, sizeof which, "index %d)", 3 * k + 1);
            if (!strstr(error.text, which))
                fail_msg("'%s' does not name the sample", error.text);
        }
        mr_test_epoch_free(&got);
        mr_loader_destroy(loader);
    }
    mr_test_epoch_free(&expected);
    mr_dataset_destroy(dataset);
}

static void bad_entry_is_replaced_under_the_policy_skip(void **state)
{
    (void)state;
    bool is_bad[N];
    edit_index(is_bad);
    mr_dataset *dataset = mr_test_dataset(spec);
    for (int i = 0; i < N_WAYS; i++) {
        mr_loader_options o = plain(ways[i].workers, MR_ON_ERROR_SKIP);
        o.reader = ways[i].reader;
        mr_loader *loader = mr_test_loader(dataset, "train:40", &o);
        struct mr_test_epoch got = mr_test_epoch_run(loader, 0);
        assert_int_equal(got.status, MR_END);
        assert_int_equal(got.n_valid, N);
        for (int k = 0; k < N; k++)
            assert_int_equal(got.indices[k], is_bad[k] ? k + 1 : k);
        mr_test_epoch_free(&got);
        mr_loader_destroy(loader);
    }
    mr_loader_options o = plain(2, MR_ON_ERROR_FAIL);
    mr_loader *loader = mr_test_loader(dataset, "train:40", &o);
    struct mr_test_epoch got = mr_test_epoch_run(loader, 0);
    assert_int_equal(got.status, MR_END);
    assert_int_equal(got.first_error.index, 1);
    mr_test_epoch_free(&got);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
}

/* The limit applies to the whole sample in the pack, for any crop. */
static void limits_hold_for_the_whole_sample(void **state)
{
    (void)state;
    uint64_t limit = mr_test_packs_find(pack, 7).len;
    bool is_bad[N];
    for (int i = 0; i < N; i++)
        is_bad[i] = mr_test_packs_find(pack, i).len > limit;
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = plain(MR_NO_WORKERS, MR_ON_ERROR_ZERO);
    o.max_file_bytes = limit;
    check_bad(dataset, o, "center_crop(8)", is_bad, "above the limit of");
    check_bad(dataset, o, "resize(32:32)", is_bad, "above the limit of");
    o.verify_packs = true;
    check_bad(dataset, o, "center_crop(8)", is_bad, "above the limit of");
    memset(is_bad, 1, sizeof is_bad);
    o = plain(MR_NO_WORKERS, MR_ON_ERROR_ZERO);
    o.max_pixels = 100;
    check_bad(dataset, o, "center_crop(8)", is_bad, "100");
    mr_dataset_destroy(dataset);
}

static void kills_change_no_byte(void **state)
{
    (void)state;
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = plain(3, MR_ON_ERROR_FAIL);
    struct mr_test_epoch expected = run_folder("train:224");
    mr_loader *loader = mr_test_loader(dataset, "train:224", &o);
    struct mr_test_killer *killer = mr_test_killer_start(loader, SIGKILL);
    while (mr_test_killer_n_kills(killer) < 30) {
        struct mr_test_epoch got = mr_test_epoch_run(loader, 0);
        if (got.status != MR_END || got.n_failures > 0)
            fail_msg("%s", got.n_failures ? got.first_error.text : mr_loader_error(loader)->text);
        assert_true(got.digest == expected.digest);
        mr_test_epoch_free(&got);
    }
    mr_test_killer_stop(killer);
    mr_loader_destroy(loader);
    mr_dataset_destroy(dataset);
    mr_test_epoch_free(&expected);
    assert_int_equal(mr_test_count_workers(getpid()), 0);
}

static int make_pack(void **state)
{
    (void)state;
    snprintf(pack, sizeof pack, "%s/pack", work);
    snprintf(spec, sizeof spec, "pack:%s", pack);
    mr_test_packs_make(folder, pack, MR_PACK_DCT);
    return 0;
}

static int remove_pack(void **state)
{
    (void)state;
    char *path = strdup(pack);
    if (path)
        mr_test_folder_remove(path);
    return path ? 0 : -1;
}

static int make_folder(void **state)
{
    (void)state;
    work = mr_test_folder_create();
    snprintf(folder, sizeof folder, "%s/folder", work);
    assert_int_equal(mkdir(folder, 0777), 0);
    mr_test_folder_fill(folder, N_CLASSES, N_IMAGES);
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    mr_test_folder_remove(work);
    return 0;
}

#define WITH_PACK(test) cmocka_unit_test_setup_teardown(test, make_pack, remove_pack)

int main(void)
{
    const struct CMUnitTest tests[] = {
        WITH_PACK(truncated_shard_damages_the_samples_after_the_cut),
        WITH_PACK(crop_above_the_cut_is_not_damaged),
        WITH_PACK(every_flipped_byte_is_found_by_verifying),
        WITH_PACK(missing_shard_damages_its_samples),
        WITH_PACK(flipped_bytes_never_make_other_pixels),
        WITH_PACK(invalid_entry_is_damage),
        WITH_PACK(bad_entry_is_replaced_under_the_policy_skip),
        WITH_PACK(limits_hold_for_the_whole_sample),
        WITH_PACK(kills_change_no_byte),
    };
    return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
