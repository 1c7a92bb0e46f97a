/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of the image operations in plain C, which are the reference for the other sets. */
#include "transforms/simd/image_loops.h"

static void map_values(const uint8_t tables[3][256], uint32_t step, uint8_t *bytes, size_t len)
{
    if (step == 1) {
        for (size_t i = 0; i < len; i++)
            bytes[i] = tables[0][bytes[i]];
        return;
    }
    for (size_t i = 0; i < len; i += 3) {
        uint8_t r = tables[0][bytes[i]], g = tables[1][bytes[i + 1]], b = tables[2][bytes[i + 2]];
        bytes[i] = r;
        bytes[i + 1] = g;
        bytes[i + 2] = b;
    }
}

static void make_gray(uint32_t step, const uint8_t *pixels, size_t n, uint8_t *out)
{
    if (step == 1) {
        for (size_t i = 0; i < n; i++)
            out[i] = mr_image_loops_gray(pixels + 3 * i);
        return;
    }
    for (size_t i = 0; i < n; i++) {
        uint8_t gray = mr_image_loops_gray(pixels + 3 * i);
        out[3 * i] = out[3 * i + 1] = out[3 * i + 2] = gray;
    }
}

static uint64_t sum_gray(const uint8_t *pixels, size_t n)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += mr_image_loops_gray(pixels + 3 * i);
    return sum;
}

static void saturate(float factor, uint8_t *pixels, size_t n)
{
    for (size_t i = 0; i < n; i++, pixels += 3) {
        uint8_t gray = mr_image_loops_gray(pixels);
        for (uint32_t c = 0; c < 3; c++)
            pixels[c] = mr_image_loops_blend(gray, pixels[c], factor);
    }
}

/*
 * V is the largest channel, S = 255 * (V - smallest) / V cut to an integer. H is found in floats
 * with Pillow's roundings, because some colours are exactly on a boundary. The way back needs no
 * floats: a channel is V - round(V * S * weight / 65025), and no product is a tie.
 */

/* H in bytes, computed like Pillow's rgb2hsv_row(). spread is largest - smallest, and not 0. */
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

static void shift_hue(const struct mr_hue_shift *shift, uint8_t *pixels, size_t n)
{
    for (size_t i = 0; i < n; i++, pixels += 3) {
        int r = pixels[0], g = pixels[1], b = pixels[2];
        int largest = r > g ? r : g, smallest = r < g ? r : g;
        largest = b > largest ? b : largest;
        smallest = b < smallest ? b : smallest;
        int spread = largest - smallest;
        if (spread == 0)
            continue;
        uint32_t product = (uint32_t)(largest * (255 * spread / largest));
        const uint8_t *weight = shift->weight[find_hue(r, g, b, largest, smallest, spread)];
        for (int c = 0; c < 3; c++)
            pixels[c] = (uint8_t)((uint32_t)largest - (product * weight[c] + 32512u) / 65025u);
    }
}

/*
 * Pillow's filter sums in floats. No sum comes near a boundary, so integers give the same result.
 */
void mr_image_loops_sharpen(float factor, uint32_t step, size_t len, size_t stride,
                            const uint8_t *restrict row, uint8_t *restrict out)
{
    const uint8_t *above = row - stride, *below = row + stride;
    for (size_t i = step; i < len - step; i++) {
        size_t left = i - step, right = i + step;
        int sum = above[left] + above[i] + above[right] + row[left] + 5 * row[i] + row[right] +
                  below[left] + below[i] + below[right];
        out[i] = mr_image_loops_blend((uint8_t)((uint32_t)(sum + 6) / 13), row[i], factor);
    }
}

#define ONE (1u << 24)
#define MAX_LANES 64

