/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample's mask: an image of indices, never of colours, that is moved with the picture. Each
 * operation of geometry does to the mask what torchvision.transforms.v2 does to a tv_tensors.Mask:
 * a resize takes the nearest index, a border is filled. Operations on colours leave it as it is.
 */
#ifndef TRANSFORMS_MASKS_MASK_RUN_H
#define TRANSFORMS_MASKS_MASK_RUN_H

#include "transforms/masks/mask_inflate.h"
#include "transforms/masks/mask_job.h"

/* The memory that masks are made in. It starts as zeros, and grows to the largest mask. */
struct mr_mask_run {
    const uint8_t *bytes; /* of the sample's mask */
    size_t len;
    bool is_decoded; /* to pixels: */
    struct mr_mask_pixels pixels;
    struct mr_scratch columns;
    struct mr_scratch images[2]; /* before and after a warp */
};

void mr_mask_run_fini(struct mr_mask_run *run);

/* Set the mask of the next sample, a PNG of a palette or of 8 or 16 bits of grey. */
void mr_mask_run_set(struct mr_mask_run *run, const uint8_t *bytes, size_t len);

/*
 * Make the mask of a picture of that sample. It is decoded once. out: elements of the rule's dtype,
 * as many as the picture has pixels. MR_ERR_DAMAGED: the file is no such PNG, has another size than
 * the picture, or has a value that the dtype cannot hold. MR_ERR_NO_MEMORY.
 */
mr_status mr_mask_run(struct mr_mask_run *run, const struct mr_mask_job *job, void *out,
                      mr_error *error);

#endif
