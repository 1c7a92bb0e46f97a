/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box of a WebP is the same box of libwebp's plain decoding of the whole, for both loop filters,
 * every way of predicting and all kinds of lossless files. Boxes are drawn so that each side meets
 * every phase of blocks, of pairs of pixels and of the image's own edges.
 */
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <webp/decode.h>
#include <webp/encode.h>

#define N_BOXES 40 /* MR_TEST_BOXES sets another number */

struct kind {
    const char *name;
    int lossless;
    float quality;
    int filter_type, filter_strength, sharpness, segments, partitions, method;
    int near_lossless;
    int n_shades; /* of each channel; 0: all */
    int alpha;
};

static const struct kind kinds[] = {
    {.name = "simple filter", .quality = 30, .filter_strength = 80, .segments = 1},
    {.name = "simple filter, weak",
     .quality = 70,
     .filter_strength = 10,
     .sharpness = 5,
     .segments = 4},
    {.name = "strong filter",
     .quality = 5,
     .filter_type = 1,
     .filter_strength = 100,
     .segments = 4,
     .method = 4},
    {.name = "filter, sharp",
     .quality = 40,
     .filter_type = 1,
     .filter_strength = 60,
     .sharpness = 7,
     .segments = 2},
    {.name = "no filter", .quality = 50, .filter_strength = 0, .segments = 4, .method = 2},
    {.name = "best quality, partitions",
     .quality = 100,
     .filter_type = 1,
     .segments = 4,
     .partitions = 3,
     .method = 6},
    {.name = "lossy alpha",
     .quality = 60,
     .filter_type = 1,
     .filter_strength = 50,
     .segments = 4,
     .alpha = 1},
    {.name = "lossless, fast", .lossless = 1},
    {.name = "lossless, good", .lossless = 1, .quality = 80, .method = 5},
    {.name = "lossless, near", .lossless = 1, .quality = 60, .method = 3, .near_lossless = 40},
    {.name = "lossless, two colours", .lossless = 1, .quality = 60, .method = 3, .n_shades = 2},
    {.name = "lossless, palette", .lossless = 1, .quality = 60, .method = 3, .n_shades = 4},
    {.name = "lossless, alpha", .lossless = 1, .quality = 60, .method = 3, .alpha = 1},
};
#define N_KINDS (sizeof kinds / sizeof kinds[0])

static const uint32_t sizes[][2] = {{1, 1}, {2, 3}, {17, 16}, {33, 70}, {101, 67}};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static void fill_picture(WebPPicture *picture, const struct kind *kind)
{
    for (int y = 0; y < picture->height; y++) {
        for (int x = 0; x < picture->width; x++) {
            uint32_t argb = 0;
            for (uint32_t c = 0; c < 4; c++) {
                uint32_t value =
                    mr_test_pattern(3, (uint32_t)x, (uint32_t)y, kind->n_shades ? 0 : c);
                if (kind->n_shades)
                    value = value * (uint32_t)kind->n_shades / 256 * 255 /
                            (uint32_t)(kind->n_shades - 1);
                if (c == 3 && !kind->alpha)
                    value = 255;
                argb |= value << (c == 3 ? 24 : 16 - 8 * c);
            }
            picture->argb[y * picture->argb_stride + x] = argb;
        }
    }
}

static struct mr_test_image encode(const struct kind *kind, uint32_t width, uint32_t height)
{
    WebPConfig config;
    WebPPicture picture;
    WebPMemoryWriter writer;
    assert_true(WebPConfigInit(&config) && WebPPictureInit(&picture));
    WebPMemoryWriterInit(&writer);
    config.lossless = kind->lossless;
    config.exact = 1;
    config.quality = kind->quality;
    config.method = kind->method;
    config.near_lossless = kind->near_lossless ? kind->near_lossless : 100;
    if (!kind->lossless) {
        config.filter_type = kind->filter_type;
        config.filter_strength = kind->filter_strength;
        config.filter_sharpness = kind->sharpness;
        config.segments = kind->segments;
        config.partitions = kind->partitions;
    }
    picture.use_argb = 1;
    picture.width = (int)width;
    picture.height = (int)height;
    assert_true(WebPPictureAlloc(&picture));
    fill_picture(&picture, kind);
    picture.writer = WebPMemoryWrite;
    picture.custom_ptr = &writer;
    assert_true(WebPEncode(&config, &picture));
    WebPPictureFree(&picture);
    struct mr_test_image image = {malloc(writer.size), writer.size};
    assert_non_null(image.bytes);
    memcpy(image.bytes, writer.mem, writer.size);
    WebPMemoryWriterClear(&writer);
    return image;
}

