/* SPDX-License-Identifier: Apache-2.0 */
/*
 * BMPs that end early, in runs and in rows, and what they may cost. tests/data/formats.json has the
 * good ones.
 */
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { HEADERS = 54, PALETTE = 4, MAX_DATA = 32 };

/*
 * A file with a palette of one colour, black, and data_len bytes of pixels, in memory of exactly
 * its length.
 */
static struct mr_test_image make_bmp(uint8_t bits, uint8_t compression, uint8_t width,
                                     uint8_t height, const void *data, size_t data_len)
{
    struct mr_test_image image = {calloc(1, HEADERS + PALETTE + data_len),
                                  HEADERS + PALETTE + data_len};
    assert_non_null(image.bytes);
    memcpy(image.bytes, "BM", 2);
    image.bytes[10] = HEADERS + PALETTE;
    image.bytes[14] = 40;
    image.bytes[18] = width;
    image.bytes[22] = height;
    image.bytes[28] = bits;
    image.bytes[30] = compression;
    image.bytes[46] = 1;
    memcpy(image.bytes + HEADERS + PALETTE, data, data_len);
    return image;
}

/* text: NULL if it is good. */
static void check(struct mr_codec *codec, struct mr_test_image image, const char *text)
{
    uint8_t *pixels;
    mr_error error = {0};
    mr_status status = codec_decode(codec, image.bytes, image.len, NULL, NULL, &pixels, &error);
    assert_string_equal(error.text, text ? text : "");
    assert_int_equal(status, text ? MR_ERR_DAMAGED : MR_OK);
    free(pixels);
    mr_test_image_free(&image);
}

static void runs_that_end_early_are_damaged(void **state)
{
    static const struct {
        uint8_t bits, width, height, len;
        const char *data;
        const char *text;
    } files[] = {
        {8, 3, 1, 2, "\3\1", NULL},
        {8, 3, 1, 2, "\2\1", "BMP: the runs end after 2 of 3 pixels"},
        {8, 3, 1, 1, "\3", "BMP: the runs end after 0 of 3 pixels"},
        {8, 3, 1, 6, "\0\1\3\1\3\1", "BMP: the runs end after 0 of 3 pixels"},
        {8, 3, 1, 5, "\0\3\1\2\3", NULL},
        {8, 3, 1, 4, "\0\3\1\2", "BMP: the runs end after 0 of 3 pixels"},
        {4, 5, 1, 5, "\0\5\x12\x34\x50", NULL},
        {4, 5, 1, 4, "\0\5\x12\x34", "BMP: the runs end after 0 of 5 pixels"},
        {8, 3, 2, 4, "\0\2\3\1", NULL},
        {8, 3, 2, 3, "\0\2\3", "BMP: the runs end after 0 of 6 pixels"},
        {4, 2, 1, 3, "\0\2\x12", "BMP: the runs end after 0 of 2 pixels"},
        {8, 3, 2, 6, "\5\1\0\0\4\1", NULL},
        {8, 3, 2, 4, "\5\1\5\1", "BMP: the runs end after 3 of 6 pixels"},
    };
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        check(*state,
              make_bmp(files[i].bits, files[i].bits == 8 ? 1 : 2, files[i].width, files[i].height,
                       files[i].data, files[i].len),
              files[i].text);
}

/* Only the padding of the last row may be missing. */
static void every_row_must_be_complete(void **state)
{
    static const uint8_t zeros[MAX_DATA];
    check(*state, make_bmp(24, 0, 3, 2, zeros, 21), NULL);
    check(*state, make_bmp(24, 0, 3, 2, zeros, 20), "BMP: 20 bytes of pixels where 21 are needed");
    check(*state, make_bmp(1, 0, 9, 2, zeros, 6), NULL);
    check(*state, make_bmp(1, 0, 9, 2, zeros, 5), "BMP: 5 bytes of pixels where 6 are needed");
    check(*state, make_bmp(8, 1, 9, 2, zeros, 0), "BMP: 0 bytes of pixels where 21 are needed");
}

/* The limit is one byte less than 3 by 2 pixels need. */
static void expect_over_limit(uint8_t compression, uint64_t need)
{
    char text[100];
    struct mr_codec *codec;
    snprintf(text, sizeof text, "decoding needs %d bytes of memory, above the limit of %d",
             (int)need, (int)need - 1);
    for (uint64_t limit = need - 1; limit <= need; limit++) {
        assert_int_equal(
            mr_codec_create(&(struct mr_codec_limits){.max_decoder_bytes = limit}, &codec, NULL),
            MR_OK);
        check(codec, make_bmp(8, compression, 3, 2, "\3\1\0\0\3\1\0\0", 8),
              limit < need ? text : NULL);
        mr_codec_destroy(codec);
    }
}

static void runs_need_one_more_byte_per_pixel(void **state)
{
    (void)state;
    expect_over_limit(0, 18);
    expect_over_limit(1, 24);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(runs_that_end_early_are_damaged),
        cmocka_unit_test(every_row_must_be_complete),
        cmocka_unit_test(runs_need_one_more_byte_per_pixel),
    };
    return cmocka_run_group_tests(tests, codec_set_up, codec_tear_down);
}
