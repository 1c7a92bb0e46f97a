/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pillow's convert("HSV"), a sum modulo 256 to the hue, and convert("RGB"), in one step for each pixel.
 *
 * V is the largest channel and S = 255 * (V - smallest) / V, cut to an integer. H is found in floats whose roundings
 * count: some colours lie exactly on a boundary. The way back needs none of them: each channel is
 * V - round(V * S * weight / 65025), where the weight, 0 to 255, follows from H alone, and no product is a tie. So the
 * sum to the hue is part of the weights' table.
 *
 * Invariant: no two float operations may be contracted to one.
 */
#include "transforms/image_ops/image_hue.h"

#include <stdlib.h>

/* By the hue of the pixel as it was. */
struct weights {
    uint8_t of[256][3];
};

static uint8_t clip_weight(int weight)
{
    return (uint8_t)(weight < 0 ? 0 : weight > 255 ? 255 : weight);
}

static void fill_weights(double factor, struct weights *weights)
{
    int shift = (int)(factor * 255) & 255; /* towards 0, then modulo 256 */
    for (int hue = 0; hue < 256; hue++) {
        int turn = 6 * ((hue + shift) & 255); /* 1530 is all the way round */
        weights->of[hue][0] = clip_weight(510 - abs(turn - 765));
        weights->of[hue][1] = clip_weight(abs(turn - 510) - 255);
        weights->of[hue][2] = clip_weight(abs(turn - 1020) - 255);
    }
}

/* h in bytes, as Pillow's rgb2hsv_row() finds it; spread is largest - smallest and not 0. */
static uint32_t find_hue(int r, int g, int b, int largest, int smallest, int spread)
{
    int middle = r + g + b - largest - smallest;
    float x = (float)(largest - middle) / (float)spread;
    float sixths;
    if (r == largest)
        sixths = b == smallest ? 1.0f - x : x - 1.0f;
    else if (g == largest)
        sixths = b == smallest ? 1.0f + x : 3.0f - x;
    else
        sixths = g == smallest ? 5.0f - x : 3.0f + x;
    float turn = sixths / 6.0f;
    if (turn < 0)
        turn += 1.0f;
    return (uint32_t)((double)turn * 255.0);
}

static void shift_pixel(const struct weights *weights, uint8_t *pixel)
{
    int r = pixel[0], g = pixel[1], b = pixel[2];
    int largest = r > g ? r : g, smallest = r < g ? r : g;
    largest = b > largest ? b : largest;
    smallest = b < smallest ? b : smallest;
    int spread = largest - smallest;
    if (spread == 0)
        return;
    uint32_t product = (uint32_t)(largest * (255 * spread / largest));
    const uint8_t *weight = weights->of[find_hue(r, g, b, largest, smallest, spread)];
    for (int c = 0; c < 3; c++)
        pixel[c] = (uint8_t)((uint32_t)largest - (product * weight[c] + 32512u) / 65025u);
}

void mr_image_hue_shift(const struct mr_image_call *call, struct mr_image *image, const struct mr_kernel_ops *kernels)
{
    (void)kernels;
    if (image->n_channels == 1)
        return;
    struct weights weights;
    fill_weights(call->args[0], &weights);
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++)
            shift_pixel(&weights, row + (size_t)3 * x);
    }
}
