/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inverse DCT of packed JPEGs, four blocks at a time: one in each quarter of a vector. All else is as in
 * idct_avx2.c, whose comments count here too.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"

#define CONST_BITS 13
#define PASS1_BITS 2

/* 32-bit values of the first and the last four of the eight of each block. */
struct wide {
    __m512i lo, hi;
};

INLINE struct wide add(struct wide a, struct wide b)
{
    return (struct wide){_mm512_add_epi32(a.lo, b.lo), _mm512_add_epi32(a.hi, b.hi)};
}

INLINE struct wide sub(struct wide a, struct wide b)
{
    return (struct wide){_mm512_sub_epi32(a.lo, b.lo), _mm512_sub_epi32(a.hi, b.hi)};
}

/* a x + b y */
INLINE struct wide mix(__m512i x, int a, __m512i y, int b)
{
    const __m512i ab = _mm512_set1_epi32((int)((uint32_t)b << 16 | ((uint32_t)a & 0xffff)));
    return (struct wide){_mm512_madd_epi16(_mm512_unpacklo_epi16(x, y), ab),
                         _mm512_madd_epi16(_mm512_unpackhi_epi16(x, y), ab)};
}

/* x 2^CONST_BITS */
INLINE struct wide scale(__m512i x)
{
    const __m512i zero = _mm512_setzero_si512();
    return (struct wide){_mm512_srai_epi32(_mm512_unpacklo_epi16(zero, x), 16 - CONST_BITS),
                         _mm512_srai_epi32(_mm512_unpackhi_epi16(zero, x), 16 - CONST_BITS)};
}

INLINE __m512i descale(struct wide x, int shift)
{
    return _mm512_packs_epi32(_mm512_srai_epi32(x.lo, shift), _mm512_srai_epi32(x.hi, shift));
}

/* Eight one-dimensional transforms of each block at once; v[i] is the i-th value of all. */
INLINE void transform(__m512i v[8], int shift)
{
    const struct wide half = {_mm512_set1_epi32(1 << (shift - 1)), _mm512_set1_epi32(1 << (shift - 1))};
    struct wide t0 = add(scale(_mm512_add_epi16(v[0], v[4])), half);
    struct wide t1 = add(scale(_mm512_sub_epi16(v[0], v[4])), half);
    struct wide t2 = mix(v[2], 4433, v[6], 4433 - 15137);
    struct wide t3 = mix(v[2], 4433 + 6270, v[6], 4433);
    const struct wide even[4] = {add(t0, t3), add(t1, t2), sub(t1, t2), sub(t0, t3)};

    __m512i z3 = _mm512_add_epi16(v[7], v[3]), z4 = _mm512_add_epi16(v[5], v[1]);
    struct wide m3 = mix(z3, 9633 - 16069, z4, 9633), m4 = mix(z3, 9633, z4, 9633 - 3196);
    const struct wide odd[4] = {
        add(mix(v[7], -7373, v[1], 12299 - 7373), m4), add(mix(v[5], -20995, v[3], 25172 - 20995), m3),
        add(mix(v[5], 16819 - 20995, v[3], -20995), m4), add(mix(v[7], 2446 - 7373, v[1], -7373), m3)};
    for (int i = 0; i < 4; i++) {
        v[i] = descale(add(even[i], odd[i]), shift);
        v[7 - i] = descale(sub(even[i], odd[i]), shift);
    }
}

/* Rows become columns, in each block. */
INLINE void transpose(__m512i v[8])
{
    __m512i a[8], b[8];
    for (int i = 0; i < 4; i++) {
        a[2 * i] = _mm512_unpacklo_epi16(v[i], v[i + 4]);
        a[2 * i + 1] = _mm512_unpackhi_epi16(v[i], v[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        b[2 * i] = _mm512_unpacklo_epi16(a[i], a[i + 4]);
        b[2 * i + 1] = _mm512_unpackhi_epi16(a[i], a[i + 4]);
    }
    for (int i = 0; i < 4; i++) {
        v[2 * i] = _mm512_unpacklo_epi16(b[i], b[i + 4]);
        v[2 * i + 1] = _mm512_unpackhi_epi16(b[i], b[i + 4]);
    }
}

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

/* v[i] is column i. A row of the first block, and behind it the same row of the others. */
INLINE void put_rows(const __m512i v[8], uint8_t *const *rows, size_t at)
{
    const __m512i centre = _mm512_set1_epi8((char)0x80), pairs = _mm512_setr_epi64(0, 2, 4, 6, 1, 3, 5, 7);
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

/* Blocks of nothing but a DC coefficient, which row has, PASS1_BITS higher, as the first value of each quarter. */
INLINE void put_flat(__m512i row, uint8_t *const *rows, size_t at)
{
    const int shift = PASS1_BITS + 3;
    __m512i dc = _mm512_shuffle_epi8(row, _mm512_set1_epi16(0x0100));
    dc = _mm512_srai_epi16(_mm512_adds_epi16(dc, _mm512_set1_epi16(1 << (shift - 1))), shift);
    __m256i bytes = _mm256_add_epi8(_mm512_cvtsepi16_epi8(dc), _mm256_set1_epi8((char)0x80));
    for (int i = 0; i < 8; i++)
        put32(rows[i] + at, bytes);
}

/* Of each quarter whose values are all zero, eight bits. */
INLINE __mmask32 find_zeros(__m512i values)
{
    __mmask8 others = _mm512_test_epi64_mask(values, values);
    __mmask32 zeros = 0;
    for (int i = 0; i < 4; i++)
        zeros |= (others >> 2 * i & 3) == 0 ? (__mmask32)0xff << 8 * i : 0;
    return zeros;
}

INLINE void transform_four(int16_t *const blocks[4], const uint16_t quant[64], uint8_t *const *rows, size_t at)
{
    const __mmask32 beside = 0xfefefefe; /* all of a row but its first value */
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

uint32_t mr_idct_blocks_avx512(int16_t *const *blocks, uint32_t n, const uint16_t quant[64], uint8_t *const *rows,
                               size_t at)
{
    uint32_t i = 0;
    for (; i + 4 <= n; i += 4, at += 32)
        transform_four(blocks + i, quant, rows, at);
    return i + mr_idct_blocks_avx2(blocks + i, n - i, quant, rows, at);
}
