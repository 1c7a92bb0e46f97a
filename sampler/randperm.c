/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torch.randperm: Fisher-Yates over the words of the Mersenne Twister (at::native::randperm_cpu).
 *
 * The shuffle goes forward: each word is taken modulo the number of elements left. The bias of the
 * modulo is the same as torch's. From MR_RANDPERM_WIDE on torch shuffles inside out instead, with
 * 64-bit draws modulo the number of elements done.
 *
 * Indices below 2^32 are stored in 32 bits: swaps are at random places of the table, and half the
 * bytes mean half the cache misses.
 */
#include "sampler/randperm.h"

#include "base/mt19937.h"

static uint64_t draw_u64(struct mr_mt19937 *mt)
{
    uint64_t high = mr_mt19937_u32(mt);
    return high << 32 | mr_mt19937_u32(mt);
}

static void swap_u32(uint32_t *values, uint64_t i, uint64_t j)
{
    uint32_t value = values[i];
    values[i] = values[j];
    values[j] = value;
}

void mr_randperm_u32(uint32_t *values, uint64_t n, uint64_t seed, bool wide_draws)
{
    struct mr_mt19937 mt;
    mr_mt19937_init(&mt, seed);
    for (uint64_t i = 0; i < n; i++)
        values[i] = (uint32_t)i;
    if (wide_draws) {
        for (uint64_t i = 0; i < n; i++)
            swap_u32(values, i, draw_u64(&mt) % (i + 1));
    } else {
        uint32_t left = (uint32_t)n;
        for (uint64_t i = 0; i + 1 < n; i++, left--)
            swap_u32(values, i, i + mr_mt19937_u32(&mt) % left);
    }
}

void mr_randperm_u64(uint64_t *values, uint64_t n, uint64_t seed)
{
    struct mr_mt19937 mt;
    mr_mt19937_init(&mt, seed);
    for (uint64_t i = 0; i < n; i++) {
        uint64_t j = draw_u64(&mt) % (i + 1);
        values[i] = i; /* before the read: j may be i */
        values[i] = values[j];
        values[j] = i;
    }
}
