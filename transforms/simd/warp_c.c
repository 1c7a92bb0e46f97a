/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of warps in plain C, which are the reference for the other sets. Outside the image its
 * border pixels repeat. Values of pixels are cut to integers, not rounded.
 */
#include "transforms/simd/warp_grid.h"

static int64_t clamp(int64_t i, uint32_t n)
{
    return i < 0 ? 0 : i < n ? i : (int64_t)n - 1;
}

/* The pixel that a tap reads. */
static const uint8_t *find_pixel(const struct mr_warp *warp, int64_t x, int64_t y)
{
    return warp->pixels + (size_t)clamp(y, warp->height) * warp->stride +
           (size_t)clamp(x, warp->width) * warp->step;
}

static double mix_linear(int a, int b, double t)
{
    return a + (b - a) * t;
}

static void take_bilinear(const struct mr_warp *warp, double x, double y, uint8_t *out)
{
    double left = floor(x - 0.5), top = floor(y - 0.5), dx = x - 0.5 - left, dy = y - 0.5 - top;
    const uint8_t *taps[4];
    for (int i = 0; i < 4; i++)
        taps[i] = find_pixel(warp, (int64_t)left + i % 2, (int64_t)top + i / 2);
    for (uint32_t c = 0; c < warp->step; c++) {
        double above = mix_linear(taps[0][c], taps[1][c], dx),
               below = mix_linear(taps[2][c], taps[3][c], dx);
        out[c] = (uint8_t)(above + (below - above) * dy);
    }
}

/* Pillow's cubic has a = -1 here; in its resize it has a = -0.5. */
static double mix_cubic(double a, double b, double c, double d, double t)
{
    double p2 = -a + c, p3 = 2 * (a - b) + c - d, p4 = -a + b - c + d;
    return b + t * (p2 + t * (p3 + t * p4));
}

static void take_bicubic(const struct mr_warp *warp, double x, double y, uint8_t *out)
{
    double left = floor(x - 0.5), top = floor(y - 0.5), dx = x - 0.5 - left, dy = y - 0.5 - top;
    const uint8_t *taps[4][4];
    for (int i = 0; i < 16; i++)
        taps[i / 4][i % 4] = find_pixel(warp, (int64_t)left - 1 + i % 4, (int64_t)top - 1 + i / 4);
    for (uint32_t c = 0; c < warp->step; c++) {
        double rows[4];
        for (int i = 0; i < 4; i++)
            rows[i] = mix_cubic(taps[i][0][c], taps[i][1][c], taps[i][2][c], taps[i][3][c], dx);
        double value = mix_cubic(rows[0], rows[1], rows[2], rows[3], dy);
        out[c] = value <= 0.0 ? 0 : value >= 255.0 ? 255 : (uint8_t)value;
    }
}

static void copy_pixel(uint32_t step, const uint8_t *from, uint8_t *to)
{
    for (uint32_t c = 0; c < step; c++)
        to[c] = from[c];
}

void mr_warp_take(const struct mr_warp *warp, double x, double y, uint8_t *out)
{
    if (warp->filter == MR_WARP_BILINEAR)
        take_bilinear(warp, x, y, out);
    else if (warp->filter == MR_WARP_BICUBIC)
        take_bicubic(warp, x, y, out);
    else
        copy_pixel(warp->step, find_pixel(warp, (int64_t)x, (int64_t)y), out);
}

static void copy(const struct mr_warp *warp, const struct mr_warp_line *line, uint32_t n,
                 uint8_t *out)
{
    int64_t x = line->x, y = line->y;
    for (uint32_t i = 0; i < n; i++, x += line->step_x, y += line->step_y, out += warp->step)
        copy_pixel(warp->step,
                   warp->pixels + (size_t)(y >> 16) * warp->stride + (size_t)(x >> 16) * warp->step,
                   out);
}

static void affine(const struct mr_warp *warp, uint32_t y, uint32_t first, uint32_t end,
                   uint8_t *out)
{
    for (uint32_t x = first; x < end; x++, out += warp->step)
        mr_warp_take(warp, mr_warp_place(warp->a, x, y), mr_warp_place(warp->a + 3, x, y), out);
}

static void perspective(const struct mr_warp *warp, uint32_t y, uint8_t *row)
{
    for (uint32_t x = 0; x < warp->width; x++, row += warp->step) {
        double divisor = warp->a[6] * (x + 0.5) + warp->a[7] * (y + 0.5) + 1;
        double in_x = mr_warp_place(warp->a, x, y) / divisor,
               in_y = mr_warp_place(warp->a + 3, x, y) / divisor;
        if (mr_warp_is_inside(warp, in_x, in_y))
            mr_warp_take(warp, in_x, in_y, row);
    }
}

static void grid(const struct mr_warp_grid *grid, uint32_t y, uint8_t *row)
{
    warp_grid_row(grid, y, row);
}

const struct mr_warp_loops mr_warp_loops_c = {
    .copy = copy, .affine = affine, .perspective = perspective, .grid = grid};
