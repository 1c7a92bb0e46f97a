/* SPDX-License-Identifier: Apache-2.0 */
/* torch.multinomial() of one row of f64 on the CPU, index for index. */
#ifndef SAMPLER_MULTINOMIAL_H
#define SAMPLER_MULTINOMIAL_H

#include "sampler/weights.h"

#include <stdbool.h>

/* One draw of the order, in turn: its index, and how often the draws before it had that index. */
typedef void (*mr_multinomial_take)(void *user, uint64_t position, uint32_t index,
                                    uint32_t occurrence);

/*
 * How often draws with replacement had each index. Few reach 255, so most counts are bytes, and the
 * table stays small. /
 */
struct mr_multinomial_counts {
    uint8_t *low;   /* at most 255 */
    uint32_t *more; /* above that: pages that hardly any draw touches */
    bool is_full;   /* some byte is 255 */
};

/*
 * Counts for n weights. They serve one order after the other. On failure nothing is left to free.
 * MR_ERR_NO_MEMORY.
 */
mr_status mr_multinomial_counts_allocate(struct mr_multinomial_counts *counts_out, uint64_t n,
                                         mr_error *error);
void mr_multinomial_counts_free(struct mr_multinomial_counts *counts); /* of zeros: does nothing */

/*
 * Give n draws to take(), in order, for a generator with this seed. Weights with sums: with
 * replacement; without sums: without replacement, `counts` is not used, and n is at most the number
 * of weights above zero (assert). MR_ERR_NO_MEMORY without replacement, before the first draw.
 */
mr_status mr_multinomial_draw(const struct mr_weights *weights, uint64_t n, uint64_t seed,
                              struct mr_multinomial_counts *counts, mr_multinomial_take take,
                              void *user, mr_error *error);

#endif
