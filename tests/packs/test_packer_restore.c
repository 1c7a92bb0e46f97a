/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Files out of packs: byte for byte where that was asked for, otherwise with the same pixels. A damaged pack never
 * causes a crash.
 */
#include "base/image_format.h"
#include "tests/transforms/packed_sample.h"
#include "tests/packs/packer_support.h"
#include "transforms/packed_selftest.h"
#include "packs/packer_head.h"
#include "packs/packer_restore.h"
#include "packs/packer_tiles.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define RESTORABLE(e) (&(struct mr_packer_options){.encoding = (e), .restorable = true})

static uint32_t draw(uint32_t *random)
{
    *random = *random * 1664525 + 1013904223;
    return *random >> 8;
}

/* Restored by another packer than the one that packed it. */
static struct mr_test_image restore(const struct mr_packed_sample *sample)
{
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT});
    const uint8_t *bytes;
    size_t len;
    mr_error error;
    if (mr_packer_restore(packer, &sample->image, sample->bytes, sample->beside, sample->beside_len, &bytes, &len,
                          &error) != MR_OK)
        fail_msg("%s", error.text);
    struct mr_test_image file = {malloc(len), len};
    assert_non_null(file.bytes);
    memcpy(file.bytes, bytes, len);
    mr_packer_destroy(packer);
    return file;
}

static bool is_sequential(const struct mr_test_jpeg *kind)
{
    return !kind->progressive && !kind->arithmetic && !kind->one_scan_each;
}

static void check_bytes(struct mr_packer *packer, const struct mr_test_image *jpeg)
{
    struct mr_packed_sample sample = packer_pack(packer, jpeg->bytes, jpeg->len);
    assert_string_equal(sample.why, "");
    assert_int_not_equal(sample.image.encoding, MR_PACKED_JPEG);
    assert_true(sample.beside_len > 0 && sample.beside_len < 2000);
    struct mr_test_image again = restore(&sample);
    assert_int_equal(again.len, jpeg->len);
    assert_memory_equal(again.bytes, jpeg->bytes, jpeg->len);
    mr_test_image_free(&again);
}

static void restorable_files_come_back_byte_for_byte(void **state)
{
    (void)state;
    for (uint32_t e = MR_PACKED_DCT; e <= MR_PACKED_DCT8; e++) {
        struct mr_packer *packer = packer_make(RESTORABLE(e));
        for (uint32_t i = 0; packer_kind(i); i++) {
            struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
            if (is_sequential(packer_kind(i))) {
                static const char comment[] = "\xff\xfe\0\7hello";
                struct mr_test_image marked = packer_insert(&jpeg, 2, comment, sizeof comment - 1);
                struct mr_test_image longer = packer_insert(&marked, marked.len, "\0\1\2 trailing \xff", 14);
                check_bytes(packer, &jpeg);
                check_bytes(packer, &longer);
                mr_test_image_free(&marked);
                mr_test_image_free(&longer);
                jpeg.len -= 2; /* no end-of-image marker */
                check_bytes(packer, &jpeg);
                jpeg.len += 2;
            } else {
                struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
                assert_int_equal(sample.image.encoding, MR_PACKED_JPEG);
                assert_false(sample.damaged);
                assert_string_equal(sample.why, "its encoding cannot be restored exactly");
                struct mr_test_image again = restore(&sample);
                assert_int_equal(again.len, jpeg.len);
                assert_memory_equal(again.bytes, jpeg.bytes, jpeg.len);
                mr_test_image_free(&again);
            }
            mr_test_image_free(&jpeg);
        }
        mr_packer_destroy(packer);
    }
}

