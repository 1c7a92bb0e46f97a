/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_dataset_pack(): continuing after an interruption, a full disk or a missing file; and what is
 * refused.
 */
#include "tests/packs/pack_rig.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/assert_words.h"

/* Continuing. */

static void canceled_pack_goes_on_to_the_same_bytes(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error;
    unsigned n_canceled = 0;
    pack_rig_pack(rig, "at_once", &options);
    rig->cancel_soon = true; /* after each sample that has a notice */
    mr_status status;
    while ((status = mr_dataset_pack(rig->dataset, pack_rig_path(rig, "in_steps"), &options,
                                     &report, &error)) == MR_ERR_CANCELED) {
        assert_true(n_canceled++ < 100);
        rig->cancel_soon = n_canceled < 3;
    }
    assert_ok(status, &error);
    assert_int_equal(n_canceled, 3);
    pack_rig_assert_same(rig, "at_once", "in_steps");
}

static void file_that_cannot_be_read_ends_the_work_until_it_can(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    char path[PACK_RIG_PATH * 2], aside[PACK_RIG_PATH * 3];
    snprintf(path, sizeof path, "%s/%s", rig->photos, pack_rig_name(rig, rig->n / 2));
    snprintf(aside, sizeof aside, "%s.aside", path);
    pack_rig_pack(rig, "with_it", &options);
    assert_int_equal(rename(path, aside), 0);
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "without_it"), &options, NULL, &error),
        MR_ERR_DAMAGED);
    assert_int_equal(rename(aside, path), 0);
    assert_words(error.text, path);
    assert_int_equal(error.index, rig->n / 2);
    pack_rig_pack(rig, "without_it", &options);
    pack_rig_assert_same(rig, "with_it", "without_it");
}

static mr_dataset *open_list(const struct pack_rig *rig, const char *text)
{
    char spec[PACK_RIG_PATH + 8];
    mr_test_folder_write(rig->folder, "short.list", text, strlen(text));
    snprintf(spec, sizeof spec, "list:%s", pack_rig_path(rig, "short.list"));
    return mr_test_dataset(spec);
}

/*
 * Each picture fills a shard. The shard of the last picture before the missing file was not
 * finished.
 */
static void finished_shards_are_not_packed_again(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error = {0};
    struct mr_test_image large =
        mr_test_png(&(struct mr_test_png){.width = 600, .height = 600, .colour_type = 2});
    mr_test_folder_write(rig->folder, "large.png", large.bytes, large.len);
    mr_test_folder_write(rig->folder, "late.png", large.bytes, large.len);
    mr_dataset *dataset = open_list(
        rig, "large.png\t0\nlarge.png\t1\nlarge.png\t2\nlarge.png\t3\nlate.png\t4\nlarge.png\t5\n");
    options.encoding = MR_PACK_RAW;
    options.shard_size = 1 << 20;
    assert_int_equal(mr_dataset_pack(dataset, pack_rig_path(rig, "shards"), &options, NULL, &error),
                     MR_OK);
    assert_int_equal(remove(pack_rig_path(rig, "late.png")), 0);
    assert_int_equal(mr_dataset_pack(dataset, pack_rig_path(rig, "some"), &options, NULL, &error),
                     MR_ERR_DAMAGED);
    mr_test_folder_write(rig->folder, "late.png", large.bytes, large.len);
    mr_test_image_free(&large);
    assert_int_equal(
        mr_dataset_pack(dataset, pack_rig_path(rig, "some"), &options, &report, &error), MR_OK);
    assert_int_equal(report.n_resumed, 3);
    assert_int_equal(report.n_samples, 6);
    pack_rig_assert_same(rig, "shards", "some");
    mr_dataset_destroy(dataset);
}

static void other_options_are_refused_with_both_texts(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    rig->cancel_soon = true;
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "begun"), &options, NULL, &error),
        MR_ERR_CANCELED);
    rig->cancel_soon = false;
    for (int i = 0; i < 9; i++) {
        mr_pack_options other = options;
        switch (i) {
        case 0: other.encoding = MR_PACK_RAW; break;
        case 1: other.shard_size = 1 << 21; break;
        case 2: other.align = true; break;
        case 3: other.shuffle = true; break;
        case 4: other.max_side = 100; break;
        case 5: other.resize = 100; break;
        case 6: other.quality = 90; break;
        case 7: other.shard_size = 1 << 20; break;
        case 8: other.max_pixels = 1 << 20; break;
        }
        mr_status status =
            mr_dataset_pack(rig->dataset, pack_rig_path(rig, "begun"), &other, NULL, &error);
        if (status != MR_ERR_INVALID || !strstr(error.text, "another pack"))
            fail_msg("case %d: %d, %s", i, status, error.text);
        assert_words(error.text, "encoding dct, align 0,");
        assert_true(i > 0 || strstr(error.text, "encoding raw, align 0,"));
    }
    options.num_workers = 3;              /* changes nothing */
    options.jpeg_decoder = MR_JPEG_STOCK; /* nor does this */
    pack_rig_pack(rig, "begun", &options);
}

