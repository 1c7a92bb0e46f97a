/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations, affine maps, perspectives, and flips among image operations, of a mask. */
#ifndef TRANSFORMS_MASKS_MASK_WARP_H
#define TRANSFORMS_MASKS_MASK_WARP_H

#include "transforms/masks/mask_job.h"
#include "transforms/scratch.h"

/* Does the step have calls that move pixels? calls: the sample's. */
bool mr_mask_warp_is_needed(const struct mr_geometry_step *step, const struct mr_image_call *calls);

/*
 * Do these calls to a mask, which is in one of the spares: of one channel, or with the high and the
 * low byte of each index as the first two of three. Afterwards it is in one of the spares, and as
 * large as the picture.
 */
mr_status mr_mask_warp_run(const struct mr_mask_job *job, const struct mr_geometry_step *step,
                           struct mr_image *image, struct mr_scratch *spares, mr_error *error);

#endif
