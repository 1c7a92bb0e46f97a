/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Generates the words of MT19937 (Matsumoto and Nishimura, 1998) as at::mt19937 does. The order of
 * an epoch is that of torch.randperm, so the words must be the same as torch's.
 */
#include "base/mt19937.h"

enum { N = MR_MT19937_N, M = 397 };

void mr_mt19937_init(struct mr_mt19937 *mt, uint64_t seed)
{
    mt->state[0] = (uint32_t)seed;
    for (uint32_t i = 1; i < N; i++)
        mt->state[i] = 1812433253u * (mt->state[i - 1] ^ (mt->state[i - 1] >> 30)) + i;
    mt->next = N;
}

static uint32_t twist_words(uint32_t u, uint32_t v)
{
    uint32_t mixed = (u & 0x80000000u) | (v & 0x7fffffffu);
    return (mixed >> 1) ^ (v & 1u ? 0x9908b0dfu : 0u);
}

static uint32_t temper_word(uint32_t y)
{
    y ^= y >> 11;
    y ^= (y << 7) & 0x9d2c5680u;
    y ^= (y << 15) & 0xefc60000u;
    return y ^ (y >> 18);
}

void mr_mt19937_generate(struct mr_mt19937 *mt)
{
    uint32_t *s = mt->state;
    for (uint32_t i = 0; i < N - M; i++)
        s[i] = s[i + M] ^ twist_words(s[i], s[i + 1]);
    for (uint32_t i = N - M; i < N - 1; i++)
        s[i] = s[i + M - N] ^ twist_words(s[i], s[i + 1]);
    s[N - 1] = s[M - 1] ^ twist_words(s[N - 1], s[0]);
    for (uint32_t i = 0; i < N; i++)
        mt->words[i] = temper_word(s[i]);
    mt->next = 0;
}
