/* SPDX-License-Identifier: Apache-2.0 */
/* mr_dataset_pack(): what a pack holds, and that nothing but the options changes it. */
#include "tests/packs/pack_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "dataset/dataset.h"
#include "dataset/pack_index.h"
#include "tests/support/epochs.h"
#include "tests/support/folder.h"
#include "tests/support/images.h"
#include "tests/support/packs.h"
#include "tests/support/assert_words.h"

static void assert_same_pixels(const char *a, const char *b)
{
    uint32_t a_width, a_height, b_width, b_height;
    size_t a_len, b_len;
    uint8_t *a_bytes = pack_rig_read(a, &a_len), *b_bytes = pack_rig_read(b, &b_len);
    uint8_t *a_pixels = mr_test_jpeg_pixels(a_bytes, a_len, &a_width, &a_height);
    uint8_t *b_pixels = mr_test_jpeg_pixels(b_bytes, b_len, &b_width, &b_height);
    assert_int_equal(a_width, b_width);
    assert_int_equal(a_height, b_height);
    assert_memory_equal(a_pixels, b_pixels, (size_t)a_width * a_height * 3);
    free(a_bytes);
    free(b_bytes);
    free(a_pixels);
    free(b_pixels);
}

/* Round trips. */

static void pack_holds_the_dataset_in_its_order(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = pack_rig_pack(rig, "first", &options);
    assert_int_equal(report.n_samples, rig->n);
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD);
    assert_int_equal(report.n_by_encoding[MR_PACK_DCT] + report.n_by_encoding[MR_PACK_JPEG],
                     rig->n);
    assert_int_equal(report.n_by_encoding[MR_PACK_JPEG], report.n_as_files);
    assert_int_equal(report.n_as_files, rig->n_notices);
    assert_true((int64_t)report.n_by_encoding[MR_PACK_DCT] > rig->n / 2);
    assert_true(report.bytes_read > 0 && report.bytes_written > 0);
    assert_int_equal(rig->last.n_done, rig->n);
    mr_dataset *pack = pack_rig_open(rig, "first");
    assert_int_equal(mr_dataset_n_samples(pack), rig->n);
    assert_int_equal(mr_dataset_n_classes(pack), 2);
    assert_string_equal(mr_dataset_class_name(pack, 1), "class_1");
    const struct mr_pack_index *index = mr_catalog_pack(mr_dataset_catalog(pack));
    for (int64_t i = 0; i < rig->n; i++) {
        int64_t label, expected;
        assert_int_equal(mr_dataset_label(pack, i, &label, NULL), MR_OK);
        assert_int_equal(mr_dataset_label(rig->dataset, i, &expected, NULL), MR_OK);
        assert_int_equal(label, expected);
        assert_string_equal(mr_pack_index_name(index, (uint64_t)i), pack_rig_name(rig, i));
    }
    mr_dataset_destroy(pack);
}

static void what_is_kept_as_a_file_is_told_with_the_reason(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    pack_rig_pack(rig, "told", &options);
    for (int64_t i = 0; i < rig->n; i++) {
        const char *name = pack_rig_name(rig, i);
        bool bad = strstr(name, "_short") || strstr(name, "_text") || strstr(name, "_empty");
        if (bad || !pack_rig_is_jpeg(rig, i))
            assert_true(pack_rig_was_noticed(rig, i));
    }
    for (unsigned i = 0; i < rig->n_notices; i++) {
        assert_true(rig->texts[i][0] != '\0');
        assert_null(strstr(rig->texts[i], rig->photos)); /* the name is reported separately */
        assert_words(rig->names[i], rig->photos);
    }
}

static void unpacked_files_have_the_same_pixels(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    pack_rig_pack(rig, "coded", &options);
    pack_rig_unpack(rig, "coded", "decoded", NULL);
    for (int64_t i = 0; i < rig->n; i++) {
        char a[PACK_RIG_PATH * 2], b[PACK_RIG_PATH * 2];
        snprintf(a, sizeof a, "%s/%s", rig->photos, pack_rig_name(rig, i));
        snprintf(b, sizeof b, "%s/%s", pack_rig_path(rig, "decoded"), pack_rig_name(rig, i));
        if (pack_rig_was_noticed(rig, i))
            assert_true(pack_rig_same_bytes(a, b));
        else
            assert_same_pixels(a, b);
    }
}

static void files_as_they_are_need_no_reason(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    options.encoding = MR_PACK_JPEG;
    options.no_index = true;
    mr_pack_report report = pack_rig_pack(rig, "files", &options);
    assert_int_equal(report.n_by_encoding[MR_PACK_JPEG], rig->n);
    assert_int_equal(report.n_as_files, 0);
    assert_int_equal(report.bytes_read, report.bytes_written);
}

static void raw_samples_come_out_as_png_by_name_too(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    options.encoding = MR_PACK_RAW;
    options.resize = 32;
    mr_pack_report report = pack_rig_pack(rig, "raw", &options);
    assert_int_equal(report.n_by_encoding[MR_PACK_RAW], rig->n - MR_TEST_PACKS_N_BAD);
    pack_rig_unpack(rig, "raw", "pngs", NULL);
    for (int64_t i = 0; i < rig->n; i++) {
        char path[PACK_RIG_PATH * 2], magic[4] = "";
        bool bad = pack_rig_was_noticed(rig, i);
        snprintf(path, sizeof path, "%s/%s%s", pack_rig_path(rig, "pngs"), pack_rig_name(rig, i),
                 bad ? "" : ".png");
        FILE *file = fopen(path, "rb");
        if (!file)
            fail_msg("%s is not there", path);
        if (!bad) {
            assert_int_equal(fread(magic, 1, 4, file), 4);
            assert_memory_equal(magic, "\x89PNG", 4);
        }
        fclose(file);
    }
}

