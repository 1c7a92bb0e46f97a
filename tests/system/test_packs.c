/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A pack gives the same bytes as its folder, in every array, for every encoding and reader. The
 * oracle is the folder, loaded in the caller's thread. There are damaged files too: their errors
 * must be the same except for the name at the beginning.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/packs.h"
#include "tests/support/assert_words.h"

enum { N_EPOCHS = 2, MAX_DAMAGED = 64, PATH = 600 };

static const struct {
    const char *name;
    mr_pack_encoding encoding;
    bool no_index;
} kinds[] = {{"dct", MR_PACK_DCT, false},
             {"marked", MR_PACK_JPEG, false},
             {"jpeg", MR_PACK_JPEG, true},
             {"raw", MR_PACK_RAW, false}};
enum { N_KINDS = sizeof kinds / sizeof *kinds };

static char *work;
static char folder[PATH];
static int64_t n_files;

static mr_dataset *open_pack(int kind)
{
    char spec[2 * PATH];
    snprintf(spec, sizeof spec, "pack:%s/%s", work, kinds[kind].name);
    return mr_test_dataset(spec);
}

static void make_pack(const char *spec, const char *dir, int kind)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_pack_options options = MR_PACK_OPTIONS_INIT;
    mr_error error;
    options.encoding = kinds[kind].encoding;
    options.no_index = kinds[kind].no_index;
    options.num_workers = 2;
    assert_ok(mr_dataset_pack(dataset, dir, &options, NULL, &error), &error);
    mr_dataset_destroy(dataset);
}

/* What a loader gave: checksums, and the messages about damage. */
struct given {
    uint64_t digests[N_EPOCHS];
    uint64_t n_samples;
    uint64_t n_valid;
    uint64_t n_failures;
    uint64_t n_damaged;
    uint64_t n_warnings;
    uint64_t n_listed;
    int64_t damaged[MAX_DAMAGED];
    char words[MAX_DAMAGED][120];
};

/*
 * List the damage in the order of the indices. Without workers it is found in the order of the
 * batches, which is the same.
 */
static void list_damaged(const mr_loader *loader, struct given *given)
{
    mr_error error;
    while (given->n_listed < MAX_DAMAGED &&
           mr_loader_damaged(loader, given->n_listed, &error) == MR_OK) {
        const char *words = strstr(error.text, "): ");
        assert_non_null(words);
        snprintf(given->words[given->n_listed], sizeof given->words[0], "%s", words);
        given->damaged[given->n_listed++] = error.index;
    }
}

static void run_loader(mr_dataset *dataset, const char *transform, const mr_loader_options *options,
                       struct given *given)
{
    mr_loader_stats stats = MR_LOADER_STATS_INIT;
    memset(given, 0, sizeof *given);
    mr_loader *loader = mr_test_loader(dataset, transform, options);
    for (uint64_t e = 0; e < N_EPOCHS; e++) {
        struct mr_test_epoch epoch = mr_test_epoch_run(loader, e);
        if (epoch.status != MR_END)
            fail_msg("%s", mr_loader_error(loader)->text);
        given->digests[e] = epoch.digest;
        given->n_samples += epoch.n_samples;
        given->n_valid += epoch.n_valid;
        given->n_failures += epoch.n_failures;
        mr_test_epoch_free(&epoch);
    }
    assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
    given->n_damaged = stats.n_damaged;
    given->n_warnings = stats.n_warnings;
    list_damaged(loader, given);
    mr_loader_destroy(loader);
}

