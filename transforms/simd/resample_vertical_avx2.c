/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The vertical pass for AVX2: makes output rows from strips, whose dwords hold the u16 values of
 * two rows. An output's first tap may be the second row of a pair; its weights then begin one place
 * later.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/weights_avx2.h"

#include <string.h>

/* Pairs of rows with taps of one output, and two weights for each pair. */
#define MAX_PAIRS (MR_AXIS_MAX_TAPS / 2 + 1)
struct pairs {
    uint32_t n;
    const uint8_t *row[MAX_PAIRS];
    int32_t hi[MAX_PAIRS];
    int32_t lo[MAX_PAIRS];
};

/* The tables: room for pairs, then the words of pair p of all outputs: [p][hi, lo][output]. */
size_t mr_resample_vertical_bytes_avx2(const struct mr_axis *y)
{
    return sizeof(struct pairs) + ((size_t)y->max_taps / 2 + 1) * 2 * y->pitch * sizeof(int32_t);
}

static int32_t *find_words(const struct mr_resample_vertical *vertical)
{
    return (int32_t *)(void *)(vertical->tables + sizeof(struct pairs));
}

INLINE __m256i load_weights(const struct mr_axis *y, uint32_t tap, uint32_t i)
{
    return tap < y->max_taps ? load256(y->weight + (size_t)tap * y->pitch + i)
                             : _mm256_setzero_si256();
}

/* If an output's first tap is the second row of a pair, its weights begin one place later. */
void mr_resample_vertical_make_avx2(struct mr_resample_vertical *vertical)
{
    const struct mr_axis *y = vertical->y;
    int32_t *words = find_words(vertical);
    for (uint32_t p = 0; p <= y->max_taps / 2; p++, words += 2 * (size_t)y->pitch)
        for (uint32_t i = 0; i < y->pitch; i += 8) {
            __m256i odd = _mm256_srai_epi32(_mm256_slli_epi32(load256(y->start + i), 31), 31);
            __m256i before = p > 0 ? load_weights(y, 2 * p - 1, i) : _mm256_setzero_si256();
            __m256i first = load_weights(y, 2 * p, i), second = load_weights(y, 2 * p + 1, i);
            __m256i w0 = _mm256_blendv_epi8(first, before, odd),
                    w1 = _mm256_blendv_epi8(second, first, odd);
            store256(words + i, pair_hi(w0, w1));
            store256(words + y->pitch + i, pair_lo(w0, w1));
        }
}

static void find_pairs(const struct mr_resample_vertical *vertical, uint32_t i,
                       const uint8_t *const *strips, struct pairs *pairs)
{
    const struct mr_axis *y = vertical->y;
    const int32_t *words = find_words(vertical) + i;
    uint32_t row = y->start[i] % MR_STRIP_ROWS, first = row / 2;
    pairs->n = (row + y->count[i] + 1) / 2 - first;
    for (uint32_t p = 0; p < pairs->n; p++, words += 2 * (size_t)y->pitch) {
        pairs->row[p] = strips[(first + p) / 2] + (first + p) % 2 * 4 * vertical->stride;
        pairs->hi[p] = words[0];
        pairs->lo[p] = words[y->pitch];
    }
}

/* Up to this many pairs are kept in registers, which a row's stores cannot change. */
#define MAX_FEW 5

struct taps {
    const struct pairs *pairs;
    const uint8_t *row[MAX_FEW];
    __m256i hi[MAX_FEW];
    __m256i lo[MAX_FEW];
};

/* Twice the values. If they may be outside of 0 to 255: 64 times the values, signed. */
INLINE __m256i join_sums(__m256i hi, __m256i lo, bool overshoots)
{
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(hi, 11), lo);
    return overshoots ? _mm256_srai_epi32(sum, 16) : _mm256_srli_epi32(sum, 21);
}