static void pack_of_a_pack_is_the_pack_of_its_files(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    options.encoding = MR_PACK_JPEG;
    pack_rig_pack(rig, "once", &options);
    options.encoding = MR_PACK_DCT;
    pack_rig_pack(rig, "straight", &options);
    mr_dataset *once = pack_rig_open(rig, "once");
    mr_error error;
    assert_ok(mr_dataset_pack(once, pack_rig_path(rig, "twice"), &options, NULL, &error), &error);
    mr_dataset_destroy(once);
    char x[PACK_RIG_PATH], y[PACK_RIG_PATH];
    snprintf(x, sizeof x, "%s/shard-00000", pack_rig_path(rig, "straight"));
    snprintf(y, sizeof y, "%s/shard-00000", pack_rig_path(rig, "twice"));
    assert_true(pack_rig_same_bytes(x, y)); /* the indices differ in the origin */
}

/* Order and workers. */

static void number_of_workers_changes_no_byte(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    options.num_workers = 1;
    pack_rig_pack(rig, "one", &options);
    options.num_workers = 4;
    pack_rig_pack(rig, "four", &options);
    pack_rig_assert_same(rig, "one", "four");
}

static void shuffled_pack_is_a_permutation_that_takes_names_and_labels_along(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    options.shuffle = true;
    options.seed = 7;
    pack_rig_pack(rig, "seven", &options);
    options.seed = 8;
    pack_rig_pack(rig, "eight", &options);
    mr_dataset *seven = pack_rig_open(rig, "seven"), *eight = pack_rig_open(rig, "eight");
    const struct mr_pack_index *a = mr_catalog_pack(mr_dataset_catalog(seven)),
                               *b = mr_catalog_pack(mr_dataset_catalog(eight));
    bool *seen = calloc((size_t)rig->n, sizeof *seen);
    int64_t n_moved = 0, n_other = 0, label;
    assert_non_null(seen);
    for (int64_t i = 0; i < rig->n; i++) {
        int64_t from = 0;
        const char *name = mr_pack_index_name(a, (uint64_t)i);
        while (from < rig->n && strcmp(pack_rig_name(rig, from), name) != 0)
            from++;
        assert_true(from < rig->n && !seen[from]);
        seen[from] = true;
        assert_int_equal(mr_dataset_label(seven, i, &label, NULL), MR_OK);
        assert_int_equal(label, name[strlen("class_")] - '0');
        n_moved += from != i;
        n_other += strcmp(name, mr_pack_index_name(b, (uint64_t)i)) != 0;
    }
    assert_true(n_moved > rig->n / 2 && n_other > rig->n / 2);
    free(seen);
    mr_dataset_destroy(seven);
    mr_dataset_destroy(eight);
}

static void names_that_lead_out_of_a_folder_are_cut(void **state)
{
    struct pack_rig *rig = *state;
    char list[PACK_RIG_PATH * 4], spec[PACK_RIG_PATH + 8];
    snprintf(list, sizeof list, "%s/class_0/000.jpg\t3\n../photos/class_0/001.jpg\t4\n",
             rig->photos);
    mkdir(pack_rig_path(rig, "lists"), 0777);
    mr_test_folder_write(rig->folder, "lists/out.list", list, strlen(list));
    snprintf(spec, sizeof spec, "list:%s", pack_rig_path(rig, "lists/out.list"));
    mr_dataset *dataset = mr_test_dataset(spec);
    mr_error error;
    assert_ok(mr_dataset_pack(dataset, pack_rig_path(rig, "cut"), NULL, NULL, &error), &error);
    mr_dataset_destroy(dataset);
    mr_dataset *pack = pack_rig_open(rig, "cut");
    const struct mr_pack_index *index = mr_catalog_pack(mr_dataset_catalog(pack));
    char expected[PACK_RIG_PATH * 2];
    snprintf(expected, sizeof expected, "%s/class_0/000.jpg", rig->photos + 1);
    assert_string_equal(mr_pack_index_name(index, 0), expected);
    assert_string_equal(mr_pack_index_name(index, 1), "photos/class_0/001.jpg");
    mr_dataset_destroy(pack);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PACK_TEST(pack_holds_the_dataset_in_its_order),
        PACK_TEST(what_is_kept_as_a_file_is_told_with_the_reason),
        PACK_TEST(unpacked_files_have_the_same_pixels),
        PACK_TEST(files_as_they_are_need_no_reason),
        PACK_TEST(raw_samples_come_out_as_png_by_name_too),
        PACK_TEST(pack_of_a_pack_is_the_pack_of_its_files),
        PACK_TEST(number_of_workers_changes_no_byte),
        PACK_TEST(shuffled_pack_is_a_permutation_that_takes_names_and_labels_along),
        PACK_TEST(names_that_lead_out_of_a_folder_are_cut),
    };
    return cmocka_run_group_tests(tests, pack_rig_set_up, pack_rig_tear_down);
}
