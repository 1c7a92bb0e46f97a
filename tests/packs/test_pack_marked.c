/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packs of files with marks: which files have some, what changes them, and that a check proves
 * them.
 */
#include "tests/packs/pack_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/xxh3.h"
#include "dataset/dataset.h"
#include "dataset/pack_index.h"
#include "tests/support/epochs.h"
#include "tests/support/packs.h"
#include "tests/support/assert_words.h"

static mr_pack_options marked_options(struct pack_rig *rig)
{
    mr_pack_options options = pack_rig_options(rig);
    options.encoding = MR_PACK_JPEG;
    return options;
}

static const char *file_of(const struct pack_rig *rig, const char *pack, const char *name)
{
    char path[PACK_RIG_PATH];
    snprintf(path, sizeof path, "%s/%s", pack, name);
    return pack_rig_path(rig, path);
}

static bool has_marks(const struct pack_rig *rig, const char *pack)
{
    return access(file_of(rig, pack, MR_PACK_MARKS_FILE), F_OK) == 0;
}

static void assert_same_file(const struct pack_rig *rig, const char *name, const char *a,
                             const char *b)
{
    if (!pack_rig_same_bytes(file_of(rig, a, name), file_of(rig, b, name)))
        fail_msg("%s of %s and %s", name, a, b);
}

/* In each class pictures 13 and 14 have several scans, and those after 21 are PNGs. */
static bool can_have_marks(const struct pack_rig *rig, int64_t index)
{
    const char *name = pack_rig_name(rig, index);
    return pack_rig_is_jpeg(rig, index) && !strstr(name, "/013") && !strstr(name, "/014") &&
           !strstr(name, "_short");
}

/* Which samples have marks. */

static void good_baseline_jpegs_have_marks_and_nothing_else(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig);
    mr_pack_report report = pack_rig_pack(rig, "marked", &options);
    mr_dataset *pack = pack_rig_open(rig, "marked");
    const struct mr_pack_index *index = mr_catalog_pack(mr_dataset_catalog(pack));
    uint64_t n = 0;
    for (int64_t i = 0; i < rig->n; i++) {
        const struct mr_pack_sample *sample;
        struct mr_packed_image image;
        assert_true(mr_pack_index_sample(index, (uint64_t)i, &sample, &image));
        if ((image.encoding == MR_PACKED_MARKED) != can_have_marks(rig, i))
            fail_msg("%s is of encoding %u", pack_rig_name(rig, i), image.encoding);
        n += image.encoding == MR_PACKED_MARKED;
    }
    mr_dataset_destroy(pack);
    assert_true((int64_t)n > rig->n / 2);
    assert_int_equal(report.n_marked, n);
    assert_int_equal(report.n_by_encoding[MR_PACK_JPEG], rig->n);
    assert_int_equal(report.n_as_files, 0);
    assert_true(has_marks(rig, "marked"));
    report = pack_rig_unpack(rig, "marked", "unmarked", &options);
    assert_int_equal(report.n_marked, n);
    assert_int_equal(report.n_by_encoding[MR_PACK_JPEG], rig->n);
    for (int64_t i = 0; i < rig->n; i++)
        assert_same_file(rig, pack_rig_name(rig, i), "photos", "unmarked");
}

static void packs_without_marks_are_of_version_1(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig);
    struct mr_pack_header header;
    size_t len;
    pack_rig_pack(rig, "with", &options);
    options.no_index = true;
    mr_pack_report report = pack_rig_pack(rig, "without", &options);
    assert_int_equal(report.n_marked, 0);
    assert_false(has_marks(rig, "without"));
    assert_same_file(rig, "shard-00000", "with", "without");
    uint8_t *bytes = pack_rig_read(file_of(rig, "without", "index"), &len);
    memcpy(&header, bytes, sizeof header);
    free(bytes);
    assert_int_equal(header.sections[MR_PACK_MARKS].len, 0);
    options.no_index = false;
    options.jpeg_decoder = MR_JPEG_STOCK;
    pack_rig_pack(rig, "stock", &options);
    pack_rig_assert_same(rig, "without", "stock");
}

static void files_made_anew_have_marks(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig);
    options.max_side = 60;
    options.quality = 70;
    mr_pack_report report = pack_rig_pack(rig, "anew", &options);
    assert_int_equal(report.n_by_encoding[MR_PACK_JPEG], rig->n);
    assert_true(report.n_marked >=
                /* all but damaged ones, and a small PNG of each class */
                (uint64_t)rig->n - MR_TEST_PACKS_N_BAD - 2);
    mr_dataset *pack = pack_rig_open(rig, "anew");
    mr_pack_report checked = MR_PACK_REPORT_INIT;
    assert_int_equal(mr_dataset_check(pack, &options, &checked, NULL), MR_OK);
    mr_dataset_destroy(pack);
    assert_int_equal(checked.n_marked, report.n_marked);
    assert_int_equal(checked.n_damaged, MR_TEST_PACKS_N_BAD);
}

