/* SPDX-License-Identifier: Apache-2.0 */
/* Resizes whole images. The pixels equal those of the transform resize(). */
#ifndef PACKS_PACKER_RESIZE_H
#define PACKS_PACKER_RESIZE_H

#include "transforms/resample.h"
#include "transforms/scratch.h"

/* Starts as zeros. */
struct mr_packer_resize {
    struct mr_resample resample;
    struct mr_geometry geometry;
    struct mr_plan plan; /* one operation */
};

void mr_packer_resize_fini(struct mr_packer_resize *resize);

/*
 * Compute the new size: the longest side becomes max_side if it is longer, or the shortest side
 * becomes `shortest`; if both are 0 the size stays. MR_ERR_UNSUPPORTED: more than max_pixels.
 */
mr_status mr_packer_resize_begin(struct mr_packer_resize *resize, uint32_t width, uint32_t height,
                                 uint32_t max_side, uint32_t shortest, uint64_t max_pixels,
                                 uint32_t *width_out, uint32_t *height_out, mr_error *error);

/* Resize the pixels, width x height x 3, into out, which has room for the new size. */
mr_status mr_packer_resize_run(struct mr_packer_resize *resize, const uint8_t *pixels,
                               uint32_t width, uint8_t *out, mr_error *error);

#endif
