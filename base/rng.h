/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random draws of one sample. They depend only on (seed, epoch, dataset index, occurrence). The
 * generator is counter-based (Philox4x64-10, Salmon et al. 2011), with key {seed, epoch} and
 * counter {index, block, place, occurrence}. Operations share the draws of place 0, one after the
 * other; an operation may also have draws at its own place. The occurrence counts how often the
 * epoch's global order has had the index before. It is 0 unless an order repeats an index on
 * purpose; padding has the draws of the sample that it repeats. The pictures of a view have own
 * draws: their key is {seed ^ hash of the view's name, epoch}, and the upper half of the occurrence
 * is the picture's number.
 *
 * For parity tests the same functions replay torch's CPU generator instead.
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
    uint32_t words[8];        /* of the current block */
    uint32_t n_left;          /* words not yet drawn */
    uint32_t picture;         /* the number among those of a view of the sample */
    struct mr_mt19937 *torch; /* NULL, or the stream that is replayed */
};

MR_BASE_EXPORT void mr_rng_init(struct mr_rng *rng, uint64_t seed, uint64_t epoch, uint64_t index);
/* Call before the first draw. Without it the occurrence is 0. */
void mr_rng_set_occurrence(struct mr_rng *rng, uint64_t occurrence);
/*
 * The draws are for a picture of the view whose name has that hash, 0: of no view. Call before the
 * first draw.
 */
void mr_rng_set_view(struct mr_rng *rng, uint64_t name_hash, uint32_t picture);
/*
 * The next draws are those that another view's picture begins with. own_hash: as given to
 * mr_rng_set_view().
 */
void mr_rng_change_view(struct mr_rng *rng, uint64_t own_hash, uint64_t name_hash,
                        uint32_t picture);
/* The next draws differ for each picture of the view; until then they are the same. */
void mr_rng_part_pictures(struct mr_rng *rng);
/* Replay torch's generator: draws come from mt, which must outlive rng. */
void mr_rng_init_torch(struct mr_rng *rng, struct mr_mt19937 *mt);

/*
 * Start the draws of the operation at a place of the list, counted from 1, for the same sample.
 * They depend on no other draw, and rng does not change. A replayed torch generator has only one
 * stream, so they are then its next draws, and mt changes.
 */
void mr_rng_init_place(struct mr_rng *rng_out, const struct mr_rng *rng, uint32_t place);

MR_BASE_EXPORT uint32_t mr_rng_u32(struct mr_rng *rng);
/*
 * An f32 in [lo, hi) from 24 bits of one word, as torch.empty(1).uniform_(lo, hi). When torch is
 * replayed, it is rounded once, as torch does with AVX2.
 */
float mr_rng_uniform(struct mr_rng *rng, float lo, float hi);
/* 0 to n - 1, n >= 1: one word modulo n, as torch.randint(0, n, (1,)) for n below 2^32. */
uint32_t mr_rng_below(struct mr_rng *rng, uint32_t n);
/* True with probability p, as torch.rand(1) < p. */
bool mr_rng_chance(struct mr_rng *rng, double p);

#endif
