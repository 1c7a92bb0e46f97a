/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse DCT of packed JPEGs, two blocks at a time: one in each half of a vector, so that no
 * value crosses over. The arithmetic is jidctint's (13 bits of constants, 2 bits more between the
 * passes) in the way of libjpeg-turbo's vectors.
 *
 * Invariant: sums of inputs wrap at 16 bits, and values saturate between the passes. If the rows of
 * a block below the first are all zero, the first pass is skipped, and the values that it would
 * saturate wrap instead. Photographs never show a difference; damaged files do. Two blocks with
 * only a DC coefficient skip the second pass too, and get the same values.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx2.h"

#include "transforms/simd/idct_passes.h"

INLINE void put16(void *to, __m128i value)
{
    _mm_storeu_si128((__m128i *)to, value);
}

/*
 * Store eight rows; v[i] is column i. Each row of the first block is followed by the same row of
 * the second block.
 */
INLINE void put_rows(const __m256i v[8], uint8_t *const *rows, size_t at)
{
    const __m256i centre = _mm256_set1_epi8((char)0x80);
    __m256i a[4], b[4], c[4];
    for (int i = 0; i < 4; i++)
        a[i] = _mm256_add_epi8(_mm256_packs_epi16(v[i], v[i + 4]), centre);
    b[0] = _mm256_unpacklo_epi8(a[0], a[1]);
    b[1] = _mm256_unpacklo_epi8(a[2], a[3]);
    b[2] = _mm256_unpackhi_epi8(a[0], a[1]);
    b[3] = _mm256_unpackhi_epi8(a[2], a[3]);
    c[0] = _mm256_unpacklo_epi16(b[0], b[1]);
    c[1] = _mm256_unpackhi_epi16(b[0], b[1]);
    c[2] = _mm256_unpacklo_epi16(b[2], b[3]);
    c[3] = _mm256_unpackhi_epi16(b[2], b[3]);
    for (int i = 0; i < 2; i++) {
        __m256i low = _mm256_permute4x64_epi64(_mm256_unpacklo_epi32(c[i], c[i + 2]), 0xd8);
        __m256i high = _mm256_permute4x64_epi64(_mm256_unpackhi_epi32(c[i], c[i + 2]), 0xd8);
        put16(rows[4 * i] + at, _mm256_castsi256_si128(low));
        put16(rows[4 * i + 1] + at, _mm256_extracti128_si256(low, 1));
        put16(rows[4 * i + 2] + at, _mm256_castsi256_si128(high));
        put16(rows[4 * i + 3] + at, _mm256_extracti128_si256(high, 1));
    }
}

/*
 * Store blocks that have only a DC coefficient. row has it, PASS1_BITS higher, as the first value
 * of each half.
 */
INLINE void put_flat(__m256i row, uint8_t *const *rows, size_t at)
{
    const int shift = PASS1_BITS + 3;
    __m256i dc = _mm256_shuffle_epi8(row, _mm256_set1_epi16(0x0100));
    dc = _mm256_srai_epi16(_mm256_adds_epi16(dc, _mm256_set1_epi16(1 << (shift - 1))), shift);
    dc = _mm256_add_epi8(_mm256_packs_epi16(dc, dc), _mm256_set1_epi8((char)0x80));
    __m128i bytes = _mm_unpacklo_epi64(_mm256_castsi256_si128(dc), _mm256_extracti128_si256(dc, 1));
    for (int i = 0; i < 8; i++)
        put16(rows[i] + at, bytes);
}

INLINE void transform_pair(const int16_t *first, const int16_t *second, const uint16_t quant[64],
                           uint8_t *const *rows, size_t at)
{
    /* all values of a row except its first */
    const __m256i beside = _mm256_setr_epi64x(-65536, -1, -65536, -1);
    __m256i v[8], below = _mm256_setzero_si256(), first_row = load_halves(first, second);
    for (int i = 0; i < 8; i++) {
        v[i] = load_halves(first + 8 * i, second + 8 * i);
        if (i > 0)
            below = _mm256_or_si256(below, v[i]);
        v[i] = _mm256_mullo_epi16(v[i], _mm256_broadcastsi128_si256(load128(quant + 8 * i)));
    }
    __m256i row = _mm256_slli_epi16(v[0], PASS1_BITS),
            others = _mm256_or_si256(below, _mm256_and_si256(first_row, beside));
    if (_mm256_testz_si256(others, others)) {
        put_flat(row, rows, at);
        return;
    }
    uint32_t zeros =
        (uint32_t)_mm256_movemask_epi8(_mm256_cmpeq_epi8(below, _mm256_setzero_si256()));
    bool first_flat = (zeros & 0xffff) == 0xffff, second_flat = zeros >> 16 == 0xffff;
    if (!first_flat || !second_flat)
        transform(v, CONST_BITS - PASS1_BITS);
    if (first_flat || second_flat) {
        __m256i where = _mm256_setr_epi64x(-first_flat, -first_flat, -second_flat, -second_flat);
        for (int i = 0; i < 8; i++)
            v[i] = _mm256_blendv_epi8(v[i], row, where);
    }
    transpose(v);
    transform(v, CONST_BITS + PASS1_BITS + 3);
    put_rows(v, rows, at);
}

uint32_t mr_idct_blocks_avx2(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                             uint8_t *const *rows, size_t at)
{
    uint32_t i = 0;
    for (; i + 2 <= n; i += 2, at += 16)
        transform_pair(blocks[i], blocks[i + 1], quant, rows, at);
    return i;
}
