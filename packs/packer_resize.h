/* SPDX-License-Identifier: Apache-2.0 */
/* Resizes whole images, once. The pixels are those of resize(). */
#ifndef PACKS_PACKER_RESIZE_H
#define PACKS_PACKER_RESIZE_H

#include "transforms/resample.h"
#include "transforms/scratch.h"

/* Starts as zeros. */
struct mr_packer_resize {
    struct mr_resample resample;
    struct mr_geometry geometry;
    struct mr_plan plan; /* of one operation */
};

void mr_packer_resize_fini(struct mr_packer_resize *resize);

/*
 * The size that an image gets: its longest side max_side where it is longer, or its shortest one `shortest`; where both
 * are 0, its own. MR_ERR_UNSUPPORTED: more than max_pixels.
 */
mr_status mr_packer_resize_begin(struct mr_packer_resize *resize, uint32_t width, uint32_t height, uint32_t max_side,
                                 uint32_t shortest, uint64_t max_pixels, uint32_t *width_out, uint32_t *height_out,
                                 mr_error *error);

/* The pixels of it, from width x height x 3 to room for as many of the new size. */
mr_status mr_packer_resize_run(struct mr_packer_resize *resize, const uint8_t *pixels, uint32_t width, uint8_t *out,
                               mr_error *error);

#endif
