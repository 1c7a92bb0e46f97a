/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Marks, rows and bytes that do not belong together or were altered: they are refused, or they give
 * some pixels, and nothing worse. AddressSanitizer and UBSan watch this.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh3.h"
#include "tests/support/scans.h"
#include "tests/transforms/marked_box.h"
#include "tests/transforms/packed_sample.h"
#include "transforms/codec_marked.h"
#include "transforms/jpeg/jpeg_marks.h"
#include "transforms/packed.h"
#include "transforms/packed_selftest.h"
#include "transforms/simd/kernels.h"

#define WIDTH 300
#define HEIGHT 90
#define HEAD_AT 24

static const struct mr_codec_limits zeros;
static uint8_t pixels[WIDTH * HEIGHT * 3];

static uint32_t draw(uint32_t *random, size_t below)
{
    *random = *random * 1664525u + 1013904223u;
    return (uint32_t)((*random >> 4) % below);
}

static struct mr_test_image make_file(uint32_t seed)
{
    return mr_test_jpeg(&(struct mr_test_jpeg){
        .width = WIDTH, .height = HEIGHT, .seed = seed, .restart = seed % 3 ? 0 : 7});
}

/* Set the checksum of the marks as they are now. */
static void seal_marks(uint8_t *marks, size_t len)
{
    uint64_t sum = mr_xxh3(marks + 8, len - 8);
    for (int i = 0; i < 8; i++)
        marks[i] = (uint8_t)(sum >> 8 * i);
}

static mr_status decode(void *state, const struct packed_sample *sample, uint32_t number,
                        mr_error *error)
{
    struct scan_box box = scan_pair_box(number, WIDTH, HEIGHT);
    mr_status status = marked_box_decode(state, &sample->image, sample->bytes, &box, pixels, error);
    if (status != MR_OK && status != MR_ERR_DAMAGED)
        fail_msg("status %d: %s", status, error->text);
    return status;
}

static void expect_damage(void *state, const struct packed_sample *sample, const char *text)
{
    mr_error error = {0};
    mr_status status = decode(state, sample, 5, &error);
    assert_string_equal(error.text, text);
    assert_int_equal(status, MR_ERR_DAMAGED);
}

static void marks_that_are_altered_or_cut_are_refused(void **state)
{
    struct mr_test_image image = make_file(1);
    struct packed_sample sample;
    assert_true(packed_sample_marked(&image, &sample));
    size_t len = sample.image.marks_len;
    for (size_t i = 0; i < len; i++) {
        sample.marks[i] ^= (uint8_t)(1u << i % 8);
        expect_damage(*state, &sample, "the JPEG's index is damaged");
        sample.marks[i] ^= (uint8_t)(1u << i % 8);
    }
    for (sample.image.marks_len = 0; sample.image.marks_len < len; sample.image.marks_len++) {
        if (sample.image.marks_len > 8)
            seal_marks(sample.marks, sample.image.marks_len);
        expect_damage(*state, &sample, "the JPEG's index is damaged");
    }
    packed_sample_free(&sample);
    mr_test_image_free(&image);
}

/* Altered marks with a right checksum: a hostile pack may have them. */
static void altered_marks_with_their_checksum_do_no_harm(void **state)
{
    uint32_t random = 1, n_refused = 0, n = 0;
    for (uint32_t seed = 0; seed < 6; seed++) {
        struct mr_test_image image = make_file(seed);
        struct packed_sample sample;
        assert_true(packed_sample_marked(&image, &sample));
        size_t len = sample.image.marks_len;
        uint8_t *good = malloc(len);
        assert_non_null(good);
        memcpy(good, sample.marks, len);
        for (uint32_t round = 0; round < 400; round++, n++) {
            mr_error error;
            memcpy(sample.marks, good, len);
            for (uint32_t k = 0; k <= round % 3; k++) {
                size_t at = 8 + draw(&random, round % 2 ? len - 8 : HEAD_AT + 600);
                sample.marks[at] =
                    (uint8_t)(round % 5 ? sample.marks[at] ^ 1u << draw(&random, 8) : 0xff);
            }
            seal_marks(sample.marks, len);
            n_refused += decode(*state, &sample, round, &error) != MR_OK;
        }
        free(good);
        packed_sample_free(&sample);
        mr_test_image_free(&image);
    }
    print_message("%u of %u refused\n", n_refused, n);
    assert_in_range(n_refused, n / 10, n - n / 10);
}