static void check_boxes(struct mr_codec *codec, const struct kind *kind, uint32_t width,
                        uint32_t height, uint32_t n)
{
    struct mr_test_image image = encode(kind, width, height);
    int full_width, full_height;
    uint8_t *full = WebPDecodeRGB(image.bytes, image.len, &full_width, &full_height);
    assert_non_null(full);
    for (uint32_t i = 0; i < n; i++) {
        struct codec_box box = codec_box_at(i, width, height);
        struct mr_image_head head;
        uint8_t *pixels;
        mr_error error;
        if (codec_decode(codec, image.bytes, image.len, i ? &box : NULL, &head, &pixels, &error) !=
            MR_OK)
            fail_msg("%s: %s", kind->name, error.text);
        assert_int_equal(head.width, width);
        assert_int_equal(head.height, height);
        if (i == 0)
            box = (struct codec_box){0, 0, width, height};
        if (!codec_box_equals(full, width, &box, pixels))
            fail_msg("%s, %ux%u: box %u,%u %ux%u differs", kind->name, width, height, box.x, box.y,
                     box.width, box.height);
        free(pixels);
    }
    WebPFree(full);
    mr_test_image_free(&image);
}

static void boxes_are_those_of_the_whole(void **state)
{
    const char *asked = getenv("MR_TEST_BOXES");
    uint32_t n = asked ? (uint32_t)atoi(asked) : N_BOXES;
    for (size_t kind = 0; kind < N_KINDS; kind++) {
        for (size_t i = 0; i < N_SIZES; i++)
            check_boxes(*state, &kinds[kind], sizes[i][0], sizes[i][1],
                        i < 2 ? 16 : n / (i == N_SIZES - 1 ? 1 : 3));
    }
}

static void expect_damaged(struct mr_codec *codec, const struct mr_test_image *image,
                           const char *text)
{
    uint8_t *pixels;
    mr_error error;
    assert_int_equal(codec_decode(codec, image->bytes, image->len, NULL, NULL, &pixels, &error),
                     MR_ERR_DAMAGED);
    assert_string_equal(error.text, text);
}

static void damage_is_reported_in_one_line(void **state)
{
    struct mr_test_image image = encode(&kinds[0], 64, 64);
    char text[80];
    snprintf(text, sizeof text, "WebP: the file has %zu of its %zu bytes", image.len - 1,
             image.len);
    image.len--;
    expect_damaged(*state, &image, text);
    image.len++;
    memset(image.bytes + 30, 0xff, image.len - 30);
    image.bytes[23] ^= 1; /* the key of a frame */
    expect_damaged(*state, &image, "WebP: its chunks are wrong or incomplete");
    mr_test_image_free(&image);
    image = encode(&kinds[7], 64, 64);
    memset(image.bytes + 30, 0xff, image.len - 30);
    expect_damaged(*state, &image, "WebP: its bitstream is invalid");
    mr_test_image_free(&image);
}

static void limits_are_enforced(void **state)
{
    (void)state;
    struct mr_codec *codec;
    struct mr_test_image image = encode(&kinds[7], 100, 90);
    char text[100];
    assert_int_equal(mr_codec_create(&(struct mr_codec_limits){.max_pixels = 8999}, &codec, NULL),
                     MR_OK);
    expect_damaged(codec, &image, "100 x 90 pixels are above the limit of 8999");
    mr_codec_destroy(codec);
    assert_int_equal(
        mr_codec_create(&(struct mr_codec_limits){.max_decoder_bytes = 4 << 20}, &codec, NULL),
        MR_OK);
    snprintf(text, sizeof text, "decoding needs %zu bytes of memory, above the limit of 4194304",
             (size_t)4194304 + 4 * image.len);
    expect_damaged(codec, &image, text);
    mr_codec_destroy(codec);
    mr_test_image_free(&image);
}

