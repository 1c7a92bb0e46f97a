/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A packer that keeps files and makes marks. Except for the marks, its samples are those of a
 * packer that makes none. Marks that were altered, or that belong to other bytes, are found.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh3.h"
#include "tests/packs/packer_support.h"
#include "tests/support/scans.h"
#include "tests/support/assert_words.h"

static const struct mr_packer_options marking = {.encoding = MR_PACKED_JPEG, .marks = true};

struct packers {
    struct mr_packer *marking, *plain;
};

static int make_packers(void **state)
{
    static struct packers packers;
    packers.marking = packer_make(&marking);
    packers.plain = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_JPEG});
    *state = &packers;
    return 0;
}

static int free_packers(void **state)
{
    struct packers *packers = *state;
    mr_packer_destroy(packers->marking);
    mr_packer_destroy(packers->plain);
    return 0;
}

/* Returns whether the file has marks. */
static bool check_file(const struct packers *packers, const struct mr_test_image *file)
{
    struct mr_packed_sample plain = packer_pack(packers->plain, file->bytes, file->len);
    struct mr_packed_sample sample = packer_pack(packers->marking, file->bytes, file->len);
    bool marked = sample.image.encoding == MR_PACKED_MARKED;
    assert_int_equal(plain.image.encoding, MR_PACKED_JPEG);
    assert_int_equal(sample.image.encoding, marked ? MR_PACKED_MARKED : MR_PACKED_JPEG);
    assert_string_equal(sample.why, plain.why);
    assert_int_equal(sample.damaged, plain.damaged);
    assert_int_equal(sample.image.width, plain.image.width);
    assert_int_equal(sample.image.height, plain.image.height);
    assert_int_equal(sample.image.orientation, plain.image.orientation);
    assert_int_equal(sample.image.len, file->len);
    assert_memory_equal(sample.bytes, file->bytes, file->len);
    if (!marked)
        return false;
    /* without a warning */
    assert_int_equal(mr_packer_try(packers->plain, &sample.image, sample.bytes, NULL), MR_OK);
    assert_int_equal(mr_packer_check_marks(packers->plain, &sample.image, sample.bytes,
                                           sample.image.marks, sample.image.marks_len, NULL),
                     MR_OK);
    const uint8_t *restored;
    size_t len;
    assert_int_equal(
        mr_packer_restore(packers->plain, &sample.image, sample.bytes, &restored, &len, NULL),
        MR_OK);
    assert_ptr_equal(restored, sample.bytes);
    assert_int_equal(len, file->len);
    return true;
}

/* The kinds of JPEG that our decoder of scans can decode. */
static bool can_be_marked(const struct mr_test_jpeg *kind)
{
    bool grey_with_factors = kind->colour == MR_TEST_GREY && kind->sampling[0][0] > 1;
    return !kind->progressive && !kind->one_scan_each && !kind->arithmetic && !grey_with_factors;
}

static void baseline_files_of_one_scan_have_marks(void **state)
{
    for (uint32_t i = 0; packer_kind(i); i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        if (check_file(*state, &jpeg) != can_be_marked(packer_kind(i)))
            fail_msg("kind %u", i);
        mr_test_image_free(&jpeg);
    }
    struct mr_test_image png =
        mr_test_png(&(struct mr_test_png){.width = 30, .height = 20, .colour_type = 2});
    assert_false(check_file(*state, &png));
    mr_test_image_free(&png);
}

static void odd_files_are_kept_as_they_are_kept_without_marks(void **state)
{
    uint32_t random = 1, n_marked = 0;
    for (uint32_t i = 0; i < 200; i++) {
        struct mr_test_jpeg options = {.width = 60, .height = 50, .restart = i % 3};
        struct mr_test_image jpeg = mr_test_jpeg(&options);
        size_t start = i % 2 ? mr_test_scan_start(&jpeg) : 0;
        random = random * 1664525u + 1013904223u;
        jpeg.bytes[start + (random >> 4) % (jpeg.len - start)] ^= (uint8_t)(1u << i % 8);
        if (i % 10 == 9)
            jpeg.len -= 1 + i % 40;
        n_marked += check_file(*state, &jpeg);
        mr_test_image_free(&jpeg);
    }
    assert_in_range(n_marked, 1, 180); /* some changes only alter pixels */
}

