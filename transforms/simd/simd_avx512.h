/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of the AVX-512 files.
 *
 * Invariant: these files and the headers that they include define static functions only. They are compiled for AVX-512,
 * and the linker could choose one of their other functions for files that are not.
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
