/* SPDX-License-Identifier: Apache-2.0 */
/* Random erasing: boxes of a sample's tensor that are overwritten once its floats are made. */
#ifndef TRANSFORMS_ERASE_H
#define TRANSFORMS_ERASE_H

#include "base/rng.h"
#include "transforms/plan.h"

enum { MR_ERASE_MAX_BOXES = 4 };

/* What a sample's draws say. i and j are the box's top and left in the tensor. */
struct mr_erase {
    uint32_t n;
    struct mr_erase_box {
        int32_t i, j, h, w;
    } boxes[MR_ERASE_MAX_BOXES];
};

/*
 * Draw for a tensor of that size, as torchvision's RandomErasing; of a count above 1 as timm's. rng is the sample's, at
 * the end of the other draws; philox's are those of the operation's own place. Nothing is drawn where no box fits.
 */
void mr_erase_draw(const struct mr_plan *plan, uint32_t width, uint32_t height, const struct mr_rng *rng,
                   struct mr_erase *erase_out);

/* The values of box k for each channel, where they are the same in all of it: a constant or `rand`. */
void mr_erase_values(const struct mr_plan *plan, const struct mr_rng *rng, uint32_t k, float values_out[4]);

/* Overwrite the boxes in a finished tensor of the plan. rng as for mr_erase_draw(). */
void mr_erase_run(const struct mr_plan *plan, const struct mr_erase *erase, const struct mr_rng *rng, void *tensor);

#endif
