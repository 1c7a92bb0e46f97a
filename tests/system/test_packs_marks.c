/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs of files with marks: whatever damages the marks, batches are those of the folder.
 * test_packs.c compares undamaged packs.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <millrace/millrace.h>

#include "dataset/pack_format.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/packs.h"

enum { PATH = 600 };

static char *work;
static char folder[PATH], pack[PATH], marks[PATH + 8];
static int64_t n_files;

static mr_dataset *open_pack(const char *dir)
{
    char spec[PATH + 8];
    snprintf(spec, sizeof spec, "pack:%s", dir);
    return mr_test_dataset(spec);
}

static mr_loader_options plain(void)
{
    mr_loader_options options = MR_LOADER_OPTIONS_INIT;
    options.batch_size = 8;
    options.seed = 5;
    options.num_workers = MR_NO_WORKERS;
    options.on_error = MR_ON_ERROR_ZERO;
    return options;
}

struct given {
    uint64_t digest;
    mr_loader_stats stats;
};

static struct given run_loader(mr_dataset *dataset, const char *transform,
                               const mr_loader_options *options)
{
    struct given given = {.stats = MR_LOADER_STATS_INIT};
    mr_loader *loader = mr_test_loader(dataset, transform, options);
    struct mr_test_epoch epoch = mr_test_epoch_run(loader, 0);
    if (epoch.status != MR_END)
        fail_msg("%s", mr_loader_error(loader)->text);
    given.digest = epoch.digest;
    assert_int_equal(mr_loader_get_stats(loader, &given.stats), MR_OK);
    mr_test_epoch_free(&epoch);
    mr_loader_destroy(loader);
    return given;
}

/*
 * Run the pack with and without workers, with and without verify_packs. Batches and damage must be
 * the folder's.
 */
static void expect_folder(const char *transform, const char *what)
{
    mr_dataset *from_files = mr_test_dataset(folder), *dataset = open_pack(pack);
    mr_loader_options options = plain();
    struct given expected = run_loader(from_files, transform, &options);
    for (int i = 0; i < 4; i++) {
        options.num_workers = i % 2 ? 2 : MR_NO_WORKERS;
        options.verify_packs = i >= 2;
        struct given got = run_loader(dataset, transform, &options);
        if (got.digest != expected.digest || got.stats.n_damaged != expected.stats.n_damaged ||
            got.stats.n_warnings != expected.stats.n_warnings)
            fail_msg("%s, %s, way %d: %llu damaged, %llu warnings; of the folder %llu and %llu",
                     what, transform, i, (unsigned long long)got.stats.n_damaged,
                     (unsigned long long)got.stats.n_warnings,
                     (unsigned long long)expected.stats.n_damaged,
                     (unsigned long long)expected.stats.n_warnings);
    }
    mr_dataset_destroy(dataset);
    mr_dataset_destroy(from_files);
}