static void expect_refused(struct packers *packers, const struct mr_packed_image *image,
                           const uint8_t *bytes, const uint8_t *marks, size_t marks_len,
                           const char *words)
{
    mr_error error = {0};
    assert_error(mr_packer_check_marks(packers->plain, image, bytes, marks, marks_len, &error),
                 MR_ERR_DAMAGED, &error, words);
}

static void marks_of_something_else_are_found(void **state)
{
    struct packers *packers = *state;
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 90, .height = 70});
    struct mr_test_image other =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 90, .height = 70, .seed = 1});
    struct mr_packed_sample sample = packer_pack(packers->marking, jpeg.bytes, jpeg.len);
    size_t len = sample.image.marks_len;
    uint8_t *marks = malloc(len);
    assert_non_null(marks);
    for (size_t i = 0; i < len; i++) {
        memcpy(marks, sample.image.marks, len);
        marks[i] ^= 1;
        expect_refused(packers, &sample.image, sample.bytes, marks, len,
                       "its JPEG index was altered");
        uint64_t checksum = mr_xxh3(marks + sizeof checksum, len - sizeof checksum);
        memcpy(marks, &checksum, sizeof checksum);
        if (i >= sizeof checksum)
            expect_refused(packers, &sample.image, sample.bytes, marks, len, "its JPEG index ");
    }
    memcpy(marks, sample.image.marks, len);
    expect_refused(packers, &sample.image, sample.bytes, marks, len - 1,
                   "its JPEG index was altered");
    expect_refused(packers, &sample.image, sample.bytes, NULL, 0, "its JPEG index was altered");
    struct mr_packed_image image = sample.image;
    image.len = other.len;
    expect_refused(packers, &image, other.bytes, marks, len,
                   "its JPEG index does not match its bytes");
    image.len = jpeg.len / 2;
    expect_refused(packers, &image, jpeg.bytes, marks, len,
                   "it has a JPEG index, but none can be made for its file: ");
    image = sample.image;
    image.width--;
    expect_refused(packers, &image, jpeg.bytes, marks, len,
                   "its entry in the pack's index does not match its bytes");
    struct mr_packed_template template = *sample.image.template;
    template.quant[1][5]++;
    image = sample.image;
    image.template = &template;
    expect_refused(packers, &image, jpeg.bytes, marks, len,
                   "its entry in the pack's index does not match its bytes");
    free(marks);
    mr_test_image_free(&jpeg);
    mr_test_image_free(&other);
}

static void libjpeg_alone_makes_no_marks_and_looks_at_checksums(void **state)
{
    struct packers *packers = *state;
    struct mr_packer_options options = marking;
    assert_true(mr_packer_makes_marks(packers->marking));
    assert_false(mr_packer_makes_marks(packers->plain));
    options.stock_jpeg = true;
    struct mr_packer *stock = packer_make(&options);
    assert_false(mr_packer_makes_marks(stock));
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 90, .height = 70});
    struct mr_packed_sample sample = packer_pack(stock, jpeg.bytes, jpeg.len);
    assert_int_equal(sample.image.encoding, MR_PACKED_JPEG);
    assert_string_equal(sample.why, "");
    sample = packer_pack(packers->marking, jpeg.bytes, jpeg.len);
    size_t len = sample.image.marks_len;
    uint8_t *marks = malloc(len);
    assert_non_null(marks);
    memcpy(marks, sample.image.marks, len);
    assert_int_equal(mr_packer_check_marks(stock, &sample.image, sample.bytes, marks, len, NULL),
                     MR_OK);
    marks[len / 2] ^= 1;
    assert_int_equal(mr_packer_check_marks(stock, &sample.image, sample.bytes, marks, len, NULL),
                     MR_ERR_DAMAGED);
    free(marks);
    mr_packer_destroy(stock);
    mr_test_image_free(&jpeg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(baseline_files_of_one_scan_have_marks),
        cmocka_unit_test(odd_files_are_kept_as_they_are_kept_without_marks),
        cmocka_unit_test(marks_of_something_else_are_found),
        cmocka_unit_test(libjpeg_alone_makes_no_marks_and_looks_at_checksums),
    };
    return cmocka_run_group_tests(tests, make_packers, free_packers);
}