static void altered_bytes_do_no_harm(void **state)
{
    uint32_t random = 1, n_refused = 0, n = 0;
    for (uint32_t seed = 0; seed < 6; seed++) {
        struct mr_test_image image = make_file(seed);
        struct packed_sample sample;
        assert_true(packed_sample_marked(&image, &sample));
        uint32_t first = sample.rows[0], end = sample.rows[sample.image.n_rows];
        for (uint32_t round = 0; round < 400; round++, n++) {
            mr_error error;
            memcpy(sample.bytes, image.bytes, image.len);
            for (uint32_t k = 0; k < 4 + round % 40; k++) {
                uint8_t *at = sample.bytes + first + draw(&random, end - first);
                *at = (uint8_t)(k % 4 ? *at ^ 1u << draw(&random, 8) : 0xff);
            }
            n_refused += decode(*state, &sample, round, &error) != MR_OK;
        }
        packed_sample_free(&sample);
        mr_test_image_free(&image);
    }
    print_message("%u of %u refused\n", n_refused, n);
    assert_in_range(n_refused, n / 10, n - n / 10);
}

/* The description may be a pack's, or a cache's old one of another file. */
static void altered_rows_do_no_harm(void **state)
{
    uint32_t random = 1, n_refused = 0;
    struct mr_test_image image = make_file(2);
    struct packed_sample sample;
    assert_true(packed_sample_marked(&image, &sample));
    uint32_t n_rows = sample.image.n_rows, last = (uint32_t)image.len;
    for (uint32_t round = 0; round < 500; round++) {
        mr_error error;
        for (uint32_t r = 0; r <= n_rows; r++)
            sample.rows[r] =
                r == 0 ? draw(&random, last)
                       : sample.rows[r - 1] + draw(&random, last - sample.rows[r - 1] + (size_t)1);
        assert_int_equal(mr_packed_check(&sample.image, &zeros, NULL), MR_OK);
        n_refused += decode(*state, &sample, round, &error) != MR_OK;
    }
    assert_in_range(n_refused, 250, 499);
    packed_sample_free(&sample);
    mr_test_image_free(&image);
}

static void marks_of_another_file_do_no_harm(void **state)
{
    struct mr_test_image image = make_file(1);
    struct packed_sample sample, other;
    mr_error error;
    assert_true(packed_sample_marked(&image, &sample));
    for (uint32_t seed = 2; seed < 12; seed++) {
        struct mr_test_image another = make_file(seed);
        assert_true(packed_sample_marked(&another, &other));
        for (uint32_t number = 0; number < 20; number++) {
            struct packed_sample mixed = sample;
            mixed.image.marks = other.marks; /* the rows and bytes of one, the marks of the other */
            mixed.image.marks_len = other.image.marks_len;
            decode(*state, &mixed, number, &error);
            mixed.image.rows = other.rows; /* only the bytes of one */
            if (other.rows[other.image.n_rows] <= image.len)
                decode(*state, &mixed, number, &error);
        }
        packed_sample_free(&other);
        mr_test_image_free(&another);
    }
    packed_sample_free(&sample);
    mr_test_image_free(&image);
}

/* The description and the head may contradict each other. */
static void marks_must_fit_the_description(void **state)
{
    static const struct mr_test_jpeg others[] = {
        {.width = WIDTH, .height = HEIGHT - 1},
        {.width = WIDTH - 1, .height = HEIGHT},
        {.width = WIDTH, .height = HEIGHT, .quality = 50},
        {.width = WIDTH, .height = HEIGHT, .colour = MR_TEST_GREY},
        {.width = WIDTH, .height = HEIGHT, .colour = MR_TEST_RGB},
        {.width = WIDTH, .height = HEIGHT, .sampling = {{2, 1}, {1, 1}, {1, 1}}},
    };
    struct mr_test_image image = make_file(1);
    struct packed_sample sample, other;
    assert_true(packed_sample_marked(&image, &sample));
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct mr_test_image another = mr_test_jpeg(&others[i]);
        assert_true(packed_sample_marked(&another, &other));
        struct packed_sample mixed = sample;
        mixed.image.marks = other.marks;
        mixed.image.marks_len = other.image.marks_len;
        expect_damage(*state, &mixed,
                      i < 2 ? "the JPEG's index does not fit its size"
                            : "the JPEG's index does not fit its image");
        packed_sample_free(&other);
        mr_test_image_free(&another);
    }
    packed_sample_free(&sample);
    mr_test_image_free(&image);
}

