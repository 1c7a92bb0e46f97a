/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random erasing: draws the boxes of a sample's tensor that are overwritten after its floats are
 * made.
 */
#ifndef TRANSFORMS_ERASE_H
#define TRANSFORMS_ERASE_H

#include "base/erasing.h"
#include "base/rng.h"
#include "transforms/plan.h"

/*
 * Draw for a tensor of that size, as torchvision's RandomErasing does, or as timm's if count is
 * above 1. rng is the sample's, after all other draws; with philox the draws come from the
 * operation's own place. A box that does not fit is not drawn.
 */
void mr_erase_draw(const struct mr_plan *plan, uint32_t width, uint32_t height,
                   const struct mr_rng *rng, struct mr_erase *erase_out);

/*
 * True if the plan's pixels are u8. The boxes are then drawn with them, and applied to the floats
 * that are made later.
 */
bool mr_erase_is_deferred(const struct mr_plan *plan);

/* Overwrite the boxes in a finished tensor of the plan. */
void mr_erase_run(const struct mr_plan *plan, const struct mr_erase *erase, void *tensor);

/*
 * Draw the boxes of a finished sample, after the draws of its geometry, and overwrite them in out
 * unless that is deferred.
 */
void mr_erase_sample(const struct mr_plan *plan, struct mr_rng *rng, void *out,
                     struct mr_erase *erase_out);

#endif