static void marks_are_for_the_encoding_jpeg(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = pack_rig_options(rig);
    mr_error error = {0};
    options.no_index = true;
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "never"), &options, NULL, &error),
        MR_ERR_INVALID);
    assert_string_equal(error.text, "no_index applies to the encoding jpeg only");
    options.no_index = false;
    mr_pack_report report = pack_rig_pack(rig, "coefficients", &options);
    assert_int_equal(report.n_marked, 0);
    assert_false(has_marks(rig, "coefficients"));
}

/* What does not change the pack. */

static void workers_and_interruptions_change_no_mark(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig);
    mr_error error;
    options.align = true;
    options.num_workers = 1;
    pack_rig_pack(rig, "one", &options);
    options.num_workers = 8;
    pack_rig_pack(rig, "eight", &options);
    pack_rig_assert_same(rig, "one", "eight");
    options.num_workers = 2;
    unsigned n_canceled = 0;
    rig->cancel_soon = true; /* after each sample that has a notice */
    mr_status status;
    while ((status = mr_dataset_pack(rig->dataset, pack_rig_path(rig, "steps"), &options, NULL,
                                     &error)) == MR_ERR_CANCELED) {
        assert_true(n_canceled++ < 100);
        rig->cancel_soon = n_canceled < 2;
    }
    assert_ok(status, &error);
    assert_int_equal(n_canceled, 2);
    pack_rig_assert_same(rig, "one", "steps");
}

static void a_pack_goes_on_with_marks_as_it_began(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig), other = options;
    mr_error error = {0};
    rig->cancel_soon = true;
    assert_int_equal(
        mr_dataset_pack(rig->dataset, pack_rig_path(rig, "begun"), &options, NULL, &error),
        MR_ERR_CANCELED);
    rig->cancel_soon = false;
    for (int i = 0; i < 2; i++) {
        other = options;
        other.no_index = i == 0;
        other.jpeg_decoder = i == 1 ? MR_JPEG_STOCK : MR_JPEG_AUTO;
        assert_error(
            mr_dataset_pack(rig->dataset, pack_rig_path(rig, "begun"), &other, NULL, &error),
            MR_ERR_INVALID, &error, "\"encoding jpeg with marks, align 0,");
        assert_words(error.text, "\"encoding jpeg, align 0,");
    }
    pack_rig_pack(rig, "begun", &options);
}

static void packs_of_packs_have_the_same_marks(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig), plain = options, dct = pack_rig_options(rig);
    mr_error error;
    plain.no_index = true;
    pack_rig_pack(rig, "first", &options);
    pack_rig_pack(rig, "first_plain", &plain);
    pack_rig_pack(rig, "first_dct", &dct);
    static const char *const sources[] = {"first", "first_plain", "first"};
    for (int i = 0; i < 3; i++) {
        char name[16];
        snprintf(name, sizeof name, "second_%d", i);
        mr_dataset *source = pack_rig_open(rig, sources[i]);
        assert_ok(mr_dataset_pack(source, pack_rig_path(rig, name), i < 2 ? &options : &dct, NULL,
                                  &error),
                  &error);
        mr_dataset_destroy(source);
        assert_same_file(rig, "shard-00000", i < 2 ? "first" : "first_dct", name);
        if (i < 2)
            assert_same_file(rig, MR_PACK_MARKS_FILE, "first", name);
        else
            assert_false(has_marks(rig, name));
    }
}

/* What a check finds. */

static mr_pack_report check_pack(struct pack_rig *rig, const char *name, mr_jpeg_decoder decoder)
{
    mr_pack_options options = pack_rig_options(rig);
    mr_pack_report report = MR_PACK_REPORT_INIT;
    mr_error error;
    mr_dataset *dataset = pack_rig_open(rig, name);
    options.jpeg_decoder = decoder;
    rig->n_notices = 0;
    assert_ok(mr_dataset_check(dataset, &options, &report, &error), &error);
    mr_dataset_destroy(dataset);
    return report;
}

/* Where the marks of a sample are, from the pack's index. */
static struct mr_pack_marks find_marks(const struct pack_rig *rig, const char *pack, int64_t index)
{
    struct mr_pack_header header;
    struct mr_pack_marks place;
    size_t len;
    uint8_t *bytes = pack_rig_read(file_of(rig, pack, "index"), &len);
    memcpy(&header, bytes, sizeof header);
    assert_int_equal(header.version, MR_PACK_VERSION);
    memcpy(&place, bytes + header.sections[MR_PACK_MARKS].off + (size_t)index * sizeof place,
           sizeof place);
    free(bytes);
    return place;
}