/* One pass over n groups of `lanes` bytes, which are from_step and to_step bytes apart. */
static inline __attribute__((always_inline)) void
box_groups(const struct mr_box_blur *box, uint32_t n, uint32_t lanes, const uint8_t *restrict from,
           size_t from_step, uint8_t *restrict to, size_t to_step)
{
    const int64_t reach = box->reach, last = (int64_t)n - 1;
    uint32_t sum[MAX_LANES] = {0};
    for (int64_t k = -reach; k <= reach; k++) {
        const uint8_t *group = from + from_step * (size_t)(k < 0 ? 0 : k > last ? last : k);
        for (uint32_t c = 0; c < lanes; c++)
            sum[c] += group[c];
    }
    for (int64_t i = 0; i <= last; i++, to += to_step) {
        int64_t first = i - reach, next = i + reach + 1;
        const uint8_t *before = from + from_step * (size_t)(first > 0 ? first - 1 : 0);
        const uint8_t *leaves = from + from_step * (size_t)(first > 0 ? first : 0);
        const uint8_t *enters = from + from_step * (size_t)(next < last ? next : last);
        for (uint32_t c = 0; c < lanes; c++) {
            to[c] = (uint8_t)((sum[c] * box->whole + (uint32_t)(before[c] + enters[c]) * box->part +
                               ONE / 2) >>
                              24);
            sum[c] += (uint32_t)enters[c] - leaves[c];
        }
    }
}

void mr_image_loops_box_row(const struct mr_box_blur *box, uint32_t step, uint32_t n,
                            const uint8_t *row, uint8_t *out)
{
    if (step == 3)
        box_groups(box, n, 3, row, 3, out, 3);
    else
        box_groups(box, n, 1, row, 1, out, 1);
}

void mr_image_loops_box_columns(const struct mr_box_blur *box, uint32_t n, size_t len,
                                const uint8_t *from, size_t from_stride, uint8_t *to,
                                size_t to_stride)
{
    size_t i = 0;
    for (; i + MAX_LANES <= len; i += MAX_LANES)
        box_groups(box, n, MAX_LANES, from + i, from_stride, to + i, to_stride);
    if (i < len)
        box_groups(box, n, (uint32_t)(len - i), from + i, from_stride, to + i, to_stride);
}

/* a * weight / 65536 */
static inline uint16_t take_part(uint32_t a, uint32_t weight)
{
    return (uint16_t)((uint16_t)a * weight >> 16);
}

static void taps_row(const struct mr_taps *taps, uint32_t step, const uint8_t *restrict bytes,
                     uint16_t *restrict words)
{
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i++)
        words[i] = (uint16_t)(take_part((uint32_t)bytes[i] << MR_TAPS_POINT, taps->weight[0]) +
                              taps->bias);
    for (uint32_t k = 1; k <= taps->reach; k++) {
        const uint8_t *left = bytes - (size_t)k * step, *right = bytes + (size_t)k * step;
        for (uint32_t i = 0; i < MR_TAPS_STRIP; i++)
            words[i] += take_part((uint32_t)(left[i] + right[i]) << MR_TAPS_POINT, taps->weight[k]);
    }
}

static void taps_columns(const struct mr_taps *taps, const uint16_t *const *rows,
                         uint8_t *restrict bytes)
{
    uint16_t sum[MR_TAPS_STRIP];
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i++)
        sum[i] = (uint16_t)(take_part(rows[0][i], taps->weight[0]) + taps->bias +
                            (1u << (MR_TAPS_POINT - 1)));
    for (int32_t k = 1; k <= (int32_t)taps->reach; k++)
        for (uint32_t i = 0; i < MR_TAPS_STRIP; i++)
            sum[i] += take_part((uint32_t)(rows[-k][i] + rows[k][i]), taps->weight[k]);
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i++)
        bytes[i] = (uint8_t)(sum[i] >> MR_TAPS_POINT);
}

const struct mr_image_loops mr_image_loops_c = {.map = map_values,
                                                .gray = make_gray,
                                                .sum_gray = sum_gray,
                                                .saturate = saturate,
                                                .shift_hue = shift_hue,
                                                .sharpen = mr_image_loops_sharpen,
                                                .box_row = mr_image_loops_box_row,
                                                .box_columns = mr_image_loops_box_columns,
                                                .taps_row = taps_row,
                                                .taps_columns = taps_columns,
                                                .warp = &mr_warp_loops_c};
