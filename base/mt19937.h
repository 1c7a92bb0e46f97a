/* SPDX-License-Identifier: Apache-2.0 */
/* The Mersenne Twister of torch's CPU generator: 32-bit words, seeded by one 32-bit integer. */
#ifndef BASE_MT19937_H
#define BASE_MT19937_H

#include <stdint.h>

enum { MR_MT19937_N = 624 };

struct mr_mt19937 {
    uint32_t state[MR_MT19937_N];
    uint32_t words[MR_MT19937_N]; /* computed from state */
    uint32_t next;                /* index in words; MR_MT19937_N: generate the next block first */
};

/* As torch.Generator().manual_seed(seed): only the low 32 bits of seed are used. */
void mr_mt19937_init(struct mr_mt19937 *mt, uint64_t seed);
void mr_mt19937_generate(struct mr_mt19937 *mt); /* generate the next block of words */

static inline uint32_t mr_mt19937_u32(struct mr_mt19937 *mt)
{
    if (mt->next >= MR_MT19937_N)
        mr_mt19937_generate(mt);
    return mt->words[mt->next++];
}

#endif
