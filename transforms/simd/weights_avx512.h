/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Weights of both passes for AVX-512 with VBMI, VBMI2 and VNNI. A weight of 22 bits is three signed
 * digits of 8 bits, w = (d2 << 16) + (d1 << 8) + d0, so that vpdpbusd sums products. With one or
 * two taps it is two words instead, hi = w >> 11 and lo = w & 2047.
 *
 * Negative weights are not split into words, because the lower word would need a sign too.
 *
 * Invariant: sums begin with the rounding: 32 (for words 1024), which the shifts turn into 2^21.
 */
#ifndef TRANSFORMS_SIMD_WEIGHTS_AVX512_H
#define TRANSFORMS_SIMD_WEIGHTS_AVX512_H

#include "transforms/simd/simd_avx512.h"

#include <stddef.h>

/* The bytes of (w + 0x8080) ^ 0x8080 are the signed digits. */
INLINE __m512i to_digits(__m512i weight)
{
    const __m512i carry = _mm512_set1_epi32(0x8080);
    return _mm512_xor_si512(_mm512_add_epi32(weight, carry), carry);
}

/*
 * Four taps of sixteen outputs, from vectors with the weights of one tap each: digits d2, d1, d0,
 * in dwords of four taps.
 */
INLINE void make_digits(const int32_t *weight, size_t pitch, __m512i digit[3])
{
    const __m512i by_digit = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
    __m512i w0 = to_digits(_mm512_loadu_si512(weight)),
            w1 = to_digits(_mm512_loadu_si512(weight + pitch));
    __m512i w2 = to_digits(_mm512_loadu_si512(weight + 2 * pitch));
    __m512i w3 = to_digits(_mm512_loadu_si512(weight + 3 * pitch));
    /*
     * Each quarter of a vector holds four outputs: transpose 4 x 4 dwords, the bytes in each dword,
     * and back.
     */
    __m512i a = _mm512_unpacklo_epi32(w0, w1), b = _mm512_unpackhi_epi32(w0, w1);
    __m512i c = _mm512_unpacklo_epi32(w2, w3), d = _mm512_unpackhi_epi32(w2, w3);
    __m512i out0 = _mm512_shuffle_epi8(_mm512_unpacklo_epi64(a, c), by_digit);
    __m512i out1 = _mm512_shuffle_epi8(_mm512_unpackhi_epi64(a, c), by_digit);
    __m512i out2 = _mm512_shuffle_epi8(_mm512_unpacklo_epi64(b, d), by_digit);
    __m512i out3 = _mm512_shuffle_epi8(_mm512_unpackhi_epi64(b, d), by_digit);
    a = _mm512_unpacklo_epi32(out0, out1);
    b = _mm512_unpacklo_epi32(out2, out3);
    c = _mm512_unpackhi_epi32(out0, out1);
    d = _mm512_unpackhi_epi32(out2, out3);
    digit[0] = _mm512_unpacklo_epi64(c, d);
    digit[1] = _mm512_unpackhi_epi64(a, b);
    digit[2] = _mm512_unpacklo_epi64(a, b);
}

/* Join the sums of four rows, with values in bits 22 to 29, into dwords of four bytes. */
INLINE __m512i join_rows(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i from = _mm512_set1_epi64(0x3636363616161616); /* bits 22.. and 54.. */
    __m512i bytes = _mm512_multishift_epi64_epi8(from, a);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, 0x2222222222222222, from, b);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, 0x4444444444444444, from, c);
    return _mm512_mask_multishift_epi64_epi8(bytes, 0x8888888888888888, from, d);
}

/*
 * The same for sums that may be outside of 0 to 255; clips them. Each quarter of the result has
 * four bytes of a, then four of b, c and d.
 */
INLINE __m512i clip_sums(__m512i a, __m512i b, __m512i c, __m512i d)
{
    __m512i ab = _mm512_packs_epi32(_mm512_srai_epi32(a, 22), _mm512_srai_epi32(b, 22));
    __m512i cd = _mm512_packs_epi32(_mm512_srai_epi32(c, 22), _mm512_srai_epi32(d, 22));
    return _mm512_packus_epi16(ab, cd);
}

INLINE __m512i sum_words(__m512i words, __m512i hi, __m512i lo)
{
    __m512i sum = _mm512_dpwssd_epi32(_mm512_set1_epi32(1024), words, hi);
    return _mm512_dpwssd_epi32(_mm512_slli_epi32(sum, 11), words, lo);
}

#endif
