/* SPDX-License-Identifier: Apache-2.0 */
#include "tests/packs/packer_support.h"

#include "tests/support/assert_words.h"
#include "transforms/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_test_jpeg kinds[] = {
    {.width = 200, .height = 90},
    {.width = 131, .height = 77, .restart = 3},
    {.width = 161, .height = 45, .sampling = {{1, 1}, {1, 1}, {1, 1}}, .orientation = 6},
    {.width = 150, .height = 61, .sampling = {{2, 1}, {1, 1}, {1, 1}}, .quality = 98},
    {.width = 77, .height = 161, .sampling = {{1, 2}, {1, 1}, {1, 1}}},
    {.width = 290, .height = 33, .sampling = {{4, 1}, {1, 1}, {1, 1}}, .restart = 5},
    {.width = 70, .height = 70, .sampling = {{2, 2}, {2, 1}, {1, 2}}},
    {.width = 99, .height = 50, .colour = MR_TEST_GREY, .orientation = 3},
    {.width = 99, .height = 50, .colour = MR_TEST_GREY, .sampling = {{2, 2}}, .restart = 7},
    {.width = 65, .height = 65, .colour = MR_TEST_RGB},
    {.width = 65, .height = 40, .colour = MR_TEST_CMYK},
    {.width = 65,
     .height = 40,
     .colour = MR_TEST_YCCK,
     .sampling = {{2, 2}, {1, 1}, {1, 1}, {2, 2}}},
    {.width = 1, .height = 1},
    {.width = 2, .height = 37},
    {.width = 3, .height = 2, .sampling = {{2, 1}, {1, 1}, {1, 1}}},
    {.width = 5, .height = 1, .sampling = {{1, 2}, {1, 1}, {1, 1}}},
    {.width = 80, .height = 60, .quality = 5},
    {.width = 120, .height = 88, .progressive = true, .orientation = 8},
    {.width = 61, .height = 88, .progressive = true, .colour = MR_TEST_GREY},
    {.width = 61, .height = 50, .progressive = true, .colour = MR_TEST_YCCK, .restart = 2},
    {.width = 90, .height = 70, .one_scan_each = true},
    {.width = 90, .height = 70, .arithmetic = true},
    {.width = 90, .height = 70, .arithmetic = true, .progressive = true},
};

const struct mr_test_jpeg *packer_kind(uint32_t i)
{
    return i < sizeof kinds / sizeof kinds[0] ? &kinds[i] : NULL;
}

struct mr_packer *packer_make(const struct mr_packer_options *options)
{
    struct mr_packer *packer = NULL;
    assert_int_equal(mr_packer_create(options, &packer, NULL), MR_OK);
    return packer;
}

struct mr_packed_sample packer_pack(struct mr_packer *packer, const uint8_t *bytes, size_t len)
{
    struct mr_packed_sample sample;
    mr_error error;
    mr_status status = mr_packer_pack(packer, bytes, len, &sample, &error);
    assert_ok(status, &error);
    return sample;
}

static mr_status decode(struct mr_codec *codec, const struct mr_packed_image *image,
                        const uint8_t *bytes, uint8_t **pixels_out, mr_error *error)
{
    struct mr_image_head head;
    const uint8_t *rows[8];
    mr_status status = mr_codec_open_packed(codec, image, bytes, image->len, 0, &head, error);
    if (status != MR_OK)
        return status;
    size_t stride = (size_t)head.width * 3;
    *pixels_out = malloc(stride * head.height);
    assert_non_null(*pixels_out);
    status = mr_codec_begin(codec, 0, 0, head.width, head.height, error);
    for (uint32_t y = 0, n = 0; status == MR_OK && y < head.height; y += n) {
        status = mr_codec_rows(codec, rows, 8, &n, error);
        for (uint32_t i = 0; status == MR_OK && i < n; i++)
            memcpy(*pixels_out + (y + i) * stride, rows[i], stride);
    }
    mr_codec_close(codec);
    return status;
}

uint8_t *packer_pixels(const struct mr_packed_image *image, const uint8_t *bytes)
{
    struct mr_codec_limits limits = {0};
    struct mr_codec *codec = NULL;
    uint8_t *pixels = NULL;
    mr_error error;
    if (image->encoding == MR_PACKED_RAW) {
        pixels = malloc(image->len);
        assert_non_null(pixels);
        return memcpy(pixels, bytes, image->len);
    }
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    mr_status status = decode(codec, image, bytes, &pixels, &error);
    assert_ok(status, &error);
    mr_codec_destroy(codec);
    return pixels;
}

struct mr_test_image packer_insert(const struct mr_test_image *file, size_t at, const void *more,
                                   size_t n)
{
    struct mr_test_image made = {malloc(file->len + n), file->len + n};
    assert_non_null(made.bytes);
    assert_true(at <= file->len);
    memcpy(made.bytes, file->bytes, at);
    memcpy(made.bytes + at, more, n);
    memcpy(made.bytes + at + n, file->bytes + at, file->len - at);
    return made;
}
