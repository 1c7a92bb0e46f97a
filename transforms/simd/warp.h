/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that take the pixels of a row from places in an image, as Pillow's Image.transform() does.
 * A place is a double; pixel k covers k to k + 1. Sums, products and quotients are Pillow's one by
 * one, so none may be contracted.
 */
#ifndef TRANSFORMS_SIMD_WARP_H
#define TRANSFORMS_SIMD_WARP_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_warp_filter { MR_WARP_NEAREST, MR_WARP_BILINEAR, MR_WARP_BICUBIC };

/* An image, and where the pixels of the result lie in it. */
struct mr_warp {
    const uint8_t *pixels;
    size_t stride;
    uint32_t width; /* of the image and of the result */
    uint32_t height;
    uint32_t step; /* values of a pixel, 1 or 3 */
    uint32_t filter;
    /*
     * With u = x + 0.5 and v = y + 0.5, pixel x, y of the result lies at (a[0] u + a[1] v + a[2]),
     * (a[3] u + a[4] v + a[5]). A perspective divides both by (a[6] u + a[7] v + 1).
     */
    double a[8];
};

/* Of n neighbouring pixels: 16 bits behind the point. */
struct mr_warp_line {
    int32_t x, y;           /* of the first one */
    int32_t step_x, step_y; /* from one to the next */
};

struct mr_warp_loops {
    /* n pixels, all of which lie in the image; the nearest ones. */
    void (*copy)(const struct mr_warp *warp, const struct mr_warp_line *line, uint32_t n,
                 uint8_t *out);
    /*
     * Pixels first to end - 1 of row y, all of which lie in the image; without division, not the
     * nearest ones.
     */
    void (*affine)(const struct mr_warp *warp, uint32_t y, uint32_t first, uint32_t end,
                   uint8_t *out);
    /* Those pixels of row y that lie in the image, with division. The others stay. */
    void (*perspective)(const struct mr_warp *warp, uint32_t y, uint8_t *row);
};

extern const struct mr_warp_loops mr_warp_loops_c;
extern const struct mr_warp_loops mr_warp_loops_avx2;
extern const struct mr_warp_loops mr_warp_loops_avx512;

/* Places of row y, of pixel x without division. */
static inline double mr_warp_place(const double a[3], uint32_t x, uint32_t y)
{
    return a[0] * (x + 0.5) + a[1] * (y + 0.5) + a[2];
}

/* False for a NaN too. */
static inline bool mr_warp_is_inside(const struct mr_warp *warp, double x, double y)
{
    return x >= 0.0 && x < warp->width && y >= 0.0 && y < warp->height;
}

/* The pixel at a place in the image, by the filter. */
void mr_warp_take(const struct mr_warp *warp, double x, double y, uint8_t *out);

#endif
