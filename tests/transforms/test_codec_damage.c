/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files that end early or have wrong bits: the pixels are those of the whole file, or the image is
 * damaged. Afterwards the codec works as if it were new.
 */
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_SUBJECTS 12

struct subject {
    const char *name;
    struct mr_test_image image;
    uint8_t *full;
    uint32_t width, height;
};

struct fixture {
    struct mr_codec *codec;
    struct subject subjects[N_SUBJECTS];
};

enum { PNG_FROM = 10 };

static const struct mr_test_jpeg jpegs[PNG_FROM] = {
    {.width = 90, .height = 70},
    {.width = 70, .height = 90, .sampling = {{1, 1}, {1, 1}, {1, 1}}},
    {.width = 90, .height = 70, .sampling = {{1, 2}, {1, 1}, {1, 1}}},
    {.width = 90, .height = 70, .restart = 2},
    {.width = 90, .height = 70, .progressive = true},
    {.width = 90, .height = 70, .progressive = true, .restart = 4},
    {.width = 90, .height = 70, .one_scan_each = true},
    {.width = 90, .height = 70, .colour = MR_TEST_GREY},
    {.width = 60, .height = 50, .colour = MR_TEST_YCCK},
    {.width = 90, .height = 70, .arithmetic = true},
};

static const char *const names[N_SUBJECTS] = {
    "4:2:0",         "4:4:4", "4:4:0", "restart",    "progressive", "progressive with restarts",
    "one scan each", "grey",  "ycck",  "arithmetic", "png",         "interlaced png"};

static int make_fixture(void **state)
{
    struct fixture *fixture = calloc(1, sizeof *fixture);
    assert_non_null(fixture);
    fixture->codec = codec_make();
    for (int i = 0; i < N_SUBJECTS; i++) {
        struct subject *subject = &fixture->subjects[i];
        subject->name = names[i];
        if (i < PNG_FROM) {
            subject->image = mr_test_jpeg(&jpegs[i]);
            subject->full = mr_test_jpeg_pixels(subject->image.bytes, subject->image.len,
                                                &subject->width, &subject->height);
            continue;
        }
        struct mr_test_png png = {
            .width = 60, .height = 50, .colour_type = 2, .interlaced = i > PNG_FROM};
        subject->image = mr_test_png(&png);
        subject->full = mr_test_png_pixels(&png);
        subject->width = png.width;
        subject->height = png.height;
    }
    *state = fixture;
    return 0;
}

static int destroy_fixture(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        mr_test_image_free(&fixture->subjects[i].image);
        free(fixture->subjects[i].full);
    }
    mr_codec_destroy(fixture->codec);
    free(fixture);
    return 0;
}

/* A copy that ends where the allocation ends, so that AddressSanitizer sees a read past it. */
static uint8_t *copy_exactly(const uint8_t *bytes, size_t len)
{
    uint8_t *copy = malloc(len ? len : 1);
    assert_non_null(copy);
    if (len)
        memcpy(copy, bytes, len);
    return copy;
}

/* Decode a box of the first len bytes: MR_OK only with the right pixels. */
static mr_status decode_part(struct mr_codec *codec, const struct subject *subject, size_t len,
                             const struct codec_box *box, mr_error *error)
{
    uint8_t *bytes = copy_exactly(subject->image.bytes, len);
    uint8_t *pixels;
    mr_status status = codec_decode(codec, bytes, len, box, NULL, &pixels, error);
    if (status == MR_OK && !codec_box_equals(subject->full, subject->width, box, pixels))
        fail_msg("%s: box %u,%u %ux%u of the first %zu of %zu bytes differs", subject->name, box->x,
                 box->y, box->width, box->height, len, subject->image.len);
    if (status != MR_OK)
        assert_int_equal(status, MR_ERR_DAMAGED);
    free(pixels);
    free(bytes);
    return status;
}

static void a_truncated_file_gives_right_rows_or_is_damaged(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &fixture->subjects[i];
        struct codec_box boxes[] = {{0, 0, subject->width, subject->height},
                                    {5, 0, 40, 9},
                                    {20, 20, 7, 11},
                                    {0, subject->height - 1, 1, 1}};
        for (size_t len = 0; len < subject->image.len; len += 29) {
            for (size_t k = 0; k < sizeof boxes / sizeof boxes[0]; k++)
                decode_part(fixture->codec, subject, len, &boxes[k], NULL);
        }
    }
}

