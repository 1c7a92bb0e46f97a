/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Slow references for the room's code: whole images, one operation at a time, double loops, written
 * from torchvision's and Pillow's definitions. They share only the draws of base/rng.h with the
 * code.
 */
#ifndef TESTS_TRANSFORMS_REFERENCE_H
#define TESTS_TRANSFORMS_REFERENCE_H

#include "base/rng.h"
#include "transforms/plan.h"

struct image {
    int64_t width;
    int64_t height;
    int channels;
    uint8_t *pixels; /* interleaved */
};

struct image image_make(int64_t width, int64_t height, int channels);
void image_free(struct image *image);
/* Noise with runs of 0 and 255 in it, from a separate small generator. */
void image_fill(struct image *image, uint64_t seed);
/* The synthetic image of resize_bilinear.json. */
struct image image_synthetic(int64_t width, int64_t height);
bool image_equal(const struct image *a, const struct image *b);

/* Each replaces *image. Outside the image a box shows zeros. */
void reference_crop(struct image *image, int64_t x, int64_t y, int64_t width, int64_t height);
void reference_resize(struct image *image, int64_t width, int64_t height,
                      enum mr_interpolation interpolation);
void reference_hflip(struct image *image);
void reference_vflip(struct image *image);
/*
 * One operation with its draws, as torchvision's module would run it. False if torchvision raises.
 */
bool reference_op(struct image *image, const struct mr_op *op, struct mr_rng *rng);

/*
 * All operations, as the plan of the transform should run them. False if torchvision would raise.
 * Image operations are run by the library, one call at a time in plain C, because
 * test_image_calls.c compares them with Pillow: the reference is for what is between them.
 */
bool reference_run(struct image *image, const mr_transform *t, const struct mr_plan *plan,
                   struct mr_rng *rng);

/* splitmix64 */
uint64_t reference_random(uint64_t *state);
uint64_t reference_below(uint64_t *state, uint64_t n);
/* MR_TEST_SEED, or one from the clock; printed. */
uint64_t reference_seed(void);

uint32_t reference_crc(const void *bytes, size_t len);

#endif
