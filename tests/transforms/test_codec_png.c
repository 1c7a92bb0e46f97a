/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The PNG codec against the patterns that the files were made from, so the right pixels are known
 * without a decoder.
 */
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Every colour type with every depth that PNG allows it. */
static const int kinds[][2] = {{0, 1}, {0, 2}, {0, 4}, {0, 8}, {0, 16}, {2, 8}, {2, 16}, {3, 1},
                               {3, 2}, {3, 4}, {3, 8}, {4, 8}, {4, 16}, {6, 8}, {6, 16}};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static const uint32_t sizes[][2] = {{1, 1}, {3, 2}, {9, 17}, {40, 33}, {1, 300}, {300, 1}};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static void check_boxes(struct mr_codec *codec, const struct mr_test_png *options)
{
    struct mr_test_image image = mr_test_png(options);
    uint8_t *full = mr_test_png_pixels(options);
    for (uint32_t i = 0; i < 12; i++) {
        struct codec_box box = codec_box_at(i, options->width, options->height);
        uint8_t *pixels;
        struct mr_image_head head;
        mr_error error;
        if (codec_decode(codec, image.bytes, image.len, &box, &head, &pixels, &error) != MR_OK)
            fail_msg("type %d, depth %d: %s", options->colour_type, options->depth, error.text);
        assert_int_equal(head.width, options->width);
        assert_int_equal(head.height, options->height);
        if (!codec_box_equals(full, options->width, &box, pixels))
            fail_msg("type %d, depth %d, interlaced %d, %ux%u: box %u,%u %ux%u differs",
                     options->colour_type, options->depth, options->interlaced, options->width,
                     options->height, box.x, box.y, box.width, box.height);
        free(pixels);
    }
    free(full);
    mr_test_image_free(&image);
}

static void every_colour_type_and_depth_becomes_rgb(void **state)
{
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        for (size_t i = 0; i < N_SIZES; i++) {
            for (int form = 0; form < 4; form++) {
                struct mr_test_png options = {
                    .width = sizes[i][0], .height = sizes[i][1], .seed = (uint32_t)i};
                options.colour_type = kinds[kind][0];
                options.depth = kinds[kind][1];
                options.interlaced = form & 1;
                options.transparency = form & 2 && options.colour_type < 4;
                check_boxes(*state, &options);
            }
        }
    }
}

static void orientation_comes_from_exif(void **state)
{
    for (uint32_t orientation = 0; orientation <= 8; orientation++) {
        struct mr_test_image image = mr_test_png(&(struct mr_test_png){
            .width = 4, .height = 4, .colour_type = 2, .orientation = orientation});
        struct mr_image_head head;
        assert_int_equal(mr_codec_open(*state, image.bytes, image.len, &head, NULL), MR_OK);
        assert_int_equal(head.orientation, orientation ? orientation : 1);
        mr_codec_close(*state);
        mr_test_image_free(&image);
    }
}

static struct mr_test_image large_png(void)
{
    return mr_test_png(&(struct mr_test_png){.width = 200, .height = 200, .colour_type = 2});
}

/* The byte at which the data of the n-th IDAT chunk begin. */
static size_t find_idat(const struct mr_test_image *image, int n)
{
    for (size_t i = 0; i + 4 < image->len; i++) {
        if (memcmp(image->bytes + i, "IDAT", 4) == 0 && n-- == 0)
            return i + 4;
    }
    fail_msg("too few IDAT chunks");
    return 0;
}

static size_t chunk_len(const struct mr_test_image *image, size_t data)
{
    const uint8_t *len = image->bytes + data - 8;
    return (size_t)len[0] << 24 | (size_t)len[1] << 16 | (size_t)len[2] << 8 | len[3];
}

/*
 * The first chunk holds more rows than the upper box. libpng itself would give them without
 * checking the CRC.
 */
static void a_wrong_crc_of_the_pixels_is_damage(void **state)
{
    struct mr_test_image image = large_png();
    struct codec_box boxes[] = {{0, 0, 200, 200}, {10, 1, 5, 2}};
    size_t data = find_idat(&image, 0);
    uint8_t *pixels;
    mr_error error;
    image.bytes[data + chunk_len(&image, data)] ^= 1;
    for (int i = 0; i < 2; i++) {
        assert_int_equal(
            codec_decode(*state, image.bytes, image.len, &boxes[i], NULL, &pixels, &error),
            MR_ERR_DAMAGED);
        assert_string_equal(error.text, "IDAT: CRC error");
    }
    mr_test_image_free(&image);
}

static void a_flipped_bit_in_the_header_is_damage(void **state)
{
    struct mr_test_image image = large_png();
    uint8_t *pixels;
    mr_error error;
    image.bytes[19] ^= 4; /* the width in IHDR */
    assert_int_equal(codec_decode(*state, image.bytes, image.len, NULL, NULL, &pixels, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text, "IHDR: CRC error");
    mr_test_image_free(&image);
}

static void rows_above_the_damage_are_good_unless_their_chunk_is_bad(void **state)
{
    struct mr_test_image image = large_png();
    size_t data = find_idat(&image, 3);
    uint8_t *full =
        mr_test_png_pixels(&(struct mr_test_png){.width = 200, .height = 200, .colour_type = 2});
    struct codec_box top = {0, 0, 200, 3};
    uint8_t *pixels;
    image.bytes[data + 100] ^= 0x10;
    assert_int_equal(codec_decode(*state, image.bytes, image.len, &top, NULL, &pixels, NULL),
                     MR_OK);
    assert_true(codec_box_equals(full, 200, &top, pixels));
    free(pixels);
    assert_int_equal(codec_decode(*state, image.bytes, image.len, NULL, NULL, &pixels, NULL),
                     MR_ERR_DAMAGED);
    free(full);
    mr_test_image_free(&image);
}

static void a_bad_text_chunk_is_a_warning(void **state)
{
    struct mr_test_image image = large_png();
    static const uint8_t text[] = {0, 0, 0, 3, 't', 'E', 'X', 't', 'a', 0, 'b', 1, 2, 3, 4};
    size_t ihdr_end = 8 + 25;
    uint8_t *bytes = malloc(image.len + sizeof text);
    struct mr_image_head head;
    assert_non_null(bytes);
    memcpy(bytes, image.bytes, ihdr_end);
    memcpy(bytes + ihdr_end, text, sizeof text);
    memcpy(bytes + ihdr_end + sizeof text, image.bytes + ihdr_end, image.len - ihdr_end);
    assert_int_equal(mr_codec_open(*state, bytes, image.len + sizeof text, &head, NULL), MR_OK);
    assert_int_equal(mr_codec_close(*state), 1);
    free(bytes);
    mr_test_image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_colour_type_and_depth_becomes_rgb),
        cmocka_unit_test(orientation_comes_from_exif),
        cmocka_unit_test(a_wrong_crc_of_the_pixels_is_damage),
        cmocka_unit_test(a_flipped_bit_in_the_header_is_damage),
        cmocka_unit_test(rows_above_the_damage_are_good_unless_their_chunk_is_bad),
        cmocka_unit_test(a_bad_text_chunk_is_a_warning),
    };
    return cmocka_run_group_tests(tests, codec_set_up, codec_tear_down);
}