static void assert_same(const struct given *got, const struct given *expected, const char *what)
{
    for (int e = 0; e < N_EPOCHS; e++)
        if (got->digests[e] != expected->digests[e])
            fail_msg("%s: epoch %d differs", what, e);
    if (got->n_samples != expected->n_samples || got->n_valid != expected->n_valid ||
        got->n_failures != expected->n_failures || got->n_damaged != expected->n_damaged ||
        got->n_warnings != expected->n_warnings)
        fail_msg("%s: %llu samples, %llu valid, %llu failures, %llu damaged, %llu warnings; the "
                 "folder has %llu, %llu, "
                 "%llu, %llu, %llu",
                 what, (unsigned long long)got->n_samples, (unsigned long long)got->n_valid,
                 (unsigned long long)got->n_failures, (unsigned long long)got->n_damaged,
                 (unsigned long long)got->n_warnings, (unsigned long long)expected->n_samples,
                 (unsigned long long)expected->n_valid, (unsigned long long)expected->n_failures,
                 (unsigned long long)expected->n_damaged, (unsigned long long)expected->n_warnings);
    assert_int_equal(got->n_listed, expected->n_listed);
    for (uint64_t i = 0; i < got->n_listed; i++)
        if (got->damaged[i] != expected->damaged[i] ||
            strcmp(got->words[i], expected->words[i]) != 0)
            fail_msg("%s: index %lld%s instead of index %lld%s", what, (long long)got->damaged[i],
                     got->words[i], (long long)expected->damaged[i], expected->words[i]);
}

static mr_loader_options plain_options(mr_on_error policy)
{
    mr_loader_options o = MR_LOADER_OPTIONS_INIT;
    o.batch_size = 8;
    o.seed = 11;
    o.num_workers = MR_NO_WORKERS;
    o.reader = MR_READER_PREAD;
    o.on_error = policy;
    return o;
}

static void run_folder(const char *spec, const char *transform, mr_on_error policy,
                       struct given *given)
{
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_loader_options o = plain_options(policy);
    run_loader(dataset, transform, &o, given);
    mr_dataset_destroy(dataset);
}

static void check_transform(const char *transform, mr_on_error policy)
{
    struct given expected, got;
    run_folder(folder, transform, policy, &expected);
    assert_true(expected.n_damaged > 0);
    assert_true(expected.n_valid > 0 || policy == MR_ON_ERROR_FAIL);
    for (int k = 0; k < N_KINDS; k++) {
        char what[160];
        mr_loader_options o = plain_options(policy);
        mr_dataset *dataset = open_pack(k);
        assert_int_equal(mr_dataset_n_samples(dataset), n_files);
        snprintf(what, sizeof what, "%s, %s", kinds[k].name, transform);
        run_loader(dataset, transform, &o, &got);
        assert_same(&got, &expected, what);
        mr_dataset_destroy(dataset);
    }
}

static void every_transform_gives_the_bytes_of_the_folder(void **state)
{
    (void)state;
    static const char *const transforms[] = {
        "train:224",
        "eval:256:224",
        "train(224,interp=random)",
        "eval(256:224,lanczos)",
        "exif+train:48",
        "exif+eval:72:64",
        "random_resized_crop(64,scale=0.01:0.05)", /* few pixels, any corner */
        /* crops beyond the edges; smaller images are damaged */
        "random_crop(70,padding=9)",
        "pad(9:3,padding_mode=reflect)+random_crop(70,pad_if_needed)",
        "center_crop(100)",                         /* crop only */
        "resize(40)+random_crop(32)+resize(24:28)", /* several stages */
        "vflip(0.5)+hflip(0.5)+random_resized_crop(9)",
    };
    for (size_t i = 0; i < sizeof transforms / sizeof *transforms; i++)
        check_transform(transforms[i], MR_ON_ERROR_ZERO);
}

static void every_policy_gives_the_bytes_of_the_folder(void **state)
{
    (void)state;
    check_transform("train:40", MR_ON_ERROR_SKIP);
    check_transform("train:40", MR_ON_ERROR_FAIL);
    check_transform("random_crop(70,padding=9)", MR_ON_ERROR_SKIP); /* substitutes in a row */
}