/* 8 bytes a pixel, and five tables for each group of codes; there is one group for 16 pixels. */
static void a_lossless_image_needs_memory_for_its_codes(void **state)
{
    (void)state;
    struct mr_codec *codec;
    struct mr_test_image image = encode(&kinds[7], 200, 200);
    assert_in_range(image.len * 2 / 5, 200 * 200 / 16 + 100, 65536);
    for (uint64_t limit = 14719999; limit <= 14720000; limit++) {
        struct mr_image_head head;
        assert_int_equal(
            mr_codec_create(&(struct mr_codec_limits){.max_decoder_bytes = limit}, &codec, NULL),
            MR_OK);
        if (limit < 14720000)
            expect_damaged(codec, &image,
                           "decoding needs 14720000 bytes of memory, above the limit of 14719999");
        else
            assert_int_equal(mr_codec_open(codec, image.bytes, image.len, &head, NULL), MR_OK);
        mr_codec_destroy(codec);
    }
    mr_test_image_free(&image);
}

static void put_chunk(struct mr_test_image *file, const char *name, const void *bytes, size_t len)
{
    memcpy(file->bytes + file->len, name, 4);
    for (int i = 0; i < 4; i++)
        file->bytes[file->len + 4 + (size_t)i] = (uint8_t)(len >> 8 * i);
    memcpy(file->bytes + file->len + 8, bytes, len);
    file->len += 8 + len;
}

/* One frame, 64 x 64, in the corner of a canvas of 1000 x 1000. */
static struct mr_test_image animate(const struct mr_test_image *still)
{
    struct mr_test_image frame = {calloc(1, still->len + 16), 16 + still->len - 12};
    struct mr_test_image file = {calloc(1, still->len + 100), 12};
    memcpy(frame.bytes, "\0\0\0\0\0\0\77\0\0\77\0\0", 12);
    memcpy(frame.bytes + 16, still->bytes + 12, still->len - 12);
    put_chunk(&file, "VP8X", "\2\0\0\0\347\3\0\347\3\0", 10);
    put_chunk(&file, "ANIM", "\0\0\0\0\0\0", 6);
    put_chunk(&file, "ANMF", frame.bytes, frame.len);
    size_t len = file.len;
    file.len = 0;
    put_chunk(&file, "RIFF", "WEBP", 4);
    for (int i = 0; i < 4; i++)
        file.bytes[4 + i] = (uint8_t)((len - 8) >> 8 * i);
    file.len = len;
    mr_test_image_free(&frame);
    return file;
}

static void a_frame_on_a_larger_canvas_counts_twice(void **state)
{
    (void)state;
    struct mr_codec *codec;
    struct mr_test_image still = encode(&kinds[0], 64, 64), image = animate(&still);
    for (uint64_t limit = 10194303; limit <= 10194304; limit++) {
        struct mr_image_head head;
        assert_int_equal(
            mr_codec_create(&(struct mr_codec_limits){.max_decoder_bytes = limit}, &codec, NULL),
            MR_OK);
        if (limit < 10194304)
            expect_damaged(codec, &image,
                           "decoding needs 10194304 bytes of memory, above the limit of 10194303");
        else
            assert_int_equal(mr_codec_open(codec, image.bytes, image.len, &head, NULL), MR_OK);
        mr_codec_destroy(codec);
    }
    mr_test_image_free(&still);
    mr_test_image_free(&image);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_are_those_of_the_whole),
        cmocka_unit_test(damage_is_reported_in_one_line),
        cmocka_unit_test(limits_are_enforced),
        cmocka_unit_test(a_lossless_image_needs_memory_for_its_codes),
        cmocka_unit_test(a_frame_on_a_larger_canvas_counts_twice),
    };
    return cmocka_run_group_tests(tests, codec_set_up, codec_tear_down);
}
