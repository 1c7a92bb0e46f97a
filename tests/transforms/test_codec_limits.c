/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the codec refuses and with which message: files that are not images, other formats, sizes
 * above the limits.
 */
#include "tests/support/assert_words.h"
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <zlib.h>

static void a_file_that_is_no_image_is_reported_with_its_first_bytes(void **state)
{
    codec_expect_damaged(*state, NULL, 0, "the file is empty");
    codec_expect_damaged(*state, "text file\n", 10,
                         "not an image: the first bytes are 74 65 78 74");
    codec_expect_damaged(*state, "\1\2", 2, "not an image: the first bytes are 01 02");
    codec_expect_damaged(*state, "\0\0\0\0\0", 5, "not an image: the first bytes are 00 00 00 00");
    codec_expect_damaged(*state, "\xff", 1, "not an image: the first bytes are ff");
}

static void other_formats_are_named(void **state)
{
    codec_expect_damaged(*state, "\0\0\0\40ftypavif", 12,
                         "AVIF is not supported; JPEG, PNG, WebP, TIFF, BMP and PPM are");
    codec_expect_damaged(*state, "GIF89a\1\0\1\0", 10,
                         "GIF is not supported; JPEG, PNG, WebP, TIFF, BMP and PPM are");
}

static void a_header_cut_short_is_damage(void **state)
{
    codec_expect_damaged(*state, "\xff\xd8", 2, "Premature end of input file");
    codec_expect_damaged(*state, "\xff\xd8\xff\xe0\0\20JFIF", 10, "Premature end of input file");
    codec_expect_damaged(*state, "\x89PNG", 4, "Premature end of PNG file");
    codec_expect_damaged(*state, "\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16, "Premature end of PNG file");
}

/* Write a size into the frame header of a JPEG. */
static void set_jpeg_size(struct mr_test_image *image, unsigned width, unsigned height)
{
    for (size_t i = 2; i + 9 < image->len;
         i += 2 + ((size_t)image->bytes[i + 2] << 8 | image->bytes[i + 3])) {
        if (image->bytes[i + 1] < 0xc0 || image->bytes[i + 1] > 0xc2)
            continue;
        uint8_t size[4] = {(uint8_t)(height >> 8), (uint8_t)height, (uint8_t)(width >> 8),
                           (uint8_t)width};
        memcpy(image->bytes + i + 5, size, 4);
        return;
    }
    fail_msg("no frame header");
}

static void headers_of_other_formats_are_refused_with_the_reason(void **state)
{
    codec_expect_damaged(*state, "BM\0\1\0\0\0\0\0\0\66\0\0\0", 14,
                         "BMP: the file ends in its header");
    codec_expect_damaged(*state, "BM\0\1\0\0\0\0\0\0\66\0\0\0\51\0\0\0", 18,
                         "BMP: a header of length 41 is not supported");
    uint8_t bmp[54 + 4] = "BM\0\0\0\0\0\0\0\0\72\0\0\0\50\0\0\0\1\0\0\0\1\0\0\0\1\0";
    codec_expect_damaged(*state, bmp, sizeof bmp, "BMP: a depth of 0 is not supported");
    bmp[28] = 32;
    bmp[30] = 1;
    codec_expect_damaged(*state, bmp, sizeof bmp, "BMP: compression 1 is not supported");
    bmp[30] = 4;
    codec_expect_damaged(*state, bmp, sizeof bmp, "BMP: compression 4 is not supported");
    bmp[30] = 3;
    codec_expect_damaged(*state, bmp, sizeof bmp, "BMP: 0 bytes of pixels where 4 are needed");
    bmp[55] = 1;
    codec_expect_damaged(*state, bmp, sizeof bmp,
                         "BMP: the masks 100 0 0 of 32 bits are not supported");
    bmp[28] = 8;
    codec_expect_damaged(*state, bmp, sizeof bmp, "BMP: compression 3 is not supported");
    bmp[30] = 0;
    bmp[47] = 1;
    bmp[46] = 1;
    codec_expect_damaged(*state, bmp, sizeof bmp, "BMP: a palette of size 257 is not supported");
    bmp[22] = 0;
    codec_expect_damaged(*state, bmp, sizeof bmp, "BMP: a side of 0 pixels");
    codec_expect_damaged(*state, "P6\n1 1\n255\nab", 13,
                         "PPM: 2 bytes of pixels where 3 are needed");
    codec_expect_damaged(*state, "P5\n99999 99999\n255\n", 19,
                         "99999 x 99999 pixels are above the limit of 178956970");
    codec_expect_damaged(*state, "P5\n1 1\n0\n1", 10, "PPM: the largest value is not 1 to 65535");
    codec_expect_damaged(*state, "P5\n1 1\n65536\n1", 14,
                         "PPM: the largest value is not 1 to 65535");
    codec_expect_damaged(*state, "P5\n0 1\n1\n1", 10, "PPM: a side of 0 pixels");
    codec_expect_damaged(*state, "P5\n-1 1\n1\n1", 11, "PPM: a number is expected");
    codec_expect_damaged(*state, "P5\n3000000000 1\n1\n1", 19, "PPM: a number is above 2147483647");
    codec_expect_damaged(*state, "P5\n00000000001 1\n1\n1", 20,
                         "PPM: a number has more than 10 digits");
    codec_expect_damaged(*state, "P5\n1 # and no more", 18,
                         "PPM: the file ends where a number is expected");
    codec_expect_damaged(*state, "RIFF\4\0\0\0WEBP", 12,
                         "WebP: its chunks are wrong or incomplete");
}

static void plain_pixels_are_refused_with_the_reason(void **state)
{
    static const char *const files[][2] = {
        {"P2 2 1 9\n1 10", "PPM: a value is above the header's largest one"},
        {"P2 2 1 9\n1 -1", "PPM: a number is expected"},
        {"P2 2 1 9\n10#####", "PPM: a value is above the header's largest one"},
        {"P2 2 1 9\n9      ", "PPM: the file ends where a number is expected"},
        {"P1 2 1\n1 ", "PPM: the file ends before its pixels"},
        {"P1 2 1\n12", "PPM: a pixel is neither 0 nor 1"},
        {"P2 2 1 9\n1 ", "PPM: 2 bytes of pixels where at least 3 are needed"},
        {"P1 2 1\n1", "PPM: 1 bytes of pixels where at least 2 are needed"}};
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        uint8_t *pixels;
        mr_error error;
        assert_int_equal(codec_decode(*state, (const uint8_t *)files[i][0], strlen(files[i][0]),
                                      NULL, NULL, &pixels, &error),
                         MR_ERR_DAMAGED);
        assert_string_equal(error.text, files[i][1]);
    }
}