static void workers_and_readers_change_nothing(void **state)
{
    (void)state;
    static const uint32_t workers[] = {MR_NO_WORKERS, 1, 8};
    static const mr_reader_kind readers[] = {MR_READER_AUTO, MR_READER_PREAD};
    struct given expected, got;
    run_folder(folder, "train:224", MR_ON_ERROR_SKIP, &expected);
    for (int k = 0; k < N_KINDS; k++) {
        mr_dataset *dataset = open_pack(k);
        for (int i = 0; i < 6; i++) {
            char what[80];
            mr_loader_options o = plain_options(MR_ON_ERROR_SKIP);
            o.num_workers = workers[i / 2];
            o.reader = readers[i % 2];
            snprintf(what, sizeof what, "%s, %u workers, reader %d", kinds[k].name, o.num_workers,
                     (int)o.reader);
            run_loader(dataset, "train:224", &o, &got);
            assert_same(&got, &expected, what);
        }
        mr_dataset_destroy(dataset);
    }
}

static void starts_and_reads_ahead_change_nothing(void **state)
{
    (void)state;
    static const mr_start starts[] = {MR_START_EXEC, MR_START_FORK, MR_START_THREAD};
    struct given expected, got;
    run_folder(folder, "train:64", MR_ON_ERROR_ZERO, &expected);
    mr_dataset *dataset = open_pack(0);
    for (int i = 0; i < 6; i++) {
        char what[80];
        mr_loader_options o = plain_options(MR_ON_ERROR_ZERO);
        o.num_workers = 2;
        o.start = starts[i % 3];
        o.read_ahead = i < 3 ? 1 : 128;
        o.reader = MR_READER_AUTO;
        snprintf(what, sizeof what, "start %d, %u reads ahead", (int)o.start, o.read_ahead);
        run_loader(dataset, "train:64", &o, &got);
        assert_same(&got, &expected, what);
    }
    mr_dataset_destroy(dataset);
}

static void verified_samples_are_the_same(void **state)
{
    (void)state;
    struct given expected, got;
    run_folder(folder, "train:64", MR_ON_ERROR_SKIP, &expected);
    for (int k = 0; k < N_KINDS; k++) {
        mr_dataset *dataset = open_pack(k);
        for (uint32_t workers = 0; workers < 3; workers += 2) {
            mr_loader_options o = plain_options(MR_ON_ERROR_SKIP);
            o.num_workers = workers ? workers : MR_NO_WORKERS;
            o.reader = MR_READER_AUTO;
            o.verify_packs = true;
            run_loader(dataset, "train:64", &o, &got);
            assert_same(&got, &expected, kinds[k].name);
        }
        mr_dataset_destroy(dataset);
    }
}

static void floats_and_layouts_are_the_same(void **state)
{
    (void)state;
    struct given expected, got;
    mr_dataset *from_files = mr_test_dataset(folder);
    mr_dataset *dataset = open_pack(0);
    for (int layout = MR_NCHW; layout <= MR_NHWC; layout++) {
        mr_loader_options o = plain_options(MR_ON_ERROR_ZERO);
        o.dtype = MR_F32;
        o.layout = (mr_layout)layout;
        run_loader(from_files, "train:48", &o, &expected);
        run_loader(dataset, "train:48", &o, &got);
        assert_same(&got, &expected, "f32");
    }
    mr_dataset_destroy(dataset);
    mr_dataset_destroy(from_files);
}

static void names_and_classes_are_those_of_the_folder(void **state)
{
    (void)state;
    mr_dataset *from_files = mr_test_dataset(folder);
    mr_dataset *dataset = open_pack(0);
    assert_int_equal(mr_dataset_n_classes(dataset), 2);
    assert_string_equal(mr_dataset_class_name(dataset, 1), mr_dataset_class_name(from_files, 1));
    for (int64_t i = 0; i < n_files; i++) {
        int64_t label, expected;
        char name[PATH], file[PATH];
        assert_int_equal(mr_dataset_label(dataset, i, &label, NULL), MR_OK);
        assert_int_equal(mr_dataset_label(from_files, i, &expected, NULL), MR_OK);
        assert_int_equal(label, expected);
        assert_true(mr_dataset_name(dataset, i, name, sizeof name) > 0);
        assert_true(mr_dataset_name(from_files, i, file, sizeof file) > 0);
        assert_words(name, strstr(file, "class_"));
    }
    mr_dataset_destroy(dataset);
    mr_dataset_destroy(from_files);
}