static void a_file_cut_in_the_middle_is_damaged_below_and_good_above(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 4; i++) { /* the baseline ones */
        const struct subject *subject = &fixture->subjects[i];
        struct codec_box top = {0, 0, subject->width, 8};
        struct codec_box bottom = {3, subject->height - 1, 1, 1};
        mr_error error;
        size_t len = subject->image.len * 2 / 3;
        if (decode_part(fixture->codec, subject, len, &top, &error) != MR_OK)
            fail_msg("%s: %s", subject->name, error.text);
        assert_int_equal(decode_part(fixture->codec, subject, len, &bottom, &error),
                         MR_ERR_DAMAGED);
        assert_string_equal(error.text, "Premature end of JPEG file");
    }
}

static void a_progressive_file_cut_in_its_last_scan_is_good_above(void **state)
{
    struct fixture *fixture = *state;
    const struct subject *subject = &fixture->subjects[4];
    struct codec_box top = {0, 0, subject->width, 5};
    struct codec_box all = {0, 0, subject->width, subject->height};
    mr_error error;
    size_t len = subject->image.len - 40;
    if (decode_part(fixture->codec, subject, len, &top, &error) != MR_OK)
        fail_msg("%s", error.text);
    assert_int_equal(decode_part(fixture->codec, subject, len, &all, &error), MR_ERR_DAMAGED);
    assert_string_equal(error.text, "Premature end of JPEG file");
}

static void a_progressive_file_without_its_last_scan_is_damaged(void **state)
{
    struct fixture *fixture = *state;
    const struct subject *subject = &fixture->subjects[4];
    struct codec_box top = {0, 0, 1, 1};
    size_t len = subject->image.len - 1;
    while (subject->image.bytes[len] != 0xff || subject->image.bytes[len + 1] != 0xda)
        len--;
    assert_int_equal(decode_part(fixture->codec, subject, len, &top, NULL), MR_ERR_DAMAGED);
}

static void only_the_end_marker_may_be_missing(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < PNG_FROM; i++) {
        const struct subject *subject = &fixture->subjects[i];
        struct codec_box all = {0, 0, subject->width, subject->height};
        mr_error error;
        if (jpegs[i].arithmetic) /* the end of its data cannot be found */
            continue;
        if (decode_part(fixture->codec, subject, subject->image.len - 2, &all, &error) != MR_OK)
            fail_msg("%s: %s", subject->name, error.text);
    }
}

static void an_early_end_marker_is_the_end_of_the_data(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < 5; i++) {
        const struct subject *subject = &fixture->subjects[i];
        size_t len = subject->image.len / 2;
        uint8_t *bytes = copy_exactly(subject->image.bytes, len + 2);
        uint8_t *pixels;
        mr_error error;
        memcpy(bytes + len, "\xff\xd9", 2);
        assert_int_equal(codec_decode(fixture->codec, bytes, len + 2, NULL, NULL, &pixels, &error),
                         MR_ERR_DAMAGED);
        assert_int_not_equal(error.text[0], 0);
        free(bytes);
    }
}

static void wrong_bits_never_harm_the_codec(void **state)
{
    struct fixture *fixture = *state;
    uint32_t random = 12345;
    for (int i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &fixture->subjects[i];
        struct codec_box good = {1, 2, subject->width - 3, 20};
        for (int round = 0; round < 150; round++) {
            uint8_t *bytes = copy_exactly(subject->image.bytes, subject->image.len);
            uint8_t *pixels;
            for (int k = 0; k <= round % 3; k++) {
                random = random * 1664525u + 1013904223u;
                /* every other time in the headers */
                size_t limit = round % 2 ? subject->image.len : 700;
                bytes[(random >> 8) % (limit < subject->image.len ? limit : subject->image.len)] ^=
                    1u << (random >> 5) % 8;
            }
            mr_status status =
                codec_decode(fixture->codec, bytes, subject->image.len, NULL, NULL, &pixels, NULL);
            assert_true(status == MR_OK || status == MR_ERR_DAMAGED);
            free(pixels);
            free(bytes);
            if (round % 10 == 0)
                assert_int_equal(
                    decode_part(fixture->codec, subject, subject->image.len, &good, NULL), MR_OK);
        }
    }
}