/* Flip bits of one byte of a sample's marks. mended: their checksum is corrected afterwards. */
static void change_marks(const struct pack_rig *rig, const char *pack, int64_t index, size_t byte,
                         bool mended)
{
    struct mr_pack_marks place = find_marks(rig, pack, index);
    size_t len;
    char path[PACK_RIG_PATH];
    snprintf(path, sizeof path, "%s", file_of(rig, pack, MR_PACK_MARKS_FILE));
    uint8_t *bytes = pack_rig_read(path, &len), *marks = bytes + place.offset;
    assert_true(byte < place.len && place.offset + place.len <= len);
    marks[byte] ^= 0x41;
    uint64_t checksum = mr_xxh3(marks + sizeof checksum, place.len - sizeof checksum);
    if (mended)
        memcpy(marks, &checksum, sizeof checksum);
    FILE *file = fopen(path, "wb");
    assert_non_null(file);
    assert_int_equal(fwrite(bytes, 1, len, file), len);
    assert_int_equal(fclose(file), 0);
    free(bytes);
}

static const char *words_about(const struct pack_rig *rig, int64_t index)
{
    for (unsigned i = 0; i < rig->n_notices; i++)
        if (rig->noticed[i] == index)
            return rig->texts[i];
    return "";
}

static void a_check_names_samples_with_altered_marks(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig);
    mr_pack_report packed = pack_rig_pack(rig, "proved", &options);
    mr_pack_report report = check_pack(rig, "proved", MR_JPEG_AUTO);
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD);
    assert_int_equal(report.n_marked, packed.n_marked);
    assert_int_equal(report.n_by_encoding[MR_PACK_JPEG], rig->n);
    struct mr_pack_marks place = find_marks(rig, "proved", 2);
    change_marks(rig, "proved", 0, 40, false);
    change_marks(rig, "proved", 1, 0, false); /* the checksum itself */
    change_marks(rig, "proved", 2, place.len - 1, true);
    report = check_pack(rig, "proved", MR_JPEG_AUTO);
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD + 3);
    assert_int_equal(report.n_marked, packed.n_marked);
    assert_string_equal(words_about(rig, 0), "its JPEG index was altered: the checksum is wrong");
    assert_string_equal(words_about(rig, 1), "its JPEG index was altered: the checksum is wrong");
    assert_string_equal(words_about(rig, 2), "its JPEG index does not match its bytes");
    report = check_pack(rig, "proved", MR_JPEG_STOCK); /* libjpeg cannot make marks to compare */
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD + 2);
    assert_true(pack_rig_was_noticed(rig, 1) && !pack_rig_was_noticed(rig, 2));
    pack_rig_unpack(rig, "proved", "rescued", &options); /* unpacking needs no marks */
    assert_same_file(rig, pack_rig_name(rig, 0), "photos", "rescued");
}

static void move_row(uint8_t *index, int64_t i)
{
    struct mr_pack_header header;
    struct mr_pack_sample sample;
    uint32_t row;
    memcpy(&header, index, sizeof header);
    memcpy(&sample, index + header.sections[MR_PACK_SAMPLES].off + (size_t)i * sizeof sample,
           sizeof sample);
    uint8_t *at = index + header.sections[MR_PACK_ROWS].off + (sample.rows + 1) * sizeof row;
    memcpy(&row, at, sizeof row);
    row++;
    memcpy(at, &row, sizeof row);
}

static void turn_image(uint8_t *index, int64_t i)
{
    struct mr_pack_header header;
    memcpy(&header, index, sizeof header);
    uint8_t *sample =
        index + header.sections[MR_PACK_SAMPLES].off + (size_t)i * sizeof(struct mr_pack_sample);
    sample[offsetof(struct mr_pack_sample, orientation)] ^= 2;
}

static void a_check_compares_what_the_index_says_beside_marks(void **state)
{
    struct pack_rig *rig = *state;
    mr_pack_options options = marked_options(rig);
    pack_rig_pack(rig, "described", &options);
    mr_test_packs_edit(pack_rig_path(rig, "described"), move_row, 0);
    mr_test_packs_edit(pack_rig_path(rig, "described"), turn_image, 1);
    mr_pack_report report = check_pack(rig, "described", MR_JPEG_AUTO);
    assert_int_equal(report.n_damaged, MR_TEST_PACKS_N_BAD + 2);
    assert_string_equal(words_about(rig, 0),
                        "its entry in the pack's index does not match its bytes");
    assert_string_equal(words_about(rig, 1),
                        "its entry in the pack's index does not match its bytes");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        PACK_TEST(good_baseline_jpegs_have_marks_and_nothing_else),
        PACK_TEST(packs_without_marks_are_of_version_1),
        PACK_TEST(files_made_anew_have_marks),
        PACK_TEST(marks_are_for_the_encoding_jpeg),
        PACK_TEST(workers_and_interruptions_change_no_mark),
        PACK_TEST(a_pack_goes_on_with_marks_as_it_began),
        PACK_TEST(packs_of_packs_have_the_same_marks),
        PACK_TEST(a_check_names_samples_with_altered_marks),
        PACK_TEST(a_check_compares_what_the_index_says_beside_marks),
    };
    return cmocka_run_group_tests(tests, pack_rig_set_up, pack_rig_tear_down);
}
