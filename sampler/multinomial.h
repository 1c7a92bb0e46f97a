/* SPDX-License-Identifier: Apache-2.0 */
/* torch.multinomial() of one row of f64 on the CPU, index for index. */
#ifndef SAMPLER_MULTINOMIAL_H
#define SAMPLER_MULTINOMIAL_H

#include "sampler/weights.h"

/* One draw of the order, in turn: its index, and how often the draws before it had that index. */
typedef void (*mr_multinomial_take)(void *user, uint64_t position, uint32_t index, uint32_t occurrence);

/*
 * Give n draws to take(), in order, for a generator with this seed. Weights with sums: with replacement; without sums:
 * without replacement, and n is at most the number of weights above zero (assert). MR_ERR_NO_MEMORY.
 */
mr_status mr_multinomial_draw(const struct mr_weights *weights, uint64_t n, uint64_t seed, mr_multinomial_take take,
                              void *user, mr_error *error);

#endif