static void wrong_bits_that_decode_are_counted(void **state)
{
    struct fixture *fixture = *state;
    const struct subject *subject = &fixture->subjects[3];
    uint8_t *bytes = copy_exactly(subject->image.bytes, subject->image.len);
    struct mr_image_head head;
    const uint8_t *rows[8];
    size_t at = subject->image.len / 2;
    while (bytes[at] != 0xff || (bytes[at + 1] & 0xf8) != 0xd0)
        at++;
    /* a restart marker out of order: libjpeg continues */
    bytes[at + 1] = 0xd0 | ((bytes[at + 1] + 1) & 7);
    assert_int_equal(mr_codec_open(fixture->codec, bytes, subject->image.len, &head, NULL), MR_OK);
    assert_int_equal(mr_codec_begin(fixture->codec, 0, 0, head.width, head.height, NULL), MR_OK);
    mr_status status = MR_OK;
    for (uint32_t y = 0, n = 0; y < head.height && status == MR_OK; y += n)
        status = mr_codec_rows(fixture->codec, rows, 8, &n, NULL);
    assert_int_equal(status, MR_OK);
    assert_true(mr_codec_close(fixture->codec) > 0);
    free(bytes);
}

/* A file without its tables must not be decoded by those of the file before it. */
static void tables_of_one_image_are_not_used_for_the_next(void **state)
{
    struct fixture *fixture = *state;
    const struct subject *subject = &fixture->subjects[4];
    struct codec_box all = {0, 0, subject->width, subject->height};
    for (int marker = 0xc4; marker <= 0xdb; marker += 0xdb - 0xc4) { /* DHT, DQT */
        uint8_t *bytes = copy_exactly(subject->image.bytes, subject->image.len);
        uint8_t *pixels;
        mr_error error;
        for (size_t i = 0; i + 1 < subject->image.len; i++) {
            if (bytes[i] == 0xff && bytes[i + 1] == marker)
                bytes[i + 1] = 0xfe; /* a comment */
        }
        assert_int_equal(decode_part(fixture->codec, subject, subject->image.len, &all, NULL),
                         MR_OK);
        assert_int_equal(
            codec_decode(fixture->codec, bytes, subject->image.len, NULL, NULL, &pixels, &error),
            MR_ERR_DAMAGED);
        assert_non_null(strstr(error.text, "was not defined"));
        free(bytes);
    }
}

static void an_image_may_be_left_at_any_point(void **state)
{
    struct fixture *fixture = *state;
    struct mr_image_head head;
    const uint8_t *row;
    uint32_t n;
    for (int i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &fixture->subjects[i];
        struct codec_box all = {0, 0, subject->width, subject->height};
        for (int steps = 0; steps < 4; steps++) {
            assert_int_equal(mr_codec_open(fixture->codec, subject->image.bytes, subject->image.len,
                                           &head, NULL),
                             MR_OK);
            if (steps > 0)
                assert_int_equal(mr_codec_begin(fixture->codec, 3, 4, 10, 30, NULL), MR_OK);
            for (int k = 1; k < steps; k++)
                assert_int_equal(mr_codec_rows(fixture->codec, &row, 1, &n, NULL), MR_OK);
            assert_int_equal(mr_codec_close(fixture->codec), 0);
        }
        assert_int_equal(decode_part(fixture->codec, subject, subject->image.len, &all, NULL),
                         MR_OK);
    }
}

static void a_codec_may_be_destroyed_with_an_image_open(void **state)
{
    struct fixture *fixture = *state;
    for (int i = 0; i < N_SUBJECTS; i++) {
        const struct subject *subject = &fixture->subjects[i];
        struct mr_codec *codec = codec_make();
        struct mr_image_head head;
        assert_int_equal(
            mr_codec_open(codec, subject->image.bytes, subject->image.len, &head, NULL), MR_OK);
        assert_int_equal(mr_codec_begin(codec, 0, 0, 1, 1, NULL), MR_OK);
        mr_codec_destroy(codec);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_truncated_file_gives_right_rows_or_is_damaged),
        cmocka_unit_test(a_file_cut_in_the_middle_is_damaged_below_and_good_above),
        cmocka_unit_test(a_progressive_file_cut_in_its_last_scan_is_good_above),
        cmocka_unit_test(a_progressive_file_without_its_last_scan_is_damaged),
        cmocka_unit_test(only_the_end_marker_may_be_missing),
        cmocka_unit_test(an_early_end_marker_is_the_end_of_the_data),
        cmocka_unit_test(wrong_bits_never_harm_the_codec),
        cmocka_unit_test(wrong_bits_that_decode_are_counted),
        cmocka_unit_test(tables_of_one_image_are_not_used_for_the_next),
        cmocka_unit_test(an_image_may_be_left_at_any_point),
        cmocka_unit_test(a_codec_may_be_destroyed_with_an_image_open),
    };
    return cmocka_run_group_tests(tests, make_fixture, destroy_fixture);
}