static uint8_t *read_marks(size_t *len_out)
{
    struct stat st;
    int fd = open(marks, O_RDONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(fstat(fd, &st), 0);
    uint8_t *bytes = malloc((size_t)st.st_size);
    assert_non_null(bytes);
    assert_int_equal(read(fd, bytes, (size_t)st.st_size), st.st_size);
    close(fd);
    *len_out = (size_t)st.st_size;
    return bytes;
}

static void write_marks(const uint8_t *bytes, size_t len)
{
    int fd = open(marks, O_WRONLY | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(pwrite(fd, bytes, len, 0), (ssize_t)len);
    close(fd);
}

static void damaged_marks_change_no_batch(void **state)
{
    (void)state;
    static const char *const transforms[] = {"train:40", "eval:40:32"};
    size_t len;
    uint8_t *sound = read_marks(&len), *damaged = malloc(len);
    assert_non_null(damaged);
    for (int t = 0; t < 2; t++) {
        memcpy(damaged, sound, len);
        for (size_t at = 3; at < len; at += 101) /* most samples have a wrong bit, some do not */
            damaged[at] ^= (uint8_t)(1u << at % 8);
        write_marks(damaged, len);
        expect_folder(transforms[t], "wrong bits");
        memset(damaged, 0, len);
        write_marks(damaged, len);
        expect_folder(transforms[t], "zeros");
    }
    write_marks(sound, len);
    expect_folder("train:40", "sound again");
    free(damaged);
    free(sound);
}

/*
 * The file of marks is truncated while the pack is in use. The statistics count the bytes that were
 * read in vain and those of the files.
 */
static void marks_that_cannot_be_read_change_no_batch(void **state)
{
    (void)state;
    size_t len;
    uint8_t *sound = read_marks(&len);
    mr_dataset *from_files = mr_test_dataset(folder), *dataset = open_pack(pack);
    mr_loader_options options = plain();
    struct given expected = run_loader(from_files, "train:40", &options);
    struct given by_marks = run_loader(dataset, "train:40", &options);
    assert_int_equal(truncate(marks, 0), 0);
    for (int i = 0; i < 2; i++) {
        options.num_workers = i ? 2 : MR_NO_WORKERS;
        options.reader = i ? MR_READER_AUTO : MR_READER_PREAD;
        struct given got = run_loader(dataset, "train:40", &options);
        assert_int_equal(got.digest, expected.digest);
        assert_int_equal(got.stats.n_damaged, expected.stats.n_damaged);
        assert_true(got.stats.bytes_read > by_marks.stats.bytes_read);
    }
    write_marks(sound, len);
    free(sound);
    mr_dataset_destroy(dataset);
    mr_dataset_destroy(from_files);
}

/*
 * Swap with the sample after the next: some neighbours have the same size and tables, so their
 * marks cannot be distinguished.
 */
static void swap_marks(uint8_t *index, int64_t i)
{
    struct mr_pack_header header;
    struct mr_pack_marks place[3];
    memcpy(&header, index, sizeof header);
    uint8_t *at = index + header.sections[MR_PACK_MARKS].off + (size_t)i * sizeof place[0];
    memcpy(place, at, sizeof place);
    if (place[0].len == 0 || place[2].len == 0)
        return;
    const struct mr_pack_marks first = place[0];
    place[0] = place[2];
    place[2] = first;
    memcpy(at, place, sizeof place);
}

static void swap_all(void)
{
    for (int64_t i = 0; i + 2 < n_files; i++)
        if (i % 4 < 2)
            mr_test_packs_edit(pack, swap_marks, i);
}

static void marks_of_another_picture_are_not_used(void **state)
{
    (void)state;
    swap_all();
    expect_folder("train:40", "swapped");
    expect_folder("eval:40:32", "swapped");
    swap_all();
    expect_folder("train:40", "swapped back");
}

static void a_crop_reads_only_its_rows(void **state)
{
    (void)state;
    char plain_pack[PATH];
    uint64_t bytes[2];
    mr_loader_options options = plain();
    mr_pack_options packing = MR_PACK_OPTIONS_INIT;
    mr_dataset *dataset = mr_test_dataset(folder);
    snprintf(plain_pack, sizeof plain_pack, "%s/plain", work);
    packing.encoding = MR_PACK_JPEG;
    packing.no_index = true;
    packing.num_workers = 2;
    assert_int_equal(mr_dataset_pack(dataset, plain_pack, &packing, NULL, NULL), MR_OK);
    mr_dataset_destroy(dataset);
    for (int i = 0; i < 2; i++) {
        dataset = open_pack(i == 0 ? pack : plain_pack);
        bytes[i] = run_loader(dataset, "random_resized_crop(32,scale=0.01:0.02)", &options)
                       .stats.bytes_read;
        mr_dataset_destroy(dataset);
    }
    if (bytes[0] > bytes[1] * 3 / 4)
        fail_msg("%llu bytes with marks, %llu without", (unsigned long long)bytes[0],
                 (unsigned long long)bytes[1]);
}

static int set_up(void **state)
{
    (void)state;
    work = mr_test_folder_create();
    snprintf(folder, sizeof folder, "%s/folder", work);
    snprintf(pack, sizeof pack, "%s/pack", work);
    snprintf(marks, sizeof marks, "%s/marks", pack);
    n_files = mr_test_packs_fill(folder);
    mr_test_packs_make(folder, pack, MR_PACK_JPEG);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(damaged_marks_change_no_batch),
        cmocka_unit_test(marks_that_cannot_be_read_change_no_batch),
        cmocka_unit_test(marks_of_another_picture_are_not_used),
        cmocka_unit_test(a_crop_reads_only_its_rows),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
