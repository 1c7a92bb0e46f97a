/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loops that take the pixels of a row from positions in an image, as Pillow's Image.transform()
 * does. A position is a double; pixel k covers k to k + 1. Sums, products and quotients are
 * Pillow's one by one, so the compiler must not contract them.
 */
#ifndef TRANSFORMS_SIMD_WARP_H
#define TRANSFORMS_SIMD_WARP_H

#include <math.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_warp_filter { MR_WARP_NEAREST, MR_WARP_BILINEAR, MR_WARP_BICUBIC };

/* An image, and where the pixels of the result are in it. */
struct mr_warp {
    const uint8_t *pixels;
    size_t stride;
    uint32_t width; /* of the image and of the result */
    uint32_t height;
    uint32_t step; /* values per pixel, 1 or 3 */
    uint32_t filter;
    /*
     * With u = x + 0.5 and v = y + 0.5, pixel x, y of the result is at (a[0] u + a[1] v + a[2]),
     * (a[3] u + a[4] v + a[5]). A perspective divides both by (a[6] u + a[7] v + 1).
     */
    double a[8];
};

/* Positions of neighbouring pixels, with 16 fractional bits. */
struct mr_warp_line {
    int32_t x, y;           /* of the first pixel */
    int32_t step_x, step_y; /* from one pixel to the next */
};

/* What torchvision does with a tensor at places outside the image. */
enum mr_warp_border {
    MR_WARP_ZEROS,  /* they are 0 */
    MR_WARP_FILL,   /* v1: value * mask + (1 - mask) * fill */
    MR_WARP_FILL_V2 /* (value - fill) * mask + fill */
};

/*
 * A map of a tensor, by torch's grid_sample(align_corners=False). With u and v, the distances of a
 * pixel from the result's middle, its place from -1 to 1 across the image is
 * (theta[0] u + theta[1] v + theta[2]), (theta[3] u + theta[4] v + theta[5]). For a perspective u
 * and v are the pixel's middle, and both are divided by (divisor[0] u + divisor[1] v + 1), minus 1.
 */
struct mr_warp_grid {
    const uint8_t *pixels;
    size_t stride;
    uint32_t width; /* of the image */
    uint32_t height;
    uint32_t out_width; /* of the result */
    uint32_t out_height;
    uint32_t step;   /* values per pixel, 1 or 3 */
    uint32_t filter; /* MR_WARP_NEAREST or MR_WARP_BILINEAR */
    uint32_t border; /* enum mr_warp_border */
    float fill[3];
    float theta[6];
    bool is_perspective;
    float divisor[2];
};

struct mr_warp_loops {
    /* Copy the nearest pixels of n positions, all inside the image. */
    void (*copy)(const struct mr_warp *warp, const struct mr_warp_line *line, uint32_t n,
                 uint8_t *out);
    /*
     * Write pixels first to end - 1 of row y, whose positions are all inside the image. For
     * transforms without division, with filters other than nearest.
     */
    void (*affine)(const struct mr_warp *warp, uint32_t y, uint32_t first, uint32_t end,
                   uint8_t *out);
    /*
     * Write the pixels of row y whose positions are inside the image, with division. The other
     * pixels are not changed.
     */
    void (*perspective)(const struct mr_warp *warp, uint32_t y, uint8_t *row);
    /* Write row y. */
    void (*grid)(const struct mr_warp_grid *grid, uint32_t y, uint8_t *row);
};

extern const struct mr_warp_loops mr_warp_loops_c;
extern const struct mr_warp_loops mr_warp_loops_avx2;
extern const struct mr_warp_loops mr_warp_loops_avx512;

/* Position of pixel x of row y, along one axis, without division. */
static inline double mr_warp_place(const double a[3], uint32_t x, uint32_t y)
{
    return a[0] * (x + 0.5) + a[1] * (y + 0.5) + a[2];
}

/* False for a NaN too. */
static inline bool mr_warp_is_inside(const struct mr_warp *warp, double x, double y)
{
    return x >= 0.0 && x < warp->width && y >= 0.0 && y < warp->height;
}

/* Write the pixel at a position inside the image, by the filter. */
void mr_warp_take(const struct mr_warp *warp, double x, double y, uint8_t *out);

#endif
