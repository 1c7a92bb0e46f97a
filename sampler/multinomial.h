/* SPDX-License-Identifier: Apache-2.0 */
/* torch.multinomial() of one row of f64 on the CPU, index for index. */
#ifndef SAMPLER_MULTINOMIAL_H
#define SAMPLER_MULTINOMIAL_H

#include "sampler/weights.h"

#include <stdbool.h>

/*
 * Receives the draws of the order, one after the other: the index, and how often earlier draws had
 * that index.
 */
typedef void (*mr_multinomial_take)(void *user, uint64_t position, uint32_t index,
                                    uint32_t occurrence);

/*
 * How often draws with replacement had each index. Counts are bytes so that the table is small;
 * counts above 255 are rare and go to a second table.
 */
struct mr_multinomial_counts {
    uint8_t *low;   /* up to 255 */
    uint32_t *more; /* the part above 255; few pages of it are ever touched */
    bool is_full;   /* some byte is 255 */
};

/*
 * Allocate counts for n weights, to be used for any number of orders. Returns MR_OK or
 * MR_ERR_NO_MEMORY: nothing is left to free.
 */
mr_status mr_multinomial_counts_allocate(struct mr_multinomial_counts *counts_out, uint64_t n,
                                         mr_error *error);
void mr_multinomial_counts_free(struct mr_multinomial_counts *counts); /* zeros: does nothing */

/*
 * Pass n draws to take(), in order, for a generator with this seed. If the weights have sums, the
 * draws are with replacement. Otherwise they are without replacement: `counts` is not used, n is at
 * most the number of weights above zero (assert), and MR_ERR_NO_MEMORY is possible before the first
 * draw.
 */
mr_status mr_multinomial_draw(const struct mr_weights *weights, uint64_t n, uint64_t seed,
                              struct mr_multinomial_counts *counts, mr_multinomial_take take,
                              void *user, mr_error *error);

#endif