/* join_sums() of eight values at byte `at` of the rows; n is at most MAX_FEW. */
INLINE __m256i sum_few(const struct taps *t, size_t at, uint32_t n, bool overshoots)
{
    __m256i words = load256(t->row[0] + at);
    __m256i hi = _mm256_madd_epi16(words, t->hi[0]), lo = _mm256_madd_epi16(words, t->lo[0]);
    for (uint32_t k = 1; k < n; k++) {
        words = load256(t->row[k] + at);
        hi = _mm256_add_epi32(hi, _mm256_madd_epi16(words, t->hi[k]));
        lo = _mm256_add_epi32(lo, _mm256_madd_epi16(words, t->lo[k]));
    }
    return join_sums(hi, lo, overshoots);
}

/* The same for any number of pairs. */
INLINE __m256i sum_many(const struct pairs *pairs, size_t at, bool overshoots)
{
    __m256i hi = _mm256_setzero_si256(), lo = hi;
    for (uint32_t k = 0; k < pairs->n; k++) {
        __m256i words = load256(pairs->row[k] + at);
        hi = _mm256_add_epi32(hi, _mm256_madd_epi16(words, _mm256_set1_epi32(pairs->hi[k])));
        lo = _mm256_add_epi32(lo, _mm256_madd_epi16(words, _mm256_set1_epi32(pairs->lo[k])));
    }
    return join_sums(hi, lo, overshoots);
}

/* Round the words of join_sums(). */
INLINE __m256i round_words(__m256i words, bool overshoots)
{
    if (overshoots)
        return _mm256_srai_epi16(_mm256_adds_epi16(words, _mm256_set1_epi16(32)), 6);
    return _mm256_avg_epu16(words, _mm256_setzero_si256());
}

/* Sum 32 values. n 0: any number of pairs. */
INLINE __m256i sum_32(const struct taps *t, size_t at, uint32_t n, bool overshoots)
{
    const __m256i in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i sum[4];
    for (uint32_t i = 0; i < 4; i++)
        sum[i] = n == 0 ? sum_many(t->pairs, at + 32 * i, overshoots)
                        : sum_few(t, at + 32 * i, n, overshoots);
    __m256i a =
        overshoots ? _mm256_packs_epi32(sum[0], sum[1]) : _mm256_packus_epi32(sum[0], sum[1]);
    __m256i b =
        overshoots ? _mm256_packs_epi32(sum[2], sum[3]) : _mm256_packus_epi32(sum[2], sum[3]);
    __m256i bytes = _mm256_packus_epi16(round_words(a, overshoots), round_words(b, overshoots));
    return _mm256_permutevar8x32_epi32(bytes, in_order);
}

INLINE void sum_row(const struct pairs *pairs, uint32_t n_pairs, bool overshoots, uint32_t n,
                    uint8_t *out)
{
    struct taps t = {.pairs = pairs};
    for (uint32_t k = 0; k < n_pairs; k++) {
        t.row[k] = pairs->row[k];
        t.hi[k] = _mm256_set1_epi32(pairs->hi[k]);
        t.lo[k] = _mm256_set1_epi32(pairs->lo[k]);
    }
    uint32_t at = 0;
    for (; at + 32 <= n; at += 32)
        store256(out + at, sum_32(&t, 4 * (size_t)at, n_pairs, overshoots));
    if (at < n) {
        uint8_t rest[32];
        store256(rest, sum_32(&t, 4 * (size_t)at, n_pairs, overshoots));
        memcpy(out + at, rest, n - at);
    }
}

void mr_resample_vertical_row_avx2(const struct mr_resample_vertical *vertical, uint32_t i,
                                   const uint8_t *const *strips, uint32_t n, uint8_t *out)
{
    struct pairs *pairs = (struct pairs *)(void *)vertical->tables;
    find_pairs(vertical, i, strips, pairs);
    if (vertical->y->overshoots) {
        switch (pairs->n) {
        case 2: sum_row(pairs, 2, true, n, out); break;
        case 3: sum_row(pairs, 3, true, n, out); break;
        case 4: sum_row(pairs, 4, true, n, out); break;
        case 5: sum_row(pairs, 5, true, n, out); break;
        default: sum_row(pairs, 0, true, n, out); break;
        }
        return;
    }
    switch (pairs->n) {
    case 1: sum_row(pairs, 1, false, n, out); break;
    case 2: sum_row(pairs, 2, false, n, out); break;
    case 3: sum_row(pairs, 3, false, n, out); break;
    default: sum_row(pairs, 0, false, n, out); break;
    }
}
