/* SPDX-License-Identifier: Apache-2.0 */
/* What the vector sets share when they fill an axis: how many taps there can be, and zeros for the rest. */
#ifndef TRANSFORMS_SIMD_AXIS_SIMD_H
#define TRANSFORMS_SIMD_AXIS_SIMD_H

#include "transforms/axis.h"

#include <assert.h>
#include <string.h>

/*
 * No output has more taps: the difference of two positions that are cut to integers is at most that of the positions,
 * 2 x support, rounded up.
 */
static inline uint32_t mr_axis_most_taps(const struct mr_axis_filter *filter)
{
    uint32_t most = (uint32_t)(2 * filter->support) + 1;
    return most < filter->most ? most : filter->most;
}

/* Once the first `most` taps have their weights: the longest, and zeros for the taps up to a multiple of four. */
static inline void mr_axis_end_fill(struct mr_axis *axis, uint32_t most)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < axis->n; i++)
        if (axis->count[i] > longest)
            longest = axis->count[i];
    assert(longest <= most);
    axis->max_taps = longest;
    for (uint32_t k = most; k < ((longest + 3) & ~3u); k++)
        memset(axis->weight + (size_t)k * axis->pitch, 0, axis->pitch * sizeof *axis->weight);
}

#endif