static void store_u32(uint8_t *at, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        at[i] = (uint8_t)(value >> 8 * i);
}

static void marks_must_be_as_many_as_the_picture_needs(void **state)
{
    struct mr_test_image image = make_file(1);
    struct packed_sample sample;
    struct mr_jpeg_marks marks;
    assert_true(packed_sample_marked(&image, &sample));
    assert_true(mr_jpeg_marks_parse(sample.marks, sample.image.marks_len, &marks));
    for (uint32_t n = 0; n < marks.n_marks; n++) {
        struct packed_sample fewer = sample;
        store_u32(sample.marks + 16, n);
        fewer.image.marks_len = HEAD_AT + marks.head_len + n * (size_t)(4 + 3 * 2);
        seal_marks(sample.marks, fewer.image.marks_len);
        expect_damage(*state, &fewer, "the JPEG's index does not fit its image");
    }
    /* And they must have as many components: 6 * (4 + 3 * 2) bytes are also 5 * (4 + 4 * 2). */
    for (uint32_t n = 0; n < 9; n++) {
        struct packed_sample fewer = sample;
        store_u32(sample.marks + 16, marks.n_marks);
        store_u32(sample.marks + 20, n);
        fewer.image.marks_len = HEAD_AT + marks.head_len + (size_t)marks.n_marks * (4 + n * 2);
        if (n == 3 || fewer.image.marks_len > sample.image.marks_len)
            continue;
        seal_marks(sample.marks, fewer.image.marks_len);
        expect_damage(*state, &fewer,
                      n == 0 ? "the JPEG's index is damaged"
                             : "the JPEG's index does not fit its image");
    }
    packed_sample_free(&sample);
    mr_test_image_free(&image);
}

static void bytes_that_are_not_there_are_damage(void **state)
{
    struct mr_test_image image = make_file(3);
    struct packed_sample sample;
    const struct scan_box box = {20, 40, 100, 20};
    const struct mr_box need = {20, 40, 100, 20};
    uint64_t offset, len;
    mr_error error;
    assert_true(packed_sample_marked(&image, &sample));
    mr_packed_range(&sample.image, need, &offset, &len);
    uint64_t end = offset + len;
    assert_int_equal(marked_box_decode_part(*state, &sample.image, sample.bytes, offset - 1,
                                            len + 9, &box, pixels, NULL),
                     MR_OK);
    for (uint64_t first = offset + 1; first < end; first += 1 + first / 8) {
        assert_int_equal(marked_box_decode_part(*state, &sample.image, sample.bytes, first,
                                                end - first, &box, pixels, &error),
                         MR_ERR_DAMAGED);
        assert_string_equal(error.text, "the JPEG's index does not fit its bytes");
    }
    for (uint64_t n = 0; n < len; n += 1 + n / 8) {
        mr_status status = marked_box_decode_part(*state, &sample.image, sample.bytes, offset, n,
                                                  &box, pixels, NULL);
        if (n < len / 2) /* the others may be what the last row's end reads */
            assert_int_equal(status, MR_ERR_DAMAGED);
    }
    packed_sample_free(&sample);
    mr_test_image_free(&image);
}

static int make_state(void **state)
{
    *state = marked_box_make(mr_kernels_best());
    return 0;
}

static int destroy_state(void **state)
{
    mr_codec_marked.destroy(*state);
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(marks_that_are_altered_or_cut_are_refused),
        cmocka_unit_test(altered_marks_with_their_checksum_do_no_harm),
        cmocka_unit_test(altered_bytes_do_no_harm),
        cmocka_unit_test(altered_rows_do_no_harm),
        cmocka_unit_test(marks_of_another_file_do_no_harm),
        cmocka_unit_test(marks_must_fit_the_description),
        cmocka_unit_test(marks_must_be_as_many_as_the_picture_needs),
        cmocka_unit_test(bytes_that_are_not_there_are_damage),
    };
    if (mr_packed_selftest_check_marks(NULL) != MR_OK) {
        printf("this libjpeg does not accept a decoder of scans\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, make_state, destroy_state);
}
