/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random draws of one sample. They depend on (seed, epoch, dataset index, occurrence) and on
 * nothing else: a counter-based generator (Philox4x64-10, Salmon et al. 2011) with key {seed,
 * epoch} and counter {index, block, place, occurrence}. Place 0 are the draws that operations
 * share, one after the other; an operation may have draws of its own besides. The occurrence counts
 * how often the epoch's global order has had the index before. It is 0 but where an order repeats
 * an index on purpose; padding has the draws of what it repeats.
 *
 * For parity tests the same interface replays torch's CPU generator instead.
 */
#ifndef BASE_RNG_H
#define BASE_RNG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/export.h"
#include "base/mt19937.h"

struct mr_rng {
    uint64_t key[2];
    uint64_t counter[4];
    uint32_t words[8];        /* of the present block */
    uint32_t n_left;          /* words not yet drawn */
    struct mr_mt19937 *torch; /* NULL, or the stream that is replayed */
};

MR_BASE_EXPORT void mr_rng_init(struct mr_rng *rng, uint64_t seed, uint64_t epoch, uint64_t index);
/* Before the first draw; 0 without it. */
void mr_rng_set_occurrence(struct mr_rng *rng, uint64_t occurrence);
/* Replay torch: draws come from mt, which must outlive rng. */
void mr_rng_init_torch(struct mr_rng *rng, struct mr_mt19937 *mt);

/*
 * Draws of the same sample for the operation at that place of the list, counted from 1. They depend
 * on no other draw, and rng does not move. torch has one stream, so there they are its next ones.
 */
void mr_rng_init_place(struct mr_rng *rng_out, const struct mr_rng *rng, uint32_t place);

MR_BASE_EXPORT uint32_t mr_rng_u32(struct mr_rng *rng);
/*
 * [lo, hi) in f32, by 24 bits of one word, as torch.empty(1).uniform_(lo, hi); torch's is rounded
 * once (AVX2).
 */
float mr_rng_uniform(struct mr_rng *rng, float lo, float hi);
/* 0 to n - 1, n >= 1, one word modulo n, as torch.randint(0, n, (1,)) for n below 2^32. */
uint32_t mr_rng_below(struct mr_rng *rng, uint32_t n);
/* True with probability p, as torch.rand(1) < p. */
bool mr_rng_chance(struct mr_rng *rng, double p);

#endif
