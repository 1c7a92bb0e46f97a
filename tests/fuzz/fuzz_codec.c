/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Any bytes through the codec: no crash, only the statuses that codec.h names, and a crop equals
 * the same part of the whole picture if both decode. One codec is used for all inputs, so what one
 * input leaves in its state affects the next.
 */
#include "tests/fuzz/fuzz.h"

#include "transforms/codec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct box {
    uint32_t x, y, width, height;
};

static struct mr_codec *get_codec(void)
{
    static struct mr_codec *codec;
    struct mr_codec_limits limits = {
        .max_pixels = 1 << 17, .max_scans = 20, .max_decoder_bytes = 16 << 20};
    if (!codec)
        require(mr_codec_create(&limits, &codec, NULL) == MR_OK, "no codec");
    return codec;
}

static int is_named_status(mr_status status, const mr_error *error)
{
    return (status == MR_ERR_DAMAGED || status == MR_ERR_NO_MEMORY) &&
           error->status == (int32_t)status && error->text[0] != 0 &&
           strchr(error->text, '\n') == NULL;
}

static uint8_t *decode(const uint8_t *bytes, size_t len, const struct box *box)
{
    struct mr_codec *codec = get_codec();
    struct mr_image_head head;
    const uint8_t *rows[5];
    mr_error error;
    require(mr_codec_open(codec, bytes, len, &head, &error) == MR_OK,
            "the same header does not open again");
    uint8_t *pixels = malloc((size_t)box->width * box->height * 3);
    require(pixels != NULL, "no memory");
    mr_status status = mr_codec_begin(codec, box->x, box->y, box->width, box->height, &error);
    for (uint32_t y = 0, n = 0; status == MR_OK && y < box->height; y += n) {
        status = mr_codec_rows(codec, rows, 5, &n, &error);
        for (uint32_t i = 0; status == MR_OK && i < n; i++)
            memcpy(pixels + (size_t)(y + i) * box->width * 3, rows[i], (size_t)box->width * 3);
    }
    mr_codec_close(codec);
    if (status == MR_OK)
        return pixels;
    require(is_named_status(status, &error), "a status or message that is not allowed");
    free(pixels);
    return NULL;
}

static struct box choose_box(const uint8_t *bytes, size_t len, const struct mr_image_head *head)
{
    uint32_t h = 2166136261u;
    for (size_t i = len > 64 ? len - 64 : 0; i < len; i++)
        h = (h ^ bytes[i]) * 16777619u;
    struct box box = {h % head->width, (h >> 8) % head->height, 1, 1};
    box.width = 1 + (h >> 4) % (head->width - box.x);
    box.height = 1 + (h >> 12) % (head->height - box.y);
    return box;
}

static void compare(const uint8_t *whole, uint32_t whole_width, const uint8_t *part,
                    const struct box *box)
{
    for (uint32_t y = 0; y < box->height; y++) {
        const uint8_t *row = whole + ((size_t)(box->y + y) * whole_width + box->x) * 3;
        require(memcmp(row, part + (size_t)y * box->width * 3, (size_t)box->width * 3) == 0,
                "a crop differs from the whole");
    }
}

int LLVMFuzzerTestOneInput(const uint8_t *bytes, size_t len)
{
    struct mr_image_head head;
    mr_error error;
    mr_status status = mr_codec_open(get_codec(), bytes, len, &head, &error);
    if (status != MR_OK) {
        require(is_named_status(status, &error), "a status or message that is not allowed");
        return 0;
    }
    mr_codec_close(get_codec());
    require(head.width > 0 && head.height > 0 && head.orientation >= 1 && head.orientation <= 8,
            "a bad head");
    struct box all = {0, 0, head.width, head.height};
    struct box box = choose_box(bytes, len, &head);
    uint8_t *whole = decode(bytes, len, &all);
    uint8_t *part = decode(bytes, len, &box);
    if (whole && part)
        compare(whole, head.width, part, &box);
    free(whole);
    free(part);
    return 0;
}