static void other_names_labels_and_seeds_are_refused(void **state)
{
    struct pack_rig *rig = *state;
    static const char *const lists[] = {"photos/class_0/000.jpg\t3\nnowhere.jpg\t4\n",
                                        "photos/class_0/000.jpg\t3\nnowhere.jpg\t5\n",
                                        "photos/class_0/001.jpg\t3\nnowhere.jpg\t4\n"};
    mr_error error = {0};
    for (int i = 0; i < 3; i++) {
        mr_dataset *dataset = open_list(rig, lists[i]);
        mr_status status =
            mr_dataset_pack(dataset, pack_rig_path(rig, "listed"), NULL, NULL, &error);
        assert_int_equal(status, i == 0 ? MR_ERR_DAMAGED : MR_ERR_INVALID);
        mr_dataset_destroy(dataset);
    }
    mr_pack_options options = pack_rig_options(rig);
    options.shuffle = true;
    options.seed = 1;
    rig->cancel_soon = true;
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "seeded"), &options, NULL, &error),
        MR_ERR_CANCELED);
    options.seed = 2;
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "seeded"), &options, NULL, &error),
        MR_ERR_INVALID);
    rig->cancel_soon = false;
    options.seed = 1;
    pack_rig_pack(rig, "seeded", &options);
}

static void complete_pack_is_reported_and_not_touched(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    struct stat before, after;
    mr_error error = {0};
    char path[PACK_RIG_PATH];
    pack_rig_pack(rig, "complete", &options);
    snprintf(path, sizeof path, "%s/index", pack_rig_path(rig, "complete"));
    assert_int_equal(stat(path, &before), 0);
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "complete"), &options, &report, &error),
        MR_OK);
    assert_int_equal(report.n_samples, mr_dataset_n_samples(rig->dataset));
    assert_int_equal(report.n_resumed, report.n_samples);
    assert_int_equal(report.n_by_encoding[MR_PACK_DCT] + report.n_by_encoding[MR_PACK_JPEG],
                     report.n_samples);
    assert_int_equal(report.bytes_written, 0);
    options.shuffle = true;
    assert_error(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "complete"), &options, NULL, &error),
        MR_ERR_INVALID, &error, "complete pack of another dataset, or made with other options");
    assert_int_equal(stat(path, &after), 0);
    assert_int_equal(before.st_ino, after.st_ino);
    assert_int_equal(before.st_mtim.tv_nsec, after.st_mtim.tv_nsec);
}

static void full_disk_is_told_and_gone_on_behind(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    struct rlimit before, little;
    mr_error error = {0};
    pack_rig_pack(rig, "roomy", &options);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    little = before;
    little.rlim_cur = 100000;
    void (*handler)(int) = signal(SIGXFSZ, SIG_IGN);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &little), 0);
    mr_status status =
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "narrow"), &options, NULL, &error);
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    signal(SIGXFSZ, handler);
    assert_int_equal(status, MR_ERR_IO);
    assert_int_equal(error.os_error, EFBIG);
    assert_words(error.text, "narrow/");
    pack_rig_pack(rig, "narrow", &options);
    pack_rig_assert_same(rig, "roomy", "narrow");
}

static void folder_that_cannot_be_made_is_named(void **state)
{
    struct pack_rig *rig = *state;
    mr_error error = {0};
    assert_error(mr_dataset_pack(rig->dataset, pack_rig_path(rig, "no/such"), NULL, NULL, &error),
                 MR_ERR_IO, &error, "no/such");
    mr_test_folder_write(rig->folder, "file", "x", 1);
    assert_error(mr_dataset_pack(rig->dataset, pack_rig_path(rig, "file"), NULL, NULL, &error),
                 MR_ERR_IO, &error, "/file");
}

/* Refusals. */

