/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the image operations (image_ops/) on u8, a part of each set's table. A pixel has
 * three values; a `step` is the number of values per pixel, 1 or 3. Sums and divisions are
 * Pillow's, so the compiler must not contract a product and a sum.
 */
#ifndef TRANSFORMS_SIMD_IMAGE_LOOPS_H
#define TRANSFORMS_SIMD_IMAGE_LOOPS_H

#include "transforms/simd/warp.h"

/* A shift of the hue. Only plain C uses the table. */
struct mr_hue_shift {
    uint32_t shift; /* of the hue, in bytes, 0 to 255 */
    /* Of a channel, by the original hue; 0 if that channel is the largest. */
    uint8_t weight[256][3];
};

/*
 * A box blur over 2 * reach + 1 whole values and a fraction of one more at each end. Weights are in
 * units of 2^-24.
 */
struct mr_box_blur {
    uint32_t reach;
    uint32_t whole;
    uint32_t part;
};

#define MR_TAPS_MAX_REACH 31
#define MR_TAPS_STRIP 64
#define MR_TAPS_POINT 7

/* Symmetric taps. A product of 16 x 16 bits keeps its upper half; `bias` makes up for the loss. */
struct mr_taps {
    uint32_t reach;
    uint32_t bias;
    uint16_t weight[MR_TAPS_MAX_REACH + 1]; /* by distance from the centre, in units of 1/65536 */
};

struct mr_image_loops {
    /* In place: replace value i by its entry in table i modulo step. len is a multiple of step. */
    void (*map)(const uint8_t tables[3][256], uint32_t step, uint8_t *bytes, size_t len);
    /* Write the gray of each of n pixels `step` times. out may be pixels, or begin before it. */
    void (*gray)(uint32_t step, const uint8_t *pixels, size_t n, uint8_t *out);
    /* The sum of the grays of n pixels. */
    uint64_t (*sum_gray)(const uint8_t *pixels, size_t n);
    /*
     * In place: blend each pixel with its gray, from the gray (factor 0) to the pixel (factor 1)
     * and beyond.
     */
    void (*saturate)(float factor, uint8_t *pixels, size_t n);
    void (*shift_hue)(const struct mr_hue_shift *shift, uint8_t *pixels, size_t n);
    /*
     * Blend a row with the mean of 3 x 3 pixels, where the centre counts five times. The first and
     * the last pixel are not written. The rows above and below are `stride` bytes away.
     */
    void (*sharpen)(float factor, uint32_t step, size_t len, size_t stride, const uint8_t *row,
                    uint8_t *out);
    /* One pass along a row of n pixels; outside the row its end pixels repeat. */
    void (*box_row)(const struct mr_box_blur *box, uint32_t step, uint32_t n, const uint8_t *row,
                    uint8_t *out);
    /* One pass down n rows of len bytes, the same way. */
    void (*box_columns)(const struct mr_box_blur *box, uint32_t n, size_t len, const uint8_t *from,
                        size_t from_stride, uint8_t *to, size_t to_stride);
    /*
     * Filter MR_TAPS_STRIP values into words with MR_TAPS_POINT fractional bits; reach * step more
     * bytes can be read on both sides.
     */
    void (*taps_row)(const struct mr_taps *taps, uint32_t step, const uint8_t *bytes,
                     uint16_t *words);
    /*
     * Filter rows of words into MR_TAPS_STRIP bytes; rows[0] is the centre, and rows[-reach] to
     * rows[reach] exist.
     */
    void (*taps_columns)(const struct mr_taps *taps, const uint16_t *const *rows, uint8_t *bytes);
    const struct mr_warp_loops *warp;
};

extern const struct mr_image_loops mr_image_loops_c;
extern const struct mr_image_loops mr_image_loops_avx2;
extern const struct mr_image_loops mr_image_loops_avx512;

/* image_map_<set>.c */
void mr_image_map_avx2(const uint8_t tables[3][256], uint32_t step, uint8_t *bytes, size_t len);
void mr_image_map_avx512(const uint8_t tables[3][256], uint32_t step, uint8_t *bytes, size_t len);

/* Plain C loops that the other sets use for the ends of rows. */
void mr_image_loops_sharpen(float factor, uint32_t step, size_t len, size_t stride,
                            const uint8_t *row, uint8_t *out);
void mr_image_loops_box_row(const struct mr_box_blur *box, uint32_t step, uint32_t n,
                            const uint8_t *row, uint8_t *out);
void mr_image_loops_box_columns(const struct mr_box_blur *box, uint32_t n, size_t len,
                                const uint8_t *from, size_t from_stride, uint8_t *to,
                                size_t to_stride);

/* Image.blend of two bytes: `from` at factor 0, `to` at factor 1. */
static inline uint8_t mr_image_loops_blend(uint8_t from, uint8_t to, float factor)
{
    float value = (float)from + factor * (float)(to - from);
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
}

/* Pillow's convert("L") */
static inline uint8_t mr_image_loops_gray(const uint8_t *pixel)
{
    return (uint8_t)((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

#endif
