/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the random numbers of one sample. */
#include "base/rng.h"

#include "base/rng_block.h"

#include <math.h>
#include <string.h>

void mr_rng_init(struct mr_rng *rng, uint64_t seed, uint64_t epoch, uint64_t index)
{
    memset(rng, 0, sizeof *rng);
    rng->key[0] = seed;
    rng->key[1] = epoch;
    rng->counter[0] = index;
}

void mr_rng_set_occurrence(struct mr_rng *rng, uint64_t occurrence)
{
    rng->counter[3] = occurrence;
}

void mr_rng_set_view(struct mr_rng *rng, uint64_t name_hash, uint32_t picture)
{
    rng->key[0] ^= name_hash;
    rng->picture = picture;
}

void mr_rng_change_view(struct mr_rng *rng, uint64_t own_hash, uint64_t name_hash, uint32_t picture)
{
    mr_rng_set_view(rng, own_hash ^ name_hash, picture);
    rng->counter[1] = 0;
    rng->counter[3] = (uint32_t)rng->counter[3];
    mr_rng_part_pictures(rng);
}

void mr_rng_part_pictures(struct mr_rng *rng)
{
    rng->counter[3] |= (uint64_t)rng->picture << 32;
    rng->n_left = 0;
}

void mr_rng_init_torch(struct mr_rng *rng, struct mr_mt19937 *mt)
{
    memset(rng, 0, sizeof *rng);
    rng->torch = mt;
}

void mr_rng_init_place(struct mr_rng *rng_out, const struct mr_rng *rng, uint32_t place)
{
    *rng_out = *rng;
    rng_out->counter[1] = 0;
    rng_out->counter[2] = place;
    rng_out->n_left = 0;
}

static void make_next_block(struct mr_rng *rng)
{
    mr_rng_block_make(rng->key, rng->counter, rng->words);
    rng->counter[1]++;
    rng->n_left = MR_RNG_BLOCK_WORDS;
}

uint32_t mr_rng_u32(struct mr_rng *rng)
{
    if (rng->torch)
        return mr_mt19937_u32(rng->torch);
    if (rng->n_left == 0)
        make_next_block(rng);
    return rng->words[MR_RNG_BLOCK_WORDS - rng->n_left--];
}

float mr_rng_uniform(struct mr_rng *rng, float lo, float hi)
{
    float x = (float)(mr_rng_u32(rng) & 0xffffffu) * (1.0f / 16777216.0f);
    /*
     * torch's kernels round once if the CPU has FMA. Philox's draws keep the values of earlier
     * versions.
     */
    return rng->torch ? fmaf(x, hi - lo, lo) : x * (hi - lo) + lo;
}

uint32_t mr_rng_below(struct mr_rng *rng, uint32_t n)
{
    return mr_rng_u32(rng) % n;
}

bool mr_rng_chance(struct mr_rng *rng, double p)
{
    return (double)mr_rng_uniform(rng, 0.0f, 1.0f) < p;
}
