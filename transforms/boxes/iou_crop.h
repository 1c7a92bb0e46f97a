/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the crop of random_iou_crop. */
#ifndef TRANSFORMS_BOXES_IOU_CROP_H
#define TRANSFORMS_BOXES_IOU_CROP_H

#include "base/box_list.h"
#include "base/rng.h"
#include "transforms/geometry_step.h"

/*
 * v2.RandomIoUCrop.make_params for the image of the step and its boxes (NULL: none). It draws from
 * a separate place, so other draws are the same with any boxes. The width of step->box is 0 if the
 * image stays as it is.
 */
void mr_iou_crop_draw(struct mr_geometry_step *step, uint32_t place, const struct mr_rng *rng,
                      const struct mr_box_list *boxes);

#endif
