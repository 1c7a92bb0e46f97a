/* SPDX-License-Identifier: Apache-2.0 */
/* Files out of packs have the same pixels. A damaged pack never causes a crash. */
#include "base/image_format.h"
#include "tests/support/assert_words.h"
#include "tests/transforms/packed_sample.h"
#include "tests/packs/packer_support.h"
#include "transforms/packed_selftest.h"
#include "packs/packer_tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define PACKING(e) (&(struct mr_packer_options){.encoding = (e)})

static uint32_t draw(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

/* Restore the file with a packer that is not the one that packed it. */
static struct mr_test_image restore(const struct mr_packed_sample *sample)
{
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    const uint8_t *bytes;
    size_t len;
    mr_error error;
    assert_ok(mr_packer_restore(packer, &sample->image, sample->bytes, &bytes, &len, &error),
              &error);
    struct mr_test_image file = {malloc(len), len};
    assert_non_null(file.bytes);
    memcpy(file.bytes, bytes, len);
    mr_packer_destroy(packer);
    return file;
}

/* The same pixels, size and orientation, and no warning of a decoder. */
static void check_same(const struct mr_packed_sample *sample, const struct mr_test_image *jpeg)
{
    struct mr_codec_limits limits = {0};
    struct mr_codec *codec;
    struct mr_image_head head;
    uint32_t width, height, again_width, again_height;
    struct mr_test_image again = restore(sample);
    uint8_t *full = mr_test_jpeg_pixels(jpeg->bytes, jpeg->len, &width, &height);
    uint8_t *made = mr_test_jpeg_pixels(again.bytes, again.len, &again_width, &again_height);
    assert_int_equal(width, again_width);
    assert_int_equal(height, again_height);
    assert_memory_equal(full, made, (size_t)width * height * 3);
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    assert_int_equal(mr_codec_open(codec, again.bytes, again.len, &head, NULL), MR_OK);
    assert_int_equal(mr_codec_close(codec), 0);
    assert_int_equal(head.orientation, sample->image.orientation);
    mr_codec_destroy(codec);
    mr_test_image_free(&again);
    free(full);
    free(made);
}

static void files_have_the_same_pixels(void **state)
{
    (void)state;
    for (uint32_t e = MR_PACKED_DCT; e <= MR_PACKED_DCT; e++) {
        struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = e});
        for (uint32_t i = 0; packer_kind(i); i++) {
            struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
            struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
            check_same(&sample, &jpeg);
            mr_test_image_free(&jpeg);
        }
        mr_packer_destroy(packer);
    }
}

static void files_that_are_made_are_no_longer_than_they_must_be(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 300, .height = 200});
    struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
    struct mr_test_image again = restore(&sample);
    /* jpeg has the standard's Huffman tables, again has optimised ones */
    assert_true(again.len < jpeg.len);
    mr_test_image_free(&again);
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

/*
 * A coefficient in an arithmetic-coded JPEG may have more than 10 bits; in a Huffman-coded JPEG of
 * 8 bits it may not.
 */
static void coefficients_that_no_jpeg_can_have_are_named(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(PACKING(MR_PACKED_DCT));
    for (uint32_t i = 0; i < 12; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_test_image extreme = packed_sample_extreme(&jpeg, i);
        struct packed_sample sample;
        const uint8_t *file;
        size_t len;
        mr_error error;
        assert_true(packed_sample_make(&extreme, MR_PACKED_DCT, &sample));
        assert_int_equal(
            mr_packer_restore(packer, &sample.image, sample.bytes, &file, &len, &error),
            MR_ERR_DAMAGED);
        assert_string_equal(error.text, "DCT coefficient out of range");
        packed_sample_free(&sample);
        mr_test_image_free(&extreme);
        mr_test_image_free(&jpeg);
    }
    mr_packer_destroy(packer);
}

static void pixels_become_a_png(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_RAW});
    struct mr_test_image jpeg = mr_test_jpeg(packer_kind(2));
    struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
    assert_int_equal(sample.image.encoding, MR_PACKED_RAW);
    struct mr_test_image png = restore(&sample);
    assert_string_equal(mr_image_format_sniff(png.bytes, png.len), "png");
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
    struct mr_packed_sample again = packer_pack(packer, png.bytes, png.len);
    assert_int_equal(again.image.width, width);
    assert_int_equal(again.image.height, height);
    assert_int_equal(again.image.orientation, 6);
    assert_memory_equal(again.bytes, full, (size_t)width * height * 3);
    free(full);
    mr_test_image_free(&png);
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

/* Copies in blocks of exactly their length, so that a sanitizer sees a read past the end. */
static uint8_t *copy_of(const uint8_t *bytes, size_t len, size_t slack)
{
    uint8_t *copy = calloc(1, len + slack);
    assert_non_null(copy);
    memcpy(copy, bytes, len);
    return copy;
}

static void damaged_packs_are_errors_or_files(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(PACKING(MR_PACKED_DCT));
    struct mr_packer *other = packer_make(PACKING(MR_PACKED_DCT));
    uint32_t random = 1, n_damaged = 0;
    for (uint32_t i = 0; i < 600; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i % 12));
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        uint8_t *bytes = copy_of(sample.bytes, sample.image.len, MR_TILE_SLACK);
        for (uint32_t k = i % 7; k > 0; k--) {
            uint32_t bit = draw(&random), at = draw(&random);
            bytes[at % sample.image.len] ^= (uint8_t)(1u << bit % 8);
        }
        const uint8_t *file;
        size_t len;
        mr_error error;
        mr_status status = mr_packer_restore(other, &sample.image, bytes, &file, &len, &error);
        assert_true(status == MR_OK || status == MR_ERR_DAMAGED);
        n_damaged += status == MR_ERR_DAMAGED;
        free(bytes);
        mr_test_image_free(&jpeg);
    }
    assert_in_range(n_damaged, 50, 550);
    mr_packer_destroy(packer);
    mr_packer_destroy(other);
}

static void tiles_that_claim_too_much_are_damaged(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(PACKING(MR_PACKED_DCT));
    struct mr_packer *other = packer_make(PACKING(MR_PACKED_DCT));
    struct mr_test_image jpeg = mr_test_jpeg(packer_kind(0));
    struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
    uint32_t n_tiles = (200 + 127) / 128;
    for (uint32_t i = 0; i < sample.image.n_rows * n_tiles; i++) {
        uint8_t *bytes = copy_of(sample.bytes, sample.image.len, MR_TILE_SLACK);
        size_t size = sample.image.rows[i / n_tiles] + 2 * (size_t)(i % n_tiles);
        const uint8_t *file;
        size_t len;
        mr_error error;
        char words[40];
        bytes[size] = bytes[size + 1] = 0xff;
        assert_int_equal(mr_packer_restore(other, &sample.image, bytes, &file, &len, &error),
                         MR_ERR_DAMAGED);
        snprintf(words, sizeof words, "row %u ", i / n_tiles);
        assert_words(error.text, words);
        free(bytes);
    }
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
    mr_packer_destroy(other);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(files_have_the_same_pixels),
        cmocka_unit_test(files_that_are_made_are_no_longer_than_they_must_be),
        cmocka_unit_test(coefficients_that_no_jpeg_can_have_are_named),
        cmocka_unit_test(pixels_become_a_png),
        cmocka_unit_test(damaged_packs_are_errors_or_files),
        cmocka_unit_test(tiles_that_claim_too_much_are_damaged),
    };
    mr_error why_not;
    if (mr_packed_selftest_check(&why_not) != MR_OK) {
        printf("%s\n", why_not.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
