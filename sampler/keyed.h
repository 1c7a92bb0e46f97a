/* SPDX-License-Identifier: Apache-2.0 */
/* A keyed permutation of 0 .. n - 1: any position in O(1) time and memory. */
#ifndef SAMPLER_KEYED_H
#define SAMPLER_KEYED_H

#include <stdint.h>

#define MR_KEYED_MAX_N (UINT64_C(1) << 40)
#define MR_KEYED_MAX_ROUNDS 24

struct mr_keyed {
    uint64_t n;
    uint64_t n_left; /* the domain is n_left x n_right >= n, as square as it can be */
    uint64_t n_right;
    uint32_t n_rounds;
    uint64_t keys[MR_KEYED_MAX_ROUNDS][2];
};

/* n is 0 to MR_KEYED_MAX_N. With 0 no position may be looked up. */
void mr_keyed_init(struct mr_keyed *keyed, uint64_t n, uint64_t seed, uint64_t epoch);
/* The value at a position below n. */
uint64_t mr_keyed_at(const struct mr_keyed *keyed, uint64_t position);

#endif
