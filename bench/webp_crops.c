/* SPDX-License-Identifier: Apache-2.0 */
/*
 * millrace-bench-webp: decodes WebP files from memory, one random crop of each, with the library's
 * codec and with libwebp alone. The crops are like RandomResizedCrop's: 8 to 100 % of the area,
 * anywhere. Rounds alternate, and the best of each counts.
 *
 *     millrace-bench-webp [--only ours|libwebp] FILE...
 *
 * libwebp alone crops without a margin, so its pixels at a crop's edges may differ. If a crop began
 * at an odd pixel all its pixels could differ, so crops begin at even ones. `wrong` counts crops
 * whose inner pixels differ.
 */
#include "base/clock.h"
#include "transforms/codec.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <webp/decode.h>

enum { N_ROUNDS = 9, ROWS = 8, CHANNELS = 3, EDGE = 2 };

struct crop {
    uint8_t *bytes;
    size_t len;
    uint32_t x, y, width, height;
};

static uint8_t *load_file(const char *path, size_t *len_out)
{
    FILE *file = fopen(path, "rbe");
    if (!file || fseek(file, 0, SEEK_END) != 0)
        return NULL;
    long len = ftell(file);
    uint8_t *bytes = len > 0 ? malloc((size_t)len) : NULL;
    rewind(file);
    if (bytes && fread(bytes, 1, (size_t)len, file) != (size_t)len)
        len = 0;
    fclose(file);
    *len_out = (size_t)len;
    return len > 0 ? bytes : NULL;
}

static double draw_unit(uint32_t *random)
{
    *random = *random * 1664525u + 1013904223u;
    return (*random >> 8) / 16777216.0;
}

static bool make_crop(const char *path, uint32_t *random, struct crop *crop)
{
    int width, height;
    crop->bytes = load_file(path, &crop->len);
    if (!crop->bytes || !WebPGetInfo(crop->bytes, crop->len, &width, &height))
        return false;
    double side = sqrt(0.08 + 0.92 * draw_unit(random)),
           ratio = exp((draw_unit(random) - 0.5) * 0.575);
    crop->width = (uint32_t)fmax(1, fmin(width, width * side * ratio));
    crop->height = (uint32_t)fmax(1, fmin(height, height * side / ratio));
    crop->x = (uint32_t)((width - crop->width + 1) * draw_unit(random)) & ~1u;
    crop->y = (uint32_t)((height - crop->height + 1) * draw_unit(random)) & ~1u;
    return true;
}

/* Decode into out; with NULL, only take the rows. */
static bool decode_ours(struct mr_codec *codec, const struct crop *crop, uint8_t *out)
{
    struct mr_image_head head;
    const uint8_t *rows[ROWS];
    if (mr_codec_open(codec, crop->bytes, crop->len, &head, NULL) != MR_OK)
        return false;
    bool good = mr_codec_begin(codec, crop->x, crop->y, crop->width, crop->height, NULL) == MR_OK;
    for (uint32_t y = 0, n = 0; good && y < crop->height; y += n) {
        good = mr_codec_rows(codec, rows, ROWS, &n, NULL) == MR_OK;
        for (uint32_t i = 0; good && out && i < n; i++)
            memcpy(out + (size_t)(y + i) * crop->width * CHANNELS, rows[i],
                   (size_t)crop->width * CHANNELS);
    }
    mr_codec_close(codec);
    return good;
}

static bool decode_libwebp(const struct crop *crop, uint8_t *out, size_t out_bytes)
{
    WebPDecoderConfig config;
    if (!WebPInitDecoderConfig(&config))
        return false;
    config.options.use_cropping = 1;
    config.options.crop_left = (int)crop->x;
    config.options.crop_top = (int)crop->y;
    config.options.crop_width = (int)crop->width;
    config.options.crop_height = (int)crop->height;
    config.output.colorspace = MODE_RGB;
    config.output.is_external_memory = 1;
    config.output.u.RGBA.rgba = out;
    config.output.u.RGBA.stride = (int)crop->width * CHANNELS;
    config.output.u.RGBA.size = out_bytes;
    return WebPDecode(crop->bytes, crop->len, &config) == VP8_STATUS_OK;
}

static bool is_right(struct mr_codec *codec, const struct crop *crop, uint8_t *ours, uint8_t *plain,
                     size_t out_bytes)
{
    size_t stride = (size_t)crop->width * CHANNELS;
    if (!decode_ours(codec, crop, ours) || !decode_libwebp(crop, plain, out_bytes))
        return false;
    for (uint32_t y = EDGE; crop->width > 2 * EDGE && y + EDGE < crop->height; y++) {
        size_t at = y * stride + EDGE * CHANNELS;
        if (memcmp(ours + at, plain + at, stride - 2 * (size_t)EDGE * CHANNELS) != 0)
            return false;
    }
    return true;
}

static double time_round(struct mr_codec *codec, const struct crop *crops, int n, uint8_t *out,
                         size_t out_bytes)
{
    uint64_t start = mr_clock_now_ns();
    for (int i = 0; i < n; i++) {
        bool good =
            codec ? decode_ours(codec, &crops[i], NULL) : decode_libwebp(&crops[i], out, out_bytes);
        if (!good)
            exit(1);
    }
    return (double)(mr_clock_now_ns() - start) / 1e9;
}

int main(int argc, char **argv)
{
    const char *only = argc > 2 && strcmp(argv[1], "--only") == 0 ? argv[2] : "";
    int first = *only ? 3 : 1, n = argc - first, n_wrong = 0;
    uint32_t random = 1;
    size_t out_bytes = 1;
    struct mr_codec *codec;
    struct crop *crops = calloc((size_t)(n > 0 ? n : 1), sizeof *crops);
    if (n < 1 || !crops || mr_codec_create(&(struct mr_codec_limits){0}, &codec, NULL) != MR_OK) {
        fprintf(stderr, "usage: millrace-bench-webp [--only ours|libwebp] FILE...\n");
        return 2;
    }
    for (int i = 0; i < n; i++) {
        if (!make_crop(argv[first + i], &random, &crops[i])) {
            fprintf(stderr, "millrace-bench-webp: %s is not a WebP file\n", argv[first + i]);
            return 1;
        }
        size_t bytes = (size_t)crops[i].width * crops[i].height * CHANNELS;
        out_bytes = bytes > out_bytes ? bytes : out_bytes;
    }
    uint8_t *ours = malloc(out_bytes), *plain = malloc(out_bytes);
    if (!ours || !plain)
        return 1;
    for (int i = 0; i < n && !*only; i++)
        n_wrong += !is_right(codec, &crops[i], ours, plain, out_bytes);
    double best[2] = {1e9, 1e9};
    for (int round = 0; round < (*only ? 1 : N_ROUNDS); round++) {
        if (strcmp(only, "libwebp") != 0)
            best[0] = fmin(best[0], time_round(codec, crops, n, NULL, 0));
        if (strcmp(only, "ours") != 0)
            best[1] = fmin(best[1], time_round(NULL, crops, n, plain, out_bytes));
    }
    if (!*only)
        printf("%d crops: ours %.1f, libwebp alone %.1f images/s, ratio %.3f; %d wrong\n", n,
               n / best[0], n / best[1], best[1] / best[0], n_wrong);
    for (int i = 0; i < n; i++)
        free(crops[i].bytes);
    free(crops);
    free(ours);
    free(plain);
    mr_codec_destroy(codec);
    return n_wrong != 0;
}
