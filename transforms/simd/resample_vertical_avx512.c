/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vertical pass for AVX-512: makes output rows from strips, whose dwords hold the bytes of four
 * rows. An output's taps may begin anywhere in a strip, so either its rows or its digits are
 * shifted until they meet.
 */
#include "transforms/simd/weights_avx512.h"
#include "transforms/simd/kernels_simd.h"

/* For each block (strip) with taps of one output, three digits of four weights. */
#define MAX_BLOCKS (MR_AXIS_MAX_TAPS / MR_STRIP_ROWS + 1)
struct blocks {
    int32_t digit[3][MAX_BLOCKS];
};

/* The tables: room for blocks, then digits of taps 4g to 4g + 3: [g][digit][output]. */
size_t mr_resample_vertical_bytes_avx512(const struct mr_axis *y)
{
    return sizeof(struct blocks) + (size_t)(y->max_taps + 3) / 4 * 3 * y->pitch * sizeof(int32_t);
}

static int32_t *find_digits(const struct mr_resample_vertical *vertical)
{
    return (int32_t *)(void *)(vertical->tables + sizeof(struct blocks));
}

void mr_resample_vertical_make_avx512(struct mr_resample_vertical *vertical)
{
    const struct mr_axis *y = vertical->y;
    int32_t *to = find_digits(vertical);
    for (uint32_t k = 0; k < y->max_taps; k += 4, to += 3 * (size_t)y->pitch)
        for (uint32_t i = 0; i < y->pitch; i += 16) {
            __m512i digit[3];
            make_digits(y->weight + (size_t)k * y->pitch + i, y->pitch, digit);
            for (int d = 0; d < 3; d++)
                _mm512_storeu_si512(to + (size_t)d * y->pitch + i, digit[d]);
        }
}

/* How the dwords of four taps are made from the blocks. */
enum {
    WORDS_OF_ONE, /* at most two taps, in one block: words by a shuffle */
    WORDS_OF_TWO, /* the last row of a block and the first of the next */
    ONE_BLOCK,    /* at most four taps in one block: digits are shifted instead of rows */
    TWO_BLOCKS,   /* at most four taps in two blocks: rows are shifted into one dword */
    FEW_BLOCKS,   /* digits with zeros around them, up to MAX_FEW blocks */
    MANY_BLOCKS   /* the same with any number of blocks */
};

#define MAX_FEW 3

/*
 * What an output row is made from. Up to MAX_FEW blocks it is in registers, which the row's stores
 * cannot change.
 */
struct taps {
    uint32_t n_blocks;
    const uint8_t *const *rows;
    const uint8_t *row[MAX_FEW];
    __m512i digit[3][MAX_FEW]; /* d2, d1, d0; for words: hi, lo */
    __m512i shuffle;
    const struct blocks *many;
};

INLINE __m512i sum_many(const struct taps *t, size_t at)
{
    __m512i sum = _mm512_set1_epi32(32);
    for (uint32_t d = 0; d < 3; d++) {
        if (d > 0)
            sum = _mm512_slli_epi32(sum, 8);
        for (uint32_t k = 0; k < t->n_blocks; k++)
            sum = _mm512_dpbusd_epi32(sum, _mm512_loadu_si512(t->rows[k] + at),
                                      _mm512_set1_epi32(t->many->digit[d][k]));
    }
    return sum;
}

/*
 * Sum sixteen values at byte `at` of the blocks, before the shift to the right. n: number of
 * blocks, if way does not give it.
 */
