/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch's grid_sample() of a row in plain C, which each set's file compiles for its instructions.
 * Products and sums are contracted where torch's CPU kernels contract them, and nowhere else. The
 * first three are those of a matrix product; see image_ops/README.md.
 */
#ifndef TRANSFORMS_SIMD_WARP_GRID_H
#define TRANSFORMS_SIMD_WARP_GRID_H

#include "transforms/simd/warp.h"

/* A row of the matrix product: the third column of the places is 1. */
static inline float warp_grid_product(const float theta[2], float last, float u, float v)
{
    return fmaf(v, theta[1], u * theta[0]) + last;
}

/* A place from -1 to 1 in pixels. */
static inline float warp_grid_pixels(float place, uint32_t n)
{
    return fmaf(place + 1.0f, (float)n / 2.0f, -0.5f);
}

/* Set fill where a nearest place is outside; zeros are a fill of 0. */
static inline void warp_grid_nearest(const struct mr_warp_grid *g, float x, float y, uint8_t *out)
{
    x = rintf(x);
    y = rintf(y);
    bool is_inside = x > -1.0f && x < (float)g->width && y > -1.0f && y < (float)g->height;
    const uint8_t *from =
        is_inside ? g->pixels + (size_t)y * g->stride + (size_t)x * g->step : NULL;
    for (uint32_t c = 0; c < g->step; c++)
        out[c] = is_inside ? from[c] : (uint8_t)rintf(g->fill[c]);
}

static inline float warp_grid_border(const struct mr_warp_grid *g, float value, float mask,
                                     float fill)
{
    if (g->border == MR_WARP_ZEROS)
        return value;
    float rest = (1.0f - mask) * fill, above = (value - fill) * mask;
    return g->border == MR_WARP_FILL ? value * mask + rest : above + fill;
}

static inline void warp_grid_bilinear(const struct mr_warp_grid *g, float x, float y, uint8_t *out)
{
    /* Farther away no pixel is near; a NaN is nowhere. */
    bool is_near =
        x > -2.0f && x < (float)g->width + 1.0f && y > -2.0f && y < (float)g->height + 1.0f;
    x = is_near ? x : -2.0f;
    y = is_near ? y : -2.0f;
    float left = floorf(x), top = floorf(y), right_part = x - left, below_part = y - top;
    const float parts_x[2] = {1.0f - right_part, right_part},
                parts_y[2] = {1.0f - below_part, below_part};
    const uint8_t *taps[4];
    float weights[4], mask = 0.0f;
    for (int i = 0; i < 4; i++) {
        int64_t tap_x = (int64_t)left + i % 2, tap_y = (int64_t)top + i / 2;
        bool is_inside = tap_x >= 0 && tap_x < g->width && tap_y >= 0 && tap_y < g->height;
        weights[i] = is_inside ? parts_y[i / 2] * parts_x[i % 2] : 0.0f;
        taps[i] = g->pixels;
        if (is_inside)
            taps[i] += (size_t)tap_y * g->stride + (size_t)tap_x * g->step;
        mask += weights[i];
    }
    for (uint32_t c = 0; c < g->step; c++) {
        float value = (float)taps[0][c] * weights[0];
        for (int i = 1; i < 4; i++)
            value = fmaf((float)taps[i][c], weights[i], value);
        out[c] = (uint8_t)rintf(warp_grid_border(g, value, mask, g->fill[c]));
    }
}

static inline void warp_grid_row(const struct mr_warp_grid *g, uint32_t y, uint8_t *row)
{
    float left = g->is_perspective ? 0.5f : -((float)g->out_width - 1.0f) * 0.5f,
          top = g->is_perspective ? 0.5f : -((float)g->out_height - 1.0f) * 0.5f;
    float v = (float)y + top;
    for (uint32_t i = 0; i < g->out_width; i++, row += g->step) {
        float u = (float)i + left;
        float at_x = warp_grid_product(g->theta, g->theta[2], u, v),
              at_y = warp_grid_product(g->theta + 3, g->theta[5], u, v);
        if (g->is_perspective) {
            float divisor = warp_grid_product(g->divisor, 1.0f, u, v);
            at_x = at_x / divisor - 1.0f;
            at_y = at_y / divisor - 1.0f;
        }
        at_x = warp_grid_pixels(at_x, g->width);
        at_y = warp_grid_pixels(at_y, g->height);
        if (g->filter == MR_WARP_NEAREST)
            warp_grid_nearest(g, at_x, at_y, row);
        else
            warp_grid_bilinear(g, at_x, at_y, row);
    }
}

#endif
