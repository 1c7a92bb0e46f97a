/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of the AVX-512 files. Easy to get wrong: these files are compiled for AVX-512, so no function of theirs
 * may be one that the linker could choose for others: static ones only, and headers with static ones only.
 */
#ifndef TRANSFORMS_SIMD_SIMD_AVX512_H
#define TRANSFORMS_SIMD_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

/* The lowest n of 64 bytes, 0 to 64. */
INLINE __mmask64 first_bytes(uint32_t n)
{
    return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

#endif
