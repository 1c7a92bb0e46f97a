/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A weighted sum of an image and of what chains of calls make of it, in f32, as torchvision's
 * AugMix computes it.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_MIX_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_MIX_H

#include "transforms/image_ops/image_call_kind.h"

/* Images of memory: one for calls with a make, a copy of the image, and four for the sums. */
#define MR_IMAGE_MIX_SPARES 6

struct mr_image_mix {
    uint8_t *spares; /* MR_IMAGE_MIX_SPARES images */
    float weight;    /* of the chain that runs */
};

/*
 * MR_CALL_MIX_START (args: weight of the image as it is) keeps the image, MR_CALL_MIX_CHAIN (args:
 * weight of the chain that follows) adds the image to the sum and puts the kept one in its place,
 * MR_CALL_MIX_END adds the image and replaces it by the sum.
 */
void mr_image_mix_run(struct mr_image_mix *mix, const struct mr_image_call *call,
                      struct mr_image *image);

#endif