INLINE __m512i sum_blocks(const struct taps *t, size_t at, int way, uint32_t n)
{
    if (way == MANY_BLOCKS)
        return sum_many(t, at);
    __m512i block[MAX_FEW], sum = _mm512_set1_epi32(32);
    for (uint32_t k = 0; k < n; k++)
        block[k] = _mm512_loadu_si512(t->row[k] + at);
    if (way == WORDS_OF_TWO)
        block[0] = _mm512_shrdi_epi32(block[0], block[1], 24);
    if (way == WORDS_OF_ONE || way == WORDS_OF_TWO)
        return sum_words(_mm512_shuffle_epi8(block[0], t->shuffle), t->digit[0][0], t->digit[1][0]);
    if (way == TWO_BLOCKS)
        block[0] = _mm512_shrdv_epi32(block[0], block[1], t->shuffle);
    for (uint32_t d = 0; d < 3; d++) {
        if (d > 0)
            sum = _mm512_slli_epi32(sum, 8);
        for (uint32_t k = 0; k < (way == FEW_BLOCKS ? n : 1); k++)
            sum = _mm512_dpbusd_epi32(sum, block[k], t->digit[d][k]);
    }
    return sum;
}

/* Byte 4j + i of the joined sums is value 16i + j. */
static const uint8_t order[64] = {0, 4, 8,  12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
                                  1, 5, 9,  13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61,
                                  2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62,
                                  3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63};

/* Sum 16 * n_vectors values from `at` on, in order. */
INLINE __m512i sum_values(const struct taps *t, uint32_t at, uint32_t n_vectors, int way,
                          uint32_t n_blocks, bool overshoots)
{
    const __m512i by_vector =
        _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const __m512i none = _mm512_setzero_si512();
    __m512i sum[4] = {none, none, none, none};
    for (uint32_t i = 0; i < n_vectors; i++)
        sum[i] = sum_blocks(t, 4 * ((size_t)at + 16 * i), way, n_blocks);
    if (overshoots)
        return _mm512_permutexvar_epi32(by_vector, clip_sums(sum[0], sum[1], sum[2], sum[3]));
    return _mm512_permutexvar_epi8(_mm512_loadu_si512(order),
                                   join_rows(sum[0], sum[1], sum[2], sum[3]));
}

/*
 * The end of a row is half a vector, or a vector that overlaps the last one; a masked store takes
 * longer.
 */
INLINE void sum_row(const struct taps *t, int way, uint32_t n_blocks, bool overshoots, uint32_t n,
                    uint8_t *out)
{
    uint32_t at = 0;
    for (; at + 64 <= n; at += 64)
        _mm512_storeu_si512(out + at, sum_values(t, at, 4, way, n_blocks, overshoots));
    if (n - at == 32)
        _mm256_storeu_si256(
            (__m256i *)(void *)(out + at),
            _mm512_castsi512_si256(sum_values(t, at, 2, way, n_blocks, overshoots)));
    else if (n > at && n > 64)
        _mm512_storeu_si512(out + n - 64, sum_values(t, n - 64, 4, way, n_blocks, overshoots));
    else if (n > at)
        _mm512_mask_storeu_epi8(out, first_bytes(n),
                                sum_values(t, 0, 4, way, n_blocks, overshoots));
}

/*
 * Digit d of block k of an output's taps, with `before` zeros before them, from the dwords of four
 * taps at `from`.
 */
INLINE uint32_t place_digit(const int32_t *from, size_t pitch, uint32_t n_fours, uint32_t before,
                            uint32_t d, uint32_t k)
{
    uint64_t four = k < n_fours ? (uint32_t)from[(3 * (size_t)k + d) * pitch] : 0;
    uint64_t last = k > 0 && k <= n_fours ? (uint32_t)from[(3 * ((size_t)k - 1) + d) * pitch] : 0;
    return (uint32_t)((four << 32 | last) << 8 * before >> 32);
}

INLINE void sum_few(const struct mr_resample_vertical *vertical, uint32_t i,
                    const uint8_t *const *strips, uint32_t before, int way, uint32_t n_blocks,
                    bool overshoots, uint32_t n, uint8_t *out)
{
    struct taps t = {.shuffle = _mm512_set1_epi32((int)(8 * before))};
    uint32_t n_fours = (vertical->y->count[i] + 3) / 4;
    for (uint32_t k = 0; k < n_blocks; k++)
        t.row[k] = strips[k];
    for (uint32_t d = 0; d < 3; d++)
        for (uint32_t k = 0; k < (way == FEW_BLOCKS ? n_blocks : 1); k++)
            t.digit[d][k] =
                _mm512_set1_epi32((int)place_digit(find_digits(vertical) + i, vertical->y->pitch,
                                                   n_fours, way == TWO_BLOCKS ? 0 : before, d, k));
    sum_row(&t, way, n_blocks, overshoots, n, out);
}