static void wrong_options_are_refused_by_name(void **state)
{
    struct pack_rig *rig = *state;
    static const struct {
        mr_pack_options options;
        const char *words;
    } cases[] = {
        {{.struct_size = 0}, "is 0: initialise it with MR_PACK_OPTIONS_INIT"},
        {{.struct_size = sizeof(mr_pack_options), .encoding = (mr_pack_encoding)5}, "encoding 5"},
        {{.struct_size = sizeof(mr_pack_options), .quality = 101}, "quality 101"},
        {{.struct_size = sizeof(mr_pack_options), .num_workers = 257}, "num_workers 257"},
        {{.struct_size = sizeof(mr_pack_options), .jpeg_decoder = (mr_jpeg_decoder)2},
         "jpeg_decoder 2"},
        {{.struct_size = sizeof(mr_pack_options), .max_side = 65501}, "max_side 65501"},
        {{.struct_size = sizeof(mr_pack_options), .resize = 65501}, "resize 65501"},
        {{.struct_size = sizeof(mr_pack_options), .shard_size = 1048575}, "shard_size 1048575"},
        {{.struct_size = sizeof(mr_pack_options), .max_side = 9, .resize = 9},
         "max_side and resize"},
        {{.struct_size = sizeof(mr_pack_options), .encoding = MR_PACK_RAW, .quality = 9},
         "quality"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        mr_error error = {0};
        assert_error(mr_dataset_pack(rig->dataset, pack_rig_path(rig, "never"), &cases[i].options,
                                     NULL, &error),
                     MR_ERR_INVALID, &error, cases[i].words);
    }
    mr_pack_report report = {0};
    mr_error error;
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "never"), NULL, &report, &error),
        MR_ERR_INVALID);
    assert_string_equal(
        error.text,
        "struct_size of the mr_pack_report is 0: initialise it with MR_PACK_REPORT_INIT");
    assert_int_equal(mr_dataset_check(rig->dataset, NULL, &report, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_pack_unpack(rig->dataset, pack_rig_path(rig, "never"), NULL, &report, NULL),
                     MR_ERR_INVALID);
    assert_int_equal(mr_dataset_pack(NULL, pack_rig_path(rig, "never"), NULL, NULL, NULL),
                     MR_ERR_INVALID);
    assert_int_equal(mr_dataset_pack(rig->dataset, NULL, NULL, NULL, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_dataset_check(NULL, NULL, NULL, NULL), MR_ERR_INVALID);
    assert_int_equal(mr_pack_unpack(NULL, pack_rig_path(rig, "never"), NULL, NULL, NULL),
                     MR_ERR_INVALID);
    assert_int_equal(mr_pack_unpack(rig->dataset, pack_rig_path(rig, "never"), NULL, NULL, NULL),
                     MR_ERR_INVALID);
    assert_int_not_equal(access(pack_rig_path(rig, "never"), F_OK), 0);
}

static int get_nothing(void *user, int64_t index, mr_sample *sample)
{
    (void)user, (void)index, (void)sample;
    return 1;
}

static void records_are_checked_and_not_packed_and_callbacks_neither(void **state)
{
    struct pack_rig *rig = *state;
    char spec[PACK_RIG_PATH + 32];
    mr_dataset *dataset;
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error = {0};
    mr_test_folder_write(rig->folder, "records.bin", "0123456789abcdef", 16);
    snprintf(spec, sizeof spec, "records:%s?bytes=4", pack_rig_path(rig, "records.bin"));
    dataset = mr_test_dataset(spec);
    assert_int_equal(mr_dataset_pack(dataset, pack_rig_path(rig, "never"), NULL, NULL, &error),
                     MR_ERR_INVALID);
    assert_int_equal(mr_dataset_check(dataset, NULL, &report, &error), MR_OK);
    assert_int_equal(report.n_samples, 4);
    assert_int_equal(report.n_damaged, 0);
    assert_int_equal(truncate(pack_rig_path(rig, "records.bin"), 10), 0);
    assert_int_equal(mr_dataset_check(dataset, NULL, &report, &error), MR_OK);
    assert_int_equal(report.n_damaged, 2);
    mr_dataset_destroy(dataset);
    mr_callbacks callbacks = MR_CALLBACKS_INIT;
    callbacks.n_samples = 3;
    callbacks.get = get_nothing;
    assert_int_equal(mr_dataset_from_callbacks(&callbacks, &dataset, &error), MR_OK);
    assert_int_equal(mr_dataset_pack(dataset, pack_rig_path(rig, "never"), NULL, NULL, &error),
                     MR_ERR_UNSUPPORTED);
    assert_int_equal(mr_dataset_check(dataset, NULL, NULL, &error), MR_ERR_UNSUPPORTED);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PACK_TEST(canceled_pack_goes_on_to_the_same_bytes),
        PACK_TEST(file_that_cannot_be_read_ends_the_work_until_it_can),
        PACK_TEST(finished_shards_are_not_packed_again),
        PACK_TEST(other_options_are_refused_with_both_texts),
        PACK_TEST(other_names_labels_and_seeds_are_refused),
        PACK_TEST(complete_pack_is_reported_and_not_touched),
        PACK_TEST(full_disk_is_told_and_gone_on_behind),
        PACK_TEST(folder_that_cannot_be_made_is_named),
        PACK_TEST(wrong_options_are_refused_by_name),
        PACK_TEST(records_are_checked_and_not_packed_and_callbacks_neither),
    };
    return cmocka_run_group_tests(tests, pack_rig_set_up, pack_rig_tear_down);
}
