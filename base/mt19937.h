/* SPDX-License-Identifier: Apache-2.0 */
/* The Mersenne Twister as torch's CPU generator runs it: 32-bit words, seeded by one 32-bit integer. */
#ifndef BASE_MT19937_H
#define BASE_MT19937_H

#include <stdint.h>

struct mr_mt19937 {
    uint32_t state[624];
    uint32_t next; /* position in state; 624: generate the next block first */
};

/* As torch.Generator().manual_seed(seed): only the low 32 bits of seed count. */
void mr_mt19937_init(struct mr_mt19937 *mt, uint64_t seed);
uint32_t mr_mt19937_u32(struct mr_mt19937 *mt);

#endif
