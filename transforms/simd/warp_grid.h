/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch's grid_sample() of a row in plain C, which each set's file compiles for its instructions.
 * Products and sums are contracted where torch's CPU kernels contract them, and nowhere else. The
 * first three are those of a matrix product; see image_ops/README.md.
 */
#ifndef TRANSFORMS_SIMD_WARP_GRID_H
#define TRANSFORMS_SIMD_WARP_GRID_H

#include "transforms/simd/warp.h"

/* The place along one axis, in pixels. */
static inline float warp_grid_place(const float theta[3], float u, float v, uint32_t n)
{
    float place = fmaf(v, theta[1], u * theta[0]) + theta[2];
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
    float v = (float)y - ((float)g->height - 1.0f) * 0.5f;
    for (uint32_t i = 0; i < g->width; i++, row += g->step) {
        float u = (float)i - ((float)g->width - 1.0f) * 0.5f;
        float at_x = warp_grid_place(g->theta, u, v, g->width),
              at_y = warp_grid_place(g->theta + 3, u, v, g->height);
        if (g->filter == MR_WARP_NEAREST)
            warp_grid_nearest(g, at_x, at_y, row);
        else
            warp_grid_bilinear(g, at_x, at_y, row);
    }
}

#endif