/* If the transform does not fix the size, the first good image does; a pack's index has it. */
static void sizes_that_the_first_image_fixes_are_the_same(void **state)
{
    (void)state;
    static const char *const transforms[] = {"none", "exif"};
    char same[PATH], dir[PATH], spec[2 * PATH];
    snprintf(same, sizeof same, "%s/same", work);
    assert_int_equal(mr_test_packs_fill_equal(same), 6);
    for (int k = 0; k < N_KINDS; k++) {
        snprintf(dir, sizeof dir, "%s/same-%s", work, kinds[k].name);
        make_pack(same, dir, k);
        snprintf(spec, sizeof spec, "pack:%s", dir);
        mr_dataset *dataset = mr_test_dataset(spec);
        for (size_t t = 0; t < 2; t++) {
            struct given expected, got;
            mr_loader_options o = plain_options(MR_ON_ERROR_ZERO);
            run_folder(same, transforms[t], MR_ON_ERROR_ZERO, &expected);
            /* the turned image is 40x60 then */
            assert_int_equal(expected.n_damaged, N_EPOCHS * (t == 0 ? 1 : 2));
            run_loader(dataset, transforms[t], &o, &got);
            assert_same(&got, &expected, transforms[t]);
        }
        mr_dataset_destroy(dataset);
    }
}

/* Of a pack's picture only the rows of the crop are read; with verify_packs it is read whole. */
static void crop_reads_only_its_rows(void **state)
{
    (void)state;
    uint64_t bytes[2];
    mr_dataset *dataset = open_pack(0);
    for (int verify = 0; verify < 2; verify++) {
        struct mr_test_epoch epoch;
        mr_loader_stats stats = MR_LOADER_STATS_INIT;
        mr_loader_options o = plain_options(MR_ON_ERROR_ZERO);
        o.verify_packs = verify;
        mr_loader *loader = mr_test_loader(dataset, "random_resized_crop(32,scale=0.01:0.02)", &o);
        epoch = mr_test_epoch_run(loader, 0);
        assert_int_equal(epoch.status, MR_END);
        assert_int_equal(mr_loader_get_stats(loader, &stats), MR_OK);
        bytes[verify] = stats.bytes_read;
        mr_test_epoch_free(&epoch);
        mr_loader_destroy(loader);
    }
    mr_dataset_destroy(dataset);
    if (bytes[0] > bytes[1] * 3 / 4)
        fail_msg("%llu bytes for crops, %llu for all", (unsigned long long)bytes[0],
                 (unsigned long long)bytes[1]);
}

static int set_up(void **state)
{
    (void)state;
    work = mr_test_folder_create();
    snprintf(folder, sizeof folder, "%s/folder", work);
    n_files = mr_test_packs_fill(folder);
    for (int k = 0; k < N_KINDS; k++) {
        char dir[PATH];
        snprintf(dir, sizeof dir, "%s/%s", work, kinds[k].name);
        make_pack(folder, dir, k);
    }
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_transform_gives_the_bytes_of_the_folder),
        cmocka_unit_test(every_policy_gives_the_bytes_of_the_folder),
        cmocka_unit_test(workers_and_readers_change_nothing),
        cmocka_unit_test(starts_and_reads_ahead_change_nothing),
        cmocka_unit_test(verified_samples_are_the_same),
        cmocka_unit_test(floats_and_layouts_are_the_same),
        cmocka_unit_test(names_and_classes_are_those_of_the_folder),
        cmocka_unit_test(sizes_that_the_first_image_fixes_are_the_same),
        cmocka_unit_test(crop_reads_only_its_rows),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