INLINE void vertical_many(const struct mr_resample_vertical *vertical, uint32_t i,
                          const uint8_t *const *strips, uint32_t before, uint32_t n_blocks,
                          bool overshoots, uint32_t n, uint8_t *out)
{
    struct blocks *b = (struct blocks *)(void *)vertical->tables;
    struct taps t = {.n_blocks = n_blocks, .rows = strips, .many = b};
    uint32_t n_fours = (vertical->y->count[i] + 3) / 4;
    for (uint32_t d = 0; d < 3; d++)
        for (uint32_t k = 0; k < n_blocks; k++)
            b->digit[d][k] = (int32_t)place_digit(find_digits(vertical) + i, vertical->y->pitch,
                                                  n_fours, before, d, k);
    sum_row(&t, MANY_BLOCKS, n_blocks, overshoots, n, out);
}

INLINE void vertical_words(const struct mr_resample_vertical *vertical, uint32_t i,
                           const uint8_t *const *strips, uint32_t before, int way, uint32_t n,
                           uint8_t *out)
{
    const struct mr_axis *y = vertical->y;
    uint32_t w0 = (uint32_t)y->weight[i], w1 = (uint32_t)y->weight[y->pitch + i];
    uint32_t n_blocks = way == WORDS_OF_TWO ? 2 : 1, first = way == WORDS_OF_TWO ? 0 : before;
    struct taps t = {.shuffle = _mm512_set4_epi32((int)0x800d800c, (int)0x80098008, (int)0x80058004,
                                                  (int)0x80018000)};
    t.shuffle = _mm512_add_epi32(t.shuffle, _mm512_set1_epi32((int)(first * 0x00010001)));
    for (uint32_t k = 0; k < n_blocks; k++)
        t.row[k] = strips[k];
    t.digit[0][0] = _mm512_set1_epi32((int)(w0 >> 11 | w1 >> 11 << 16));
    t.digit[1][0] = _mm512_set1_epi32((int)((w0 & 2047) | (w1 & 2047) << 16));
    sum_row(&t, way, n_blocks, false, n, out);
}

INLINE void vertical_row(const struct mr_resample_vertical *vertical, uint32_t i,
                         const uint8_t *const *strips, bool overshoots, uint32_t n, uint8_t *out)
{
    uint32_t before = vertical->y->start[i] % MR_STRIP_ROWS, count = vertical->y->count[i];
    uint32_t n_blocks = (before + count + MR_STRIP_ROWS - 1) / MR_STRIP_ROWS;
    if (count <= 2 && n_blocks == 1 && !overshoots)
        vertical_words(vertical, i, strips, before, WORDS_OF_ONE, n, out);
    else if (count <= 2 && !overshoots)
        vertical_words(vertical, i, strips, before, WORDS_OF_TWO, n, out);
    else if (n_blocks == 1)
        sum_few(vertical, i, strips, before, ONE_BLOCK, 1, overshoots, n, out);
    else if (count <= 4)
        sum_few(vertical, i, strips, before, TWO_BLOCKS, 2, overshoots, n, out);
    else if (n_blocks == 2)
        sum_few(vertical, i, strips, before, FEW_BLOCKS, 2, overshoots, n, out);
    else if (n_blocks == 3)
        sum_few(vertical, i, strips, before, FEW_BLOCKS, 3, overshoots, n, out);
    else
        vertical_many(vertical, i, strips, before, n_blocks, overshoots, n, out);
}

void mr_resample_vertical_row_avx512(const struct mr_resample_vertical *vertical, uint32_t i,
                                     const uint8_t *const *strips, uint32_t n, uint8_t *out)
{
    if (vertical->y->overshoots)
        vertical_row(vertical, i, strips, true, n, out);
    else
        vertical_row(vertical, i, strips, false, n, out);
}
