/* SPDX-License-Identifier: Apache-2.0 */
/* Rotations, affine maps, perspectives, and flips among image operations, of boxes. */
#ifndef TRANSFORMS_BOXES_BOX_WARP_H
#define TRANSFORMS_BOXES_BOX_WARP_H

#include "base/box_list.h"
#include "transforms/geometry_step.h"
#include "transforms/image_ops/image_call_kind.h"

/*
 * Do the calls of a step that move pixels to the boxes, which are in pixels of the image before it.
 * A warp clamps them to the new image. MR_CALL_PIL_AFFINE is refused before (plan_compile.c).
 */
void mr_box_warp_step(const struct mr_geometry_step *step, const struct mr_image_call *calls,
                      struct mr_box_list *boxes);

#endif
