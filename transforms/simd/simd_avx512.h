/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of the AVX-512 files.
 *
 * Invariant: these files and the headers that they include define static functions only. They are
 * compiled for AVX-512, and the linker could choose any other function of theirs for files that are
 * not.
 */
#ifndef TRANSFORMS_SIMD_SIMD_AVX512_H
#define TRANSFORMS_SIMD_SIMD_AVX512_H

#include <immintrin.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

/* For headers that both sets include. */
#define VEC __m512i
#define FLOATS __m512
#define VEC_OP(name) _mm512_##name
#define VEC_ZERO _mm512_setzero_si512
#define VEC_AND _mm512_and_si512
#define VEC_LOAD _mm512_loadu_si512
#define VEC_STORE _mm512_storeu_si512

/* a * b + c in one rounding. */
INLINE FLOATS fused(FLOATS a, FLOATS b, FLOATS c)
{
    return _mm512_fmadd_ps(a, b, c);
}

/* A mask of the lowest n of 64 bytes, 0 to 64. */
INLINE __mmask64 first_bytes(uint32_t n)
{
    return n >= 64 ? ~(__mmask64)0 : ((__mmask64)1 << n) - 1;
}

#endif