static void a_scan_padded_with_zeros_comes_back(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(RESTORABLE(MR_PACKED_DCT));
    uint32_t n_different = 0;
    for (uint32_t i = 0; i < 16; i++) {
        struct mr_test_image jpeg =
            mr_test_jpeg(&(struct mr_test_jpeg){.width = 100, .height = 40, .seed = i, .restart = i % 3});
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        uint8_t *beside = malloc(sample.beside_len);
        assert_non_null(beside);
        memcpy(beside, sample.beside, sample.beside_len);
        assert_int_equal(beside[1], 0);
        beside[1] = MR_BESIDE_ZEROS;
        sample.beside = beside;
        struct mr_test_image padded = restore(&sample);
        n_different += padded.len != jpeg.len || memcmp(padded.bytes, jpeg.bytes, jpeg.len) != 0;
        check_bytes(packer, &padded);
        mr_test_image_free(&padded);
        mr_test_image_free(&jpeg);
        free(beside);
    }
    assert_true(n_different > 4);
    mr_packer_destroy(packer);
}

static void what_cannot_be_given_back_is_kept(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(RESTORABLE(MR_PACKED_DCT));
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 100, .height = 40, .restart = 2});
    struct mr_packer_head head;
    mr_packer_head_read(jpeg.bytes, jpeg.len, &head);
    size_t at = head.len;
    while (jpeg.bytes[at] != 0xff || jpeg.bytes[at + 1] != 0xd0)
        at++;
    struct mr_test_image filled = packer_insert(&jpeg, at, "\xff", 1); /* a fill byte before a restart marker */
    struct mr_packed_sample sample = packer_pack(packer, filled.bytes, filled.len);
    assert_int_equal(sample.image.encoding, MR_PACKED_JPEG);
    assert_false(sample.damaged);
    assert_string_equal(sample.why, "its encoding cannot be restored exactly");
    mr_test_image_free(&filled);
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

/* Without what stands beside: the same pixels, and what says so in no other way than the file did. */
static void check_same(const struct mr_packed_sample *sample, const struct mr_test_image *jpeg)
{
    struct mr_codec_limits limits = {0};
    struct mr_codec *codec;
    struct mr_image_head head;
    uint32_t width, height, again_width, again_height;
    struct mr_packed_sample bare = *sample;
    bare.beside_len = 0;
    struct mr_test_image again = restore(&bare);
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

static void files_of_the_same_pixels_are_made_without_the_header(void **state)
{
    (void)state;
    for (uint32_t e = MR_PACKED_DCT; e <= MR_PACKED_DCT8; e++) {
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
    assert_true(again.len < jpeg.len); /* whose Huffman tables are the standard's examples */
    mr_test_image_free(&again);
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
}

static void any_coefficients_come_back(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(RESTORABLE(MR_PACKED_DCT));
    uint32_t n_packed = 0;
    for (uint32_t i = 0; i < 12; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_test_image extreme = packed_sample_extreme(&jpeg, i);
        struct packed_sample sample;
        assert_true(packed_sample_make(&extreme, MR_PACKED_DCT, &sample));
        const struct mr_packed_sample as_packed = {.image = sample.image, .bytes = sample.bytes};
        struct mr_test_image huffman = restore(&as_packed);
        struct mr_packed_sample again = packer_pack(packer, huffman.bytes, huffman.len);
        n_packed += again.image.encoding == MR_PACKED_DCT;
        if (again.image.encoding == MR_PACKED_DCT) {
            assert_int_equal(again.image.len, sample.image.len);
            assert_memory_equal(again.bytes, sample.bytes, sample.image.len);
            assert_memory_equal(&again.template, &sample.template, sizeof again.template);
        }
        packed_sample_free(&sample);
        mr_test_image_free(&huffman);
        mr_test_image_free(&extreme);
        mr_test_image_free(&jpeg);
    }
    assert_true(n_packed >= 10);
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

/* Copies that end where the sample's memory ends, for a sanitizer to see a byte too many. */
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
    struct mr_packer *packer = packer_make(RESTORABLE(MR_PACKED_DCT));
    struct mr_packer *other = packer_make(RESTORABLE(MR_PACKED_DCT));
    uint32_t random = 1, n_damaged = 0;
    for (uint32_t i = 0; i < 600; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i % 12));
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        size_t beside_len = i % 5 == 0 ? draw(&random) % sample.beside_len : sample.beside_len;
        uint8_t *bytes = copy_of(sample.bytes, sample.image.len, MR_TILE_SLACK);
        uint8_t *beside = copy_of(sample.beside, beside_len, 1);
        for (uint32_t k = i % 7; k > 0; k--) {
            uint32_t bit = draw(&random), at = draw(&random);
            if (i % 2)
                bytes[at % sample.image.len] ^= (uint8_t)(1u << bit % 8);
            else if (beside_len > 0)
                beside[at % beside_len] ^= (uint8_t)(1u << bit % 8);
        }
        const uint8_t *file;
        size_t len;
        mr_error error;
        mr_status status =
            mr_packer_restore(other, &sample.image, bytes, beside, i % 3 ? beside_len : 0, &file, &len, &error);
        assert_true(status == MR_OK || status == MR_ERR_DAMAGED);
        n_damaged += status == MR_ERR_DAMAGED;
        free(bytes);
        free(beside);
        mr_test_image_free(&jpeg);
    }
    assert_in_range(n_damaged, 50, 550);
    mr_packer_destroy(packer);
    mr_packer_destroy(other);
}