static void a_header_of_65535_squared_is_refused(void **state)
{
    for (int progressive = 0; progressive < 2; progressive++) {
        struct mr_test_image image = mr_test_jpeg(
            &(struct mr_test_jpeg){.width = 16, .height = 16, .progressive = progressive});
        set_jpeg_size(&image, 65500, 65500);
        codec_expect_damaged(*state, image.bytes, image.len,
                             "65500 x 65500 pixels are above the limit of 178956970");
        mr_test_image_free(&image);
    }
}

/* libjpeg itself stops at 65500, before millrace's limit. */
static void a_side_of_65535_is_refused(void **state)
{
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 16, .height = 16});
    struct mr_image_head head;
    mr_error error;
    set_jpeg_size(&image, 65535, 65535);
    assert_error(mr_codec_open(*state, image.bytes, image.len, &head, &error), MR_ERR_DAMAGED,
                 &error, "65500");
    mr_test_image_free(&image);
}

static void a_huge_png_is_refused(void **state)
{
    struct mr_test_image image =
        mr_test_png(&(struct mr_test_png){.width = 3, .height = 3, .colour_type = 2});
    uint8_t size[8] = {0, 0, 0xff, 0xff, 0, 0, 0xff, 0xff};
    memcpy(image.bytes + 16, size, 8);
    uint32_t crc = (uint32_t)crc32(0, image.bytes + 12, 17);
    uint8_t stored[4] = {(uint8_t)(crc >> 24), (uint8_t)(crc >> 16), (uint8_t)(crc >> 8),
                         (uint8_t)crc};
    memcpy(image.bytes + 29, stored, 4);
    codec_expect_damaged(*state, image.bytes, image.len,
                         "65535 x 65535 pixels are above the limit of 178956970");
    mr_test_image_free(&image);
}

static struct mr_codec *make_limited(struct mr_codec_limits limits)
{
    struct mr_codec *codec;
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    return codec;
}

static void the_pixel_limit_is_exact(void **state)
{
    (void)state;
    struct mr_codec *codec = make_limited((struct mr_codec_limits){.max_pixels = 20 * 30});
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 20, .height = 30});
    struct mr_image_head head;
    assert_int_equal(mr_codec_open(codec, image.bytes, image.len, &head, NULL), MR_OK);
    mr_codec_close(codec);
    mr_test_image_free(&image);
    image = mr_test_png(&(struct mr_test_png){.width = 601, .height = 1});
    codec_expect_damaged(codec, image.bytes, image.len,
                         "601 x 1 pixels are above the limit of 600");
    mr_test_image_free(&image);
    mr_codec_destroy(codec);
}

