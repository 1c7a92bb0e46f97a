/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves the boxes of a sample with its picture: what torchvision.transforms.v2 does to
 * tv_tensors.BoundingBoxes of the format XYXY in float32, each operation rounded.
 */
#ifndef TRANSFORMS_BOXES_BOX_RUN_H
#define TRANSFORMS_BOXES_BOX_RUN_H

#include "base/box_list.h"
#include "transforms/geometry_step.h"

/*
 * Do one step to the boxes, which are in pixels of the image before it: a crop and a pad clamp them
 * to the new image, sanitize removes rows, and random_iou_crop sets those to 0 whose centres it
 * cuts off. Areas stay what the annotation states.
 */
void mr_box_run_step(const struct mr_geometry_step *step, struct mr_box_list *boxes);

/* Is the centre of the row inside the box, not on its edge? */
bool mr_box_run_is_inside(const struct mr_box_row *row, const struct mr_box *box);

/* Clamp the boxes to an image of that size. */
void mr_box_run_clamp(struct mr_box_list *boxes, int64_t width, int64_t height);

/* Flip an image of that size along x, or along y. */
void mr_box_run_flip(struct mr_box_list *boxes, bool along_x, int64_t width, int64_t height);

#endif
