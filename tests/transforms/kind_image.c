/* SPDX-License-Identifier: Apache-2.0 */
/* Makes images from the same formulas as tests/data/make_image_calls.py. */
#include "tests/transforms/kind_image.h"

#include <stdlib.h>
#include <string.h>

const uint32_t kind_image_sizes[KIND_IMAGE_SIZES][2] = {{1, 1}, {1, 7},   {7, 1},   {2, 2},
                                                        {3, 3}, {31, 17}, {64, 48}, {224, 224}};

static uint32_t mix_bits(uint32_t x)
{
    x = (x ^ 61) ^ (x >> 16);
    x *= 9;
    x ^= x >> 4;
    x *= 0x27d4eb2du;
    return x ^ (x >> 15);
}

/* 0 to 255 and back. */
static uint32_t make_wave(uint32_t x, uint32_t period)
{
    x %= 2 * period;
    return (x < period ? x : 2 * period - x) * 255 / period;
}

static int clip_byte(int value)
{
    return value < 0 ? 0 : value > 255 ? 255 : value;
}

static uint8_t value_at(const char *kind, uint32_t x, uint32_t y, uint32_t c, uint32_t width)
{
    uint32_t noise = mix_bits((y * width + x) * 3 + c);
    if (strcmp(kind, "flat") == 0)
        return (uint8_t)(40 + 90 * c);
    if (strcmp(kind, "gradient") == 0)
        return (uint8_t)(x * (c + 1) + y * (3 - c));
    if (strcmp(kind, "noise") == 0)
        return (uint8_t)noise;
    if (strcmp(kind, "narrow") == 0)
        return (uint8_t)(60 + 50 * c + noise % (10 + 30 * c));
    if (strcmp(kind, "saturated") == 0)
        return (uint8_t)(255 * (noise & 1));
    if (strcmp(kind, "photograph") == 0) {
        uint32_t smooth = (make_wave(x + 2 * y, 90) * (3 - c) + make_wave(x + 31 * c, 37) +
                           make_wave(y + 11 * c, 53) * (c + 1)) /
                          5;
        return (uint8_t)clip_byte((int)(smooth + noise % 17) - 8);
    }
    return (uint8_t)(noise % 97 == 0 ? noise >> 8 : 70 + 60 * c);
}

struct mr_image kind_image_make(const char *kind, const uint32_t size[2], uint32_t n_channels)
{
    struct mr_image image = {.pixels = malloc((size_t)size[0] * size[1] * n_channels),
                             .width = size[0],
                             .height = size[1],
                             .n_channels = n_channels,
                             .stride = (size_t)size[0] * n_channels};
    for (uint32_t y = 0; y < size[1]; y++)
        for (uint32_t x = 0; x < size[0]; x++)
            for (uint32_t c = 0; c < n_channels; c++)
                image.pixels[y * image.stride + x * n_channels + c] =
                    value_at(kind, x, y, c, size[0]);
    return image;
}
