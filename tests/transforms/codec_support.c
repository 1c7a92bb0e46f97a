/* SPDX-License-Identifier: Apache-2.0 */
/* Decodes boxes and compares them with the same box of a full picture. */
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

struct mr_codec *codec_make(void)
{
    struct mr_codec_limits limits = {0};
    struct mr_codec *codec = NULL;
    assert_int_equal(mr_codec_create(&limits, &codec, NULL), MR_OK);
    return codec;
}

int codec_set_up(void **state)
{
    *state = codec_make();
    return 0;
}

int codec_tear_down(void **state)
{
    mr_codec_destroy(*state);
    return 0;
}

void codec_expect_damaged(struct mr_codec *codec, const void *bytes, size_t len, const char *text)
{
    struct mr_image_head head;
    mr_error error;
    assert_int_equal(mr_codec_open(codec, bytes, len, &head, &error), MR_ERR_DAMAGED);
    assert_string_equal(error.text, text);
}

static mr_status read_box(struct mr_codec *codec, const struct codec_box *box, uint8_t *out,
                          mr_error *error)
{
    const uint8_t *rows[16];
    uint32_t per_call = 1 + (box->x + box->y + box->width + box->height) % 16;
    size_t stride = (size_t)box->width * 3;
    mr_status status = mr_codec_begin(codec, box->x, box->y, box->width, box->height, error);
    for (uint32_t y = 0; status == MR_OK && y < box->height;) {
        uint32_t n = 0;
        status = mr_codec_rows(codec, rows, per_call, &n, error);
        if (status != MR_OK)
            break;
        assert_in_range(n, 1, per_call);
        assert_true(n <= box->height - y);
        for (uint32_t i = 0; i < n; i++, y++)
            memcpy(out + y * stride, rows[i], stride);
    }
    return status;
}

mr_status codec_decode(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                       const struct codec_box *box, struct mr_image_head *head_out,
                       uint8_t **pixels_out, mr_error *error)
{
    struct mr_image_head head;
    *pixels_out = NULL;
    mr_status status = mr_codec_open(codec, bytes, len, &head, error);
    if (status != MR_OK)
        return status;
    struct codec_box whole = {0, 0, head.width, head.height};
    box = box ? box : &whole;
    uint8_t *pixels = malloc((size_t)box->width * box->height * 3);
    assert_non_null(pixels);
    status = read_box(codec, box, pixels, error);
    mr_codec_close(codec);
    if (head_out)
        *head_out = head;
    if (status == MR_OK)
        *pixels_out = pixels;
    else
        free(pixels);
    return status;
}

bool codec_box_equals(const uint8_t *full, uint32_t full_width, const struct codec_box *box,
                      const uint8_t *pixels)
{
    size_t stride = (size_t)box->width * 3;
    for (uint32_t y = 0; y < box->height; y++) {
        const uint8_t *row = full + ((size_t)(box->y + y) * full_width + box->x) * 3;
        if (memcmp(row, pixels + y * stride, stride) != 0)
            return false;
    }
    return true;
}

struct codec_box codec_box_at(uint32_t n, uint32_t width, uint32_t height)
{
    uint32_t a = (n + 1) * 2654435761u;
    uint32_t b = (a ^ a >> 13) * 2246822519u;
    uint32_t c = (b ^ b >> 15) * 3266489917u;
    uint32_t d = (c ^ c >> 14) * 668265263u;
    switch (n) {
    case 0: return (struct codec_box){0, 0, width, height};
    case 1: return (struct codec_box){0, 0, 1, 1};
    case 2: return (struct codec_box){width - 1, height - 1, 1, 1};
    case 3: return (struct codec_box){width - 1, 0, 1, height};
    case 4: return (struct codec_box){0, height - 1, width, 1};
    default: break;
    }
    struct codec_box box = {(a >> 8) % width, (b >> 8) % height, 1, 1};
    if (n % 4 != 0) { /* every fourth is a single pixel */
        box.width = 1 + (c >> 8) % (width - box.x);
        box.height = 1 + (d >> 8) % (height - box.y);
    }
    return box;
}
