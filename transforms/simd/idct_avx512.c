/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse DCT of packed JPEGs, four blocks at a time: one in each quarter of a vector. All else
 * is as in idct_avx2.c, and its comments apply here too.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"

#include "transforms/simd/idct_passes.h"

INLINE __m128i load128(const void *from)
{
    return _mm_loadu_si128((const __m128i *)from);
}

/* Row i of each block. */
INLINE __m512i load_rows(int16_t *const blocks[4], int i)
{
    __m512i row = _mm512_castsi128_si512(load128(blocks[0] + 8 * i));
    row = _mm512_inserti32x4(row, load128(blocks[1] + 8 * i), 1);
    row = _mm512_inserti32x4(row, load128(blocks[2] + 8 * i), 2);
    return _mm512_inserti32x4(row, load128(blocks[3] + 8 * i), 3);
}

INLINE void put32(void *to, __m256i value)
{
    _mm256_storeu_si256((__m256i *)to, value);
}

/*
 * Store eight rows; v[i] is column i. Each row of the first block is followed by the same row of
 * the other blocks.
 */
INLINE void put_rows(const __m512i v[8], uint8_t *const *rows, size_t at)
{
    const __m512i centre = _mm512_set1_epi8((char)0x80),
                  pairs = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
    __m512i a[4], b[4], c[4];
    for (int i = 0; i < 4; i++)
        a[i] = _mm512_add_epi8(_mm512_packs_epi16(v[i], v[i + 4]), centre);
    b[0] = _mm512_unpacklo_epi8(a[0], a[1]);
    b[1] = _mm512_unpacklo_epi8(a[2], a[3]);
    b[2] = _mm512_unpackhi_epi8(a[0], a[1]);
    b[3] = _mm512_unpackhi_epi8(a[2], a[3]);
    c[0] = _mm512_unpacklo_epi16(b[0], b[1]);
    c[1] = _mm512_unpackhi_epi16(b[0], b[1]);
    c[2] = _mm512_unpacklo_epi16(b[2], b[3]);
    c[3] = _mm512_unpackhi_epi16(b[2], b[3]);
    for (int i = 0; i < 2; i++) {
        __m512i low = _mm512_permutexvar_epi64(pairs, _mm512_unpacklo_epi32(c[i], c[i + 2]));
        __m512i high = _mm512_permutexvar_epi64(pairs, _mm512_unpackhi_epi32(c[i], c[i + 2]));
        put32(rows[4 * i] + at, _mm512_castsi512_si256(low));
        put32(rows[4 * i + 1] + at, _mm512_extracti64x4_epi64(low, 1));
        put32(rows[4 * i + 2] + at, _mm512_castsi512_si256(high));
        put32(rows[4 * i + 3] + at, _mm512_extracti64x4_epi64(high, 1));
    }
}

/*
 * Store blocks that have only a DC coefficient. row has it, PASS1_BITS higher, as the first value
 * of each quarter.
 */
INLINE void put_flat(__m512i row, uint8_t *const *rows, size_t at)
{
    const int shift = PASS1_BITS + 3;
    __m512i dc = _mm512_shuffle_epi8(row, _mm512_set1_epi16(0x0100));
    dc = _mm512_srai_epi16(_mm512_adds_epi16(dc, _mm512_set1_epi16(1 << (shift - 1))), shift);
    __m256i bytes = _mm256_add_epi8(_mm512_cvtsepi16_epi8(dc), _mm256_set1_epi8((char)0x80));
    for (int i = 0; i < 8; i++)
        put32(rows[i] + at, bytes);
}

/* Eight bits for each quarter, set if all its values are zero. */
INLINE __mmask32 find_zeros(__m512i values)
{
    __mmask8 others = _mm512_test_epi64_mask(values, values);
    __mmask32 zeros = 0;
    for (int i = 0; i < 4; i++)
        zeros |= (others >> 2 * i & 3) == 0 ? (__mmask32)0xff << 8 * i : 0;
    return zeros;
}

INLINE void transform_four(int16_t *const blocks[4], const uint16_t quant[64], uint8_t *const *rows,
                           size_t at)
{
    const __mmask32 beside = 0xfefefefe; /* all values of a row except its first */
    __m512i v[8], below = _mm512_setzero_si512(), first_row = load_rows(blocks, 0);
    for (int i = 0; i < 8; i++) {
        v[i] = load_rows(blocks, i);
        if (i > 0)
            below = _mm512_or_si512(below, v[i]);
        v[i] = _mm512_mullo_epi16(v[i], _mm512_broadcast_i32x4(load128(quant + 8 * i)));
    }
    __m512i row = _mm512_slli_epi16(v[0], PASS1_BITS);
    __m512i others = _mm512_or_si512(below, _mm512_maskz_mov_epi16(beside, first_row));
    if (_mm512_test_epi64_mask(others, others) == 0) {
        put_flat(row, rows, at);
        return;
    }
    __mmask32 flat = find_zeros(below);
    if (flat != 0xffffffff)
        transform(v, CONST_BITS - PASS1_BITS);
    for (int i = 0; flat != 0 && i < 8; i++)
        v[i] = _mm512_mask_mov_epi16(v[i], flat, row);
    transpose(v);
    transform(v, CONST_BITS + PASS1_BITS + 3);
    put_rows(v, rows, at);
}

uint32_t mr_idct_blocks_avx512(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                               uint8_t *const *rows, size_t at)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4, at += 32)
        transform_four(blocks + i, quant, rows, at);
    return i + mr_idct_blocks_avx2(blocks + i, n - i, quant, rows, at);
}
