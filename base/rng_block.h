/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One block of random words, for the host and for kernels: Philox4x64-10 (Salmon et al. 2011).
 * rng.h describes its use. It is tested against the published results.
 */
#ifndef BASE_RNG_BLOCK_H
#define BASE_RNG_BLOCK_H

#include "base/half.h"

enum { MR_RNG_BLOCK_WORDS = 8, MR_RNG_BLOCK_ROUNDS = 10 };

/* The upper 64 bits of a product. */
MR_HOST_DEVICE uint64_t mr_rng_block_high(uint64_t a, uint64_t b)
{
#ifdef __CUDA_ARCH__
    return __umul64hi(a, b);
#else
    __extension__ typedef unsigned __int128 wide;
    return (uint64_t)((wide)a * b >> 64);
#endif
}

MR_HOST_DEVICE void mr_rng_block_make(const uint64_t key[2], const uint64_t counter[4],
                                      uint32_t words_out[MR_RNG_BLOCK_WORDS])
{
    const uint64_t multiplier[2] = {0xd2e7470ee14c6c93u, 0xca5a826395121157u};
    uint64_t k0 = key[0], k1 = key[1], c0 = counter[0], c1 = counter[1], c2 = counter[2],
             c3 = counter[3];
    for (int round = 0; round < MR_RNG_BLOCK_ROUNDS; round++) {
        uint64_t high0 = mr_rng_block_high(multiplier[0], c0), low0 = multiplier[0] * c0;
        uint64_t high1 = mr_rng_block_high(multiplier[1], c2), low1 = multiplier[1] * c2;
        c0 = high1 ^ c1 ^ k0;
        c1 = low1;
        c2 = high0 ^ c3 ^ k1;
        c3 = low0;
        k0 += 0x9e3779b97f4a7c15u;
        k1 += 0xbb67ae8584caa73bu;
    }
    const uint64_t block[4] = {c0, c1, c2, c3};
    for (int i = 0; i < 4; i++) {
        words_out[2 * i] = (uint32_t)block[i];
        words_out[2 * i + 1] = (uint32_t)(block[i] >> 32);
    }
}

#endif
