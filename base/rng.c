/* SPDX-License-Identifier: Apache-2.0 */
/* Draws the random numbers of one sample. The only file that sees Random123. */
#include "base/rng.h"

#include <Random123/philox.h>
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

static void next_block(struct mr_rng *rng)
{
    philox4x64_ctr_t counter;
    philox4x64_key_t key;
    memcpy(counter.v, rng->counter, sizeof rng->counter);
    memcpy(key.v, rng->key, sizeof rng->key);
    philox4x64_ctr_t block = philox4x64(counter, key);
    for (int i = 0; i < 4; i++) {
        rng->words[2 * i] = (uint32_t)block.v[i];
        rng->words[2 * i + 1] = (uint32_t)(block.v[i] >> 32);
    }
    rng->counter[1]++;
    rng->n_left = 8;
}

uint32_t mr_rng_u32(struct mr_rng *rng)
{
    if (rng->torch)
        return mr_mt19937_u32(rng->torch);
    if (rng->n_left == 0)
        next_block(rng);
    return rng->words[8 - rng->n_left--];
}

float mr_rng_uniform(struct mr_rng *rng, float lo, float hi)
{
    float x = (float)(mr_rng_u32(rng) & 0xffffffu) * (1.0f / 16777216.0f);
    /* torch's kernels round once where the CPU can. Philox's draws keep the values that they have always had. */
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
