/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the operations of torchvision's detection recipes become for one image, letterbox and
 * DINOv3's patch_crop.
 */
#ifndef TRANSFORMS_GEOMETRY_DETECTION_H
#define TRANSFORMS_GEOMETRY_DETECTION_H

#include "base/rng.h"
#include "transforms/geometry_step.h"

/*
 * Draw step->op for an image of step->width x step->height: set the box or the resized size, or of
 * letterbox both; its box is in pixels of the resized image. MR_ERR_DAMAGED if a side becomes 0 or
 * is too long.
 */
mr_status mr_geometry_detection_draw(struct mr_geometry_step *step, struct mr_rng *rng,
                                     mr_error *error);

#endif