static void too_many_scans_are_refused(void **state)
{
    (void)state;
    struct mr_codec *codec = make_limited((struct mr_codec_limits){.max_scans = 5});
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 20, .height = 30, .progressive = true});
    uint8_t *pixels;
    mr_error error;
    assert_int_equal(codec_decode(codec, image.bytes, image.len, NULL, NULL, &pixels, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text, "6 scans are above the limit of 5");
    mr_test_image_free(&image);
    mr_codec_destroy(codec);
}

/*
 * Two scans of 2 x 2 MCUs of 6 blocks; four of 3 x 4 blocks of luma; two of 2 x 2 blocks for each
 * of the others. A file of one scan has no such limit.
 */
static void blocks_of_all_scans_are_limited_together(void **state)
{
    (void)state;
    struct mr_test_jpeg options = {.width = 20, .height = 30};
    for (int progressive = 0; progressive < 2; progressive++) {
        options.progressive = progressive;
        struct mr_test_image image = mr_test_jpeg(&options);
        for (uint64_t limit = 112; limit > 110; limit--) {
            struct mr_codec *codec =
                make_limited((struct mr_codec_limits){.max_scan_blocks = progressive ? limit : 1});
            struct codec_box corner = {19, 29, 1, 1};
            for (int cut = 0; cut < 2; cut++) {
                uint8_t *pixels = NULL;
                mr_error error;
                bool good = !progressive || limit == 112;
                assert_int_equal(codec_decode(codec, image.bytes, image.len, cut ? &corner : NULL,
                                              NULL, &pixels, &error),
                                 good ? MR_OK : MR_ERR_DAMAGED);
                if (good)
                    free(pixels);
                else
                    assert_string_equal(
                        error.text, "112 blocks in its first 10 scans are above the limit of 111");
            }
            mr_codec_destroy(codec);
        }
        mr_test_image_free(&image);
    }
}

static void decoder_memory_is_limited(void **state)
{
    (void)state;
    struct mr_codec *codec = make_limited((struct mr_codec_limits){.max_decoder_bytes = 400000});
    struct mr_test_jpeg options = {.width = 400, .height = 400};
    struct mr_image_head head;
    mr_error error;
    for (int progressive = 0; progressive < 2; progressive++) {
        options.progressive = progressive;
        struct mr_test_image image = mr_test_jpeg(&options);
        mr_status status = mr_codec_open(codec, image.bytes, image.len, &head, &error);
        mr_test_image_free(&image);
        if (status == MR_OK)
            mr_codec_close(codec);
        assert_int_equal(status, progressive ? MR_ERR_DAMAGED : MR_OK);
    }
    assert_words(error.text, "bytes of memory, above the limit of 400000");
    mr_codec_destroy(codec);
}

static void an_interlaced_png_counts_its_box(void **state)
{
    (void)state;
    struct mr_codec *codec = make_limited((struct mr_codec_limits){.max_decoder_bytes = 600000});
    struct mr_test_image image = mr_test_png(
        &(struct mr_test_png){.width = 400, .height = 400, .colour_type = 2, .interlaced = true});
    struct codec_box top = {0, 0, 400, 100};
    uint8_t *pixels;
    mr_error error;
    assert_int_equal(codec_decode(codec, image.bytes, image.len, &top, NULL, &pixels, NULL), MR_OK);
    free(pixels);
    assert_error(codec_decode(codec, image.bytes, image.len, NULL, NULL, &pixels, &error),
                 MR_ERR_DAMAGED, &error, "above the limit of 600000");
    mr_test_image_free(&image);
    mr_codec_destroy(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_file_that_is_no_image_is_reported_with_its_first_bytes),
        cmocka_unit_test(other_formats_are_named),
        cmocka_unit_test(headers_of_other_formats_are_refused_with_the_reason),
        cmocka_unit_test(plain_pixels_are_refused_with_the_reason),
        cmocka_unit_test(a_header_cut_short_is_damage),
        cmocka_unit_test(a_header_of_65535_squared_is_refused),
        cmocka_unit_test(a_side_of_65535_is_refused),
        cmocka_unit_test(a_huge_png_is_refused),
        cmocka_unit_test(the_pixel_limit_is_exact),
        cmocka_unit_test(too_many_scans_are_refused),
        cmocka_unit_test(blocks_of_all_scans_are_limited_together),
        cmocka_unit_test(decoder_memory_is_limited),
        cmocka_unit_test(an_interlaced_png_counts_its_box),
    };
    return cmocka_run_group_tests(tests, codec_set_up, codec_tear_down);
}