static void tiles_that_claim_too_much_are_damaged(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(RESTORABLE(MR_PACKED_DCT8));
    struct mr_packer *other = packer_make(RESTORABLE(MR_PACKED_DCT8));
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
        assert_int_equal(
            mr_packer_restore(other, &sample.image, bytes, sample.beside, sample.beside_len, &file, &len, &error),
            MR_ERR_DAMAGED);
        snprintf(words, sizeof words, "row %u ", i / n_tiles);
        assert_non_null(strstr(error.text, words));
        free(bytes);
    }
    mr_test_image_free(&jpeg);
    mr_packer_destroy(packer);
    mr_packer_destroy(other);
}

static void another_files_header_is_refused(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(RESTORABLE(MR_PACKED_DCT));
    struct mr_test_image a = mr_test_jpeg(&(struct mr_test_jpeg){.width = 60, .height = 60});
    struct mr_test_image b =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 60, .height = 60, .sampling = {{1, 1}, {1, 1}, {1, 1}}});
    struct mr_packed_sample sample = packer_pack(packer, b.bytes, b.len);
    size_t len = sample.beside_len, file_len;
    const uint8_t *file;
    uint8_t *beside = copy_of(sample.beside, len, 1);
    mr_error error;
    sample = packer_pack(packer, a.bytes, a.len);
    assert_int_equal(mr_packer_restore(packer, &sample.image, sample.bytes, beside, len, &file, &file_len, &error),
                     MR_ERR_DAMAGED);
    assert_non_null(strstr(error.text, "beside"));
    free(beside);
    mr_test_image_free(&a);
    mr_test_image_free(&b);
    mr_packer_destroy(packer);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(restorable_files_come_back_byte_for_byte),
        cmocka_unit_test(a_scan_padded_with_zeros_comes_back),
        cmocka_unit_test(what_cannot_be_given_back_is_kept),
        cmocka_unit_test(files_of_the_same_pixels_are_made_without_the_header),
        cmocka_unit_test(files_that_are_made_are_no_longer_than_they_must_be),
        cmocka_unit_test(any_coefficients_come_back),
        cmocka_unit_test(pixels_become_a_png),
        cmocka_unit_test(damaged_packs_are_errors_or_files),
        cmocka_unit_test(tiles_that_claim_too_much_are_damaged),
        cmocka_unit_test(another_files_header_is_refused),
    };
    mr_error why_not;
    if (mr_packed_selftest_check(&why_not) != MR_OK) {
        printf("%s\n", why_not.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
