/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of both passes for AVX2. A weight of 22 bits is split into hi = w >> 11 and lo = w &
 * 2047, so that vpmaddwd sums products of u8 and 16 bits, two taps at a time: sum = (hi sum << 11)
 * + lo sum. A negative weight has its sign in hi.
 *
 * Invariant: no sum reaches 2^31 or -2^31; 512 taps (MR_AXIS_MAX_TAPS) do not.
 */
#ifndef TRANSFORMS_SIMD_WEIGHTS_AVX2_H
#define TRANSFORMS_SIMD_WEIGHTS_AVX2_H

#include "transforms/simd/simd_avx2.h"

/* Words with the weights of two taps of eight pixels. */
INLINE __m256i pair_hi(__m256i w0, __m256i w1)
{
    return _mm256_blend_epi16(_mm256_srli_epi32(w0, 11), _mm256_slli_epi32(w1, 5), 0xaa);
}

INLINE __m256i pair_lo(__m256i w0, __m256i w1)
{
    const __m256i low = _mm256_set1_epi32(2047);
    return _mm256_or_si256(_mm256_and_si256(w0, low),
                           _mm256_slli_epi32(_mm256_and_si256(w1, low), 16));
}

#endif
