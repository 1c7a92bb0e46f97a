/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vectors of the AVX2 files. If the target is not x86-64 with AVX2, SIMDe implements its
 * functions with the machine's own vectors.
 *
 * Invariant: these files and the headers that they include define static functions only. They are
 * compiled for AVX2, and the linker could choose any other function of theirs for files that are
 * not.
 */
#ifndef TRANSFORMS_SIMD_SIMD_AVX2_H
#define TRANSFORMS_SIMD_SIMD_AVX2_H

#if defined(__AVX2__) && !defined(MR_WITH_SIMDE)
#include <immintrin.h>
#else
#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx2.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#endif

#include <math.h>
#include <stdint.h>

#define INLINE static inline __attribute__((always_inline))

/* For headers that both sets include. */
#define VEC __m256i
#define FLOATS __m256
#define VEC_OP(name) _mm256_##name
#define VEC_ZERO _mm256_setzero_si256
#define VEC_AND _mm256_and_si256
#define VEC_LOAD load256
#define VEC_STORE store256

/* Unaligned bytes. */
INLINE __m256i load256(const void *from)
{
    return _mm256_loadu_si256((const __m256i *)from);
}

INLINE void store256(void *to, __m256i value)
{
    _mm256_storeu_si256((__m256i *)to, value);
}

INLINE __m128i load128(const void *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

/* Load 16 bytes into each half. */
INLINE __m256i load_halves(const void *low, const void *high)
{
    return _mm256_inserti128_si256(_mm256_castsi128_si256(load128(low)), load128(high), 1);
}

/* a * b + c in one rounding; SIMDe rounds twice if the machine has no instruction for it. */
INLINE __m256 fused(__m256 a, __m256 b, __m256 c)
{
#if defined(__FMA__) || defined(__aarch64__)
    return _mm256_fmadd_ps(a, b, c);
#else
    float x[8], y[8], z[8];
    _mm256_storeu_ps(x, a);
    _mm256_storeu_ps(y, b);
    _mm256_storeu_ps(z, c);
    for (int i = 0; i < 8; i++)
        z[i] = fmaf(x[i], y[i], z[i]);
    return _mm256_loadu_ps(z);
#endif
}

#endif
