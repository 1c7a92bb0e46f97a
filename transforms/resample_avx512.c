/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Both passes for AVX-512 with VBMI, VBMI2 and VNNI. A weight of 22 bits is three signed digits of 8 bits,
 * w = (d2 << 16) + (d1 << 8) + d0, so that products sum up by vpdpbusd. A strip is one row of dwords, each with the
 * bytes of four rows. With one or two taps weights are two words instead, hi = w >> 11 and lo = w & 2047.
 *
 * Easy to get wrong: the rounding. Sums begin with what becomes 2^21: 32 (or 1024 for words) before the shifts.
 */
#include "transforms/kernels_simd.h"
#include "transforms/simd_avx512.h"

#include <string.h>

/* The ways of a horizontal pass. */
enum {
    TWO_TAPS,   /* words */
    FOUR_TAPS,  /* digits, one step */
    EIGHT_TAPS, /* two steps */
    WIDE_PIXELS /* outputs too far apart: one after the other */
};

/* Sixteen values and four taps of each, in one load of 64 bytes: where bytes come from, and the digits, d2 first. */
struct group {
    __m512i from;
    __m512i digit[3];
};

/* With more, neighbours hardly ever fit into one load. */
#define MAX_GROUP_TAPS 8

/* ---- Tables ---- */

static uint32_t n_groups(const struct mr_across *a)
{
    return a->x->pitch / 16 * a->channels;
}

/* Wide pixels: taps are a multiple of 16. */
static uint32_t wide_taps(const struct mr_axis *x)
{
    return (x->max_taps + 15) & ~15u;
}

static size_t across_bytes_avx512(const struct mr_across *a)
{
    size_t n_steps = a->x->max_taps > MAX_GROUP_TAPS ? 0 : (a->x->max_taps + 3) / 4;
    size_t groups = n_steps * n_groups(a) * (sizeof(struct group) + sizeof(int32_t));
    size_t wide = (size_t)a->x->n * wide_taps(a->x) * 3;
    return groups > wide ? groups : wide;
}

static struct group *find_groups(const struct mr_across *a)
{
    return (struct group *)(void *)a->tables;
}

static int32_t *find_offsets(const struct mr_across *a)
{
    return (int32_t *)(void *)(find_groups(a) + (size_t)a->n_steps * n_groups(a));
}

/* The bytes of (w + 0x8080) ^ 0x8080 are the signed digits. */
INLINE __m512i to_digits(__m512i weight)
{
    const __m512i carry = _mm512_set1_epi32(0x8080);
    return _mm512_xor_si512(_mm512_add_epi32(weight, carry), carry);
}

/* Four taps of sixteen outputs, from weights of one tap each: digits d2, d1, d0, in dwords of four taps. */
INLINE void make_digits(const int32_t *weight, size_t pitch, __m512i digit[3])
{
    const __m512i by_digit = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
    __m512i w0 = to_digits(_mm512_loadu_si512(weight)), w1 = to_digits(_mm512_loadu_si512(weight + pitch));
    __m512i w2 = to_digits(_mm512_loadu_si512(weight + 2 * pitch));
    __m512i w3 = to_digits(_mm512_loadu_si512(weight + 3 * pitch));
    /* Each quarter of a vector holds four outputs: a transposition of 4 x 4 dwords, of bytes in it, and back. */
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

/* The same for two taps: words hi, lo. */
INLINE void make_words(const int32_t *weight, size_t pitch, __m512i digit[3])
{
    const __m512i low = _mm512_set1_epi32(2047);
    __m512i w0 = _mm512_loadu_si512(weight), w1 = _mm512_loadu_si512(weight + pitch);
    digit[0] = _mm512_or_si512(_mm512_srli_epi32(w0, 11), _mm512_slli_epi32(_mm512_srli_epi32(w1, 11), 16));
    digit[1] = _mm512_or_si512(_mm512_and_si512(w0, low), _mm512_slli_epi32(_mm512_and_si512(w1, low), 16));
    digit[2] = _mm512_setzero_si512();
}

struct making {
    int32_t channels;
    int32_t row_bytes;
    int32_t max_taps;
    int32_t pixel[4][16]; /* of the sixteen values of group v: their pixels among the block's, their channels */
    int32_t channel[4][16];
    int32_t reach; /* the furthest byte from its load */
};

static void find_channels(struct making *m)
{
    for (int32_t v = 0; v < m->channels; v++)
        for (int32_t i = 0; i < 16; i++) {
            m->pixel[v][i] = (16 * v + i) / m->channels;
            m->channel[v][i] = (16 * v + i) % m->channels;
        }
}

/* Where the load of taps `tap` to tap + 3 begins, of outputs first to last. */
INLINE int32_t place_load(struct making *m, const struct mr_axis *x, uint32_t first, uint32_t last, int32_t tap)
{
    int32_t one = (int32_t)x->start[first], other = (int32_t)x->start[last];
    int32_t low = one < other ? one : other, high = one < other ? other : one;
    int32_t base = m->channels * (low + tap);
    int32_t last_tap = m->max_taps - 1 < tap + 3 ? m->max_taps - 1 : tap + 3;
    int32_t end = m->channels * (high + last_tap + 1);
    if (base > m->row_bytes - 64)
        base = m->row_bytes - 64;
    if (end > m->row_bytes)
        end = m->row_bytes;
    if (end - 1 - base > m->reach)
        m->reach = end - 1 - base;
    return base;
}

/* The groups of sixteen pixels from x on, for taps 4 * step to 4 * step + 3. */
INLINE void make_block(struct making *m, const struct mr_axis *axis, uint32_t x, uint32_t step, bool words,
                       struct group *group, int32_t *offset)
{
    const __m512i low_byte = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    int32_t channels = m->channels, tap = (int32_t)step * 4;
    const __m512i taps =
        _mm512_set1_epi32(words ? channels << 16 : (3 * channels) << 24 | (2 * channels) << 16 | channels << 8);
    const int32_t *weight = axis->weight + (size_t)step * 4 * axis->pitch + x;
    __m512i digit[3];
    if (words)
        make_words(weight, axis->pitch, digit);
    else
        make_digits(weight, axis->pitch, digit);
    __m512i start = _mm512_mullo_epi32(_mm512_loadu_si512(axis->start + x), _mm512_set1_epi32(channels));
    for (int32_t v = 0; v < channels; v++, group++, offset++) {
        __m512i pixel = _mm512_loadu_si512(m->pixel[v]), channel = _mm512_loadu_si512(m->channel[v]);
        for (int i = 0; i < 3; i++)
            group->digit[i] = _mm512_permutexvar_epi32(pixel, digit[i]);
        *offset = place_load(m, axis, x + (uint32_t)m->pixel[v][0], x + (uint32_t)m->pixel[v][15], tap);
        __m512i at = _mm512_add_epi32(_mm512_permutexvar_epi32(pixel, start), channel);
        at = _mm512_add_epi32(at, _mm512_set1_epi32(channels * tap - *offset));
        group->from = _mm512_add_epi8(_mm512_shuffle_epi8(at, low_byte), taps);
    }
}

/* False where the taps of neighbours are too far apart. */
static bool make_groups(struct mr_across *a)
{
    const struct mr_axis *x = a->x;
    struct making making = {
        .channels = (int32_t)a->channels, .row_bytes = (int32_t)a->row_bytes, .max_taps = (int32_t)x->max_taps};
    find_channels(&making);
    a->n_steps = (x->max_taps + 3) / 4;
    struct group *group = find_groups(a);
    int32_t *offset = find_offsets(a);
    for (uint32_t step = 0; step < a->n_steps; step++) {
        for (uint32_t at = 0; at < x->pitch; at += 16, group += a->channels, offset += a->channels)
            make_block(&making, x, at, step, x->max_taps <= 2, group, offset);
        if (making.reach > 63)
            return false;
    }
    a->way = x->max_taps <= 2 ? TWO_TAPS : FOUR_TAPS + a->n_steps - 1;
    return true;
}

static void make_wide(struct mr_across *a)
{
    const struct mr_axis *x = a->x;
    uint32_t n_taps = wide_taps(x);
    uint8_t *digits = a->tables;
    for (uint32_t i = 0; i < x->n; i++, digits += 3 * (size_t)n_taps)
        for (uint32_t k = 0; k < n_taps; k++) {
            uint32_t w = k < x->max_taps ? (uint32_t)x->weight[(size_t)k * x->pitch + i] : 0;
            w = (w + 0x8080) ^ 0x8080;
            digits[k] = (uint8_t)(w >> 16);
            digits[n_taps + k] = (uint8_t)(w >> 8);
            digits[2 * n_taps + k] = (uint8_t)w;
        }
    a->way = WIDE_PIXELS;
    a->n_steps = n_taps;
    a->row_bytes += n_taps * a->channels + 16;
}

static void across_make_avx512(struct mr_across *a)
{
    if (a->row_bytes < 64)
        a->row_bytes = 64;
    if (a->x->max_taps > MAX_GROUP_TAPS || !make_groups(a))
        make_wide(a);
}

/* ---- Sums ---- */

/* Sums of four rows, the values in bits 22 to 29, to dwords of four bytes. */
INLINE __m512i join_rows(__m512i a, __m512i b, __m512i c, __m512i d)
{
    const __m512i from = _mm512_set1_epi64(0x3636363616161616); /* bits 22.. and 54.. */
    __m512i bytes = _mm512_multishift_epi64_epi8(from, a);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, 0x2222222222222222, from, b);
    bytes = _mm512_mask_multishift_epi64_epi8(bytes, 0x4444444444444444, from, c);
    return _mm512_mask_multishift_epi64_epi8(bytes, 0x8888888888888888, from, d);
}

INLINE __m512i sum_words(__m512i words, __m512i hi, __m512i lo)
{
    __m512i sum = _mm512_dpwssd_epi32(_mm512_set1_epi32(1024), words, hi);
    return _mm512_dpwssd_epi32(_mm512_slli_epi32(sum, 11), words, lo);
}

/* ---- The horizontal pass ---- */

/* Sixteen values of one row, before they are shifted. */
INLINE __m512i sum_group(const struct group *const *group, const int32_t *const *offset, const uint8_t *row,
                         uint32_t n_steps)
{
    __m512i bytes[2], sum = _mm512_set1_epi32(32);
    for (uint32_t k = 0; k < n_steps; k++)
        bytes[k] = _mm512_permutexvar_epi8(group[k]->from, _mm512_loadu_si512(row + *offset[k]));
    for (uint32_t i = 0; i < 3; i++) {
        if (i > 0)
            sum = _mm512_slli_epi32(sum, 8);
        for (uint32_t k = 0; k < n_steps; k++)
            sum = _mm512_dpbusd_epi32(sum, bytes[k], group[k]->digit[i]);
    }
    return sum;
}

INLINE __m512i sum_two_taps(const struct group *group, const int32_t *offset, const uint8_t *row)
{
    const __mmask64 words = 0x5555555555555555u;
    __m512i bytes = _mm512_maskz_permutexvar_epi8(words, group->from, _mm512_loadu_si512(row + *offset));
    return sum_words(bytes, group->digit[0], group->digit[1]);
}

/* n_steps 0: two taps. */
INLINE void across_groups(const struct mr_across *a, const uint8_t *const *rows, uint8_t *strip, uint32_t n_steps)
{
    const struct group *groups = find_groups(a);
    const int32_t *offsets = find_offsets(a);
    uint32_t n = n_groups(a);
    for (uint32_t g = 0; g < n; g++) {
        const struct group *group[2];
        const int32_t *offset[2];
        for (uint32_t k = 0; k < n_steps; k++) {
            group[k] = groups + (size_t)k * n + g;
            offset[k] = offsets + (size_t)k * n + g;
        }
        __m512i sum[MR_STRIP_ROWS];
        for (uint32_t i = 0; i < MR_STRIP_ROWS; i++)
            sum[i] = n_steps == 0 ? sum_two_taps(groups + g, offsets + g, rows[i])
                                  : sum_group(group, offset, rows[i], n_steps);
        _mm512_storeu_si512(strip + 64 * (size_t)g, join_rows(sum[0], sum[1], sum[2], sum[3]));
    }
}

INLINE __m512i load_quarters(const uint8_t *const *rows, size_t at)
{
    __m512i v = _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(rows[0] + at)));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows[1] + at)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows[2] + at)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows[3] + at)), 3);
}

/* One digit of four taps of a pixel, or, with one channel, of sixteen. */
INLINE __m512i load_digit(const uint8_t *digits, int channels)
{
    int32_t four;
    if (channels == 1)
        return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)digits));
    memcpy(&four, digits, sizeof four);
    return _mm512_set1_epi32(four);
}

/* One pixel of four rows, which are the quarters of the vectors: a dword for each channel; for one channel, the first.
 */
INLINE __m512i sum_pixel(const uint8_t *const *rows, size_t at, const uint8_t *digits, uint32_t n_taps, int channels)
{
    char c = (char)channels, c2 = (char)(2 * channels), c3 = (char)(3 * channels);
    const __m512i from = _mm512_broadcast_i32x4(
        _mm_setr_epi8(0, c, c2, c3, 1, (char)(c + 1), (char)(c2 + 1), (char)(c3 + 1), 2, (char)(c + 2), (char)(c2 + 2),
                      (char)(c3 + 2), 3, (char)(c + 3), (char)(c2 + 3), (char)(c3 + 3)));
    __m512i sum2 = _mm512_setzero_si512(), sum1 = sum2, sum0 = sum2;
    uint32_t taps = channels == 1 ? 16 : 4;
    for (uint32_t k = 0; k < n_taps; k += taps, at += taps * (uint32_t)channels) {
        __m512i bytes = load_quarters(rows, at);
        if (channels != 1)
            bytes = _mm512_shuffle_epi8(bytes, from);
        sum2 = _mm512_dpbusd_epi32(sum2, bytes, load_digit(digits + k, channels));
        sum1 = _mm512_dpbusd_epi32(sum1, bytes, load_digit(digits + n_taps + k, channels));
        sum0 = _mm512_dpbusd_epi32(sum0, bytes, load_digit(digits + 2 * n_taps + k, channels));
    }
    __m512i sum = _mm512_add_epi32(_mm512_slli_epi32(sum2, 8), sum1);
    sum = _mm512_add_epi32(_mm512_slli_epi32(sum, 8), sum0);
    if (channels == 1) {
        sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, (_MM_PERM_ENUM)0xb1));
        sum = _mm512_add_epi32(sum, _mm512_shuffle_epi32(sum, (_MM_PERM_ENUM)0x4e));
    }
    return _mm512_srli_epi32(_mm512_add_epi32(sum, _mm512_set1_epi32(1 << 21)), 22);
}

/* Each store of four dwords is mended by the next one; the last one needs the strip's slack. */
INLINE void across_wide(const struct mr_across *a, const uint8_t *const *rows, uint8_t *strip, int channels)
{
    const __m512i by_value =
        _mm512_castsi128_si512(_mm_setr_epi8(0, 16, 32, 48, 4, 20, 36, 52, 8, 24, 40, 56, 12, 28, 44, 60));
    const uint8_t *digits = a->tables;
    uint32_t n_taps = a->n_steps;
    for (uint32_t i = 0; i < a->x->n; i++, digits += 3 * (size_t)n_taps) {
        size_t at = (size_t)a->x->start[i] * (size_t)channels;
        __m512i sum = _mm512_permutexvar_epi8(by_value, sum_pixel(rows, at, digits, n_taps, channels));
        uint8_t *out = strip + 4 * (size_t)i * (size_t)channels;
        _mm_storeu_si128((__m128i *)(void *)out, _mm512_castsi512_si128(sum));
    }
}

static void across_avx512(const struct mr_across *a, const uint8_t *const rows[MR_STRIP_ROWS], uint8_t *strip)
{
    switch (a->way) {
    case TWO_TAPS: across_groups(a, rows, strip, 0); break;
    case FOUR_TAPS: across_groups(a, rows, strip, 1); break;
    case EIGHT_TAPS: across_groups(a, rows, strip, 2); break;
    default:
        if (a->channels == 1)
            across_wide(a, rows, strip, 1);
        else if (a->channels == 3)
            across_wide(a, rows, strip, 3);
        else
            across_wide(a, rows, strip, 4);
    }
}

/* ---- The vertical pass ---- */

/* The blocks (strips) that the taps of one output touch, and three digits of four weights for each; words: hi, lo. */
#define MAX_BLOCKS (MR_AXIS_MAX_TAPS / MR_STRIP_ROWS + 1)
struct blocks {
    int32_t digit[3][MAX_BLOCKS];
};

/* The tables: room for blocks, then digits of taps 4g to 4g + 3: [g][digit][output]. */
static size_t down_bytes_avx512(const struct mr_axis *y)
{
    return sizeof(struct blocks) + (size_t)(y->max_taps + 3) / 4 * 3 * y->pitch * sizeof(int32_t);
}

static int32_t *find_digits(const struct mr_down *down)
{
    return (int32_t *)(void *)(down->tables + sizeof(struct blocks));
}

static void down_make_avx512(struct mr_down *down)
{
    const struct mr_axis *y = down->y;
    int32_t *to = find_digits(down);
    for (uint32_t k = 0; k < y->max_taps; k += 4, to += 3 * (size_t)y->pitch)
        for (uint32_t i = 0; i < y->pitch; i += 16) {
            __m512i digit[3];
            make_digits(y->weight + (size_t)k * y->pitch + i, y->pitch, digit);
            for (int d = 0; d < 3; d++)
                _mm512_storeu_si512(to + (size_t)d * y->pitch + i, digit[d]);
        }
}

/* How the dwords of four taps come from the blocks. */
enum {
    WORDS_OF_ONE, /* at most two taps, in one block: words by a shuffle */
    WORDS_OF_TWO, /* the last row of a block and the first of the next */
    ONE_BLOCK,    /* at most four taps in one block: digits are shifted instead of rows */
    TWO_BLOCKS,   /* at most four taps in two: rows are shifted to one dword */
    MANY          /* digits with zeros around them, as many blocks as it takes */
};

/* Sixteen values at byte `at` of the blocks, before they are shifted right. */
INLINE __m512i sum_blocks(const uint8_t *const *rows, const struct blocks *b, size_t at, int way, uint32_t n,
                          __m512i shuffle)
{
    __m512i first = _mm512_loadu_si512(rows[0] + at), sum = _mm512_set1_epi32(32);
    if (way == WORDS_OF_TWO)
        first = _mm512_shrdi_epi32(first, _mm512_loadu_si512(rows[1] + at), 24);
    if (way == WORDS_OF_ONE || way == WORDS_OF_TWO)
        return sum_words(_mm512_shuffle_epi8(first, shuffle), _mm512_set1_epi32(b->digit[0][0]),
                         _mm512_set1_epi32(b->digit[1][0]));
    if (way == TWO_BLOCKS)
        first = _mm512_shrdv_epi32(first, _mm512_loadu_si512(rows[1] + at), shuffle);
    for (uint32_t d = 0; d < 3; d++) {
        if (d > 0)
            sum = _mm512_slli_epi32(sum, 8);
        sum = _mm512_dpbusd_epi32(sum, first, _mm512_set1_epi32(b->digit[d][0]));
        for (uint32_t k = 1; k < n; k++)
            sum = _mm512_dpbusd_epi32(sum, _mm512_loadu_si512(rows[k] + at), _mm512_set1_epi32(b->digit[d][k]));
    }
    return sum;
}

/* Byte 4j + i of joined sums is value 16i + j. */
static const uint8_t order[64] = {0, 4, 8,  12, 16, 20, 24, 28, 32, 36, 40, 44, 48, 52, 56, 60,
                                  1, 5, 9,  13, 17, 21, 25, 29, 33, 37, 41, 45, 49, 53, 57, 61,
                                  2, 6, 10, 14, 18, 22, 26, 30, 34, 38, 42, 46, 50, 54, 58, 62,
                                  3, 7, 11, 15, 19, 23, 27, 31, 35, 39, 43, 47, 51, 55, 59, 63};

INLINE void sum_row(const uint8_t *const *rows, const struct blocks *b, int way, uint32_t n_blocks, __m512i shuffle,
                    uint32_t n, uint8_t *out)
{
    const __m512i in_order = _mm512_loadu_si512(order);
    uint32_t at = 0;
    for (; at + 64 <= n; at += 64) {
        __m512i sum[4];
        for (uint32_t i = 0; i < 4; i++)
            sum[i] = sum_blocks(rows, b, 4 * ((size_t)at + 16 * i), way, n_blocks, shuffle);
        __m512i bytes = _mm512_permutexvar_epi8(in_order, join_rows(sum[0], sum[1], sum[2], sum[3]));
        _mm512_storeu_si512(out + at, bytes);
    }
    if (at < n) {
        __m512i sum[4] = {_mm512_setzero_si512(), _mm512_setzero_si512(), _mm512_setzero_si512(),
                          _mm512_setzero_si512()};
        for (uint32_t i = 0; i < 4 && at + 16 * i < n; i++)
            sum[i] = sum_blocks(rows, b, 4 * ((size_t)at + 16 * i), way, n_blocks, shuffle);
        __m512i bytes = _mm512_permutexvar_epi8(in_order, join_rows(sum[0], sum[1], sum[2], sum[3]));
        _mm512_mask_storeu_epi8(out + at, first_bytes(n - at), bytes);
    }
}

/* The digits of an output's taps, `before` zeros ahead of them. */
static void place_digits(const struct mr_down *down, uint32_t i, uint32_t before, uint32_t n_blocks, struct blocks *b)
{
    const int32_t *from = find_digits(down) + i;
    size_t pitch = down->y->pitch;
    uint32_t shift = 8 * before, n_groups = (down->y->count[i] + 3) / 4;
    for (uint32_t d = 0; d < 3; d++) {
        uint64_t carry = 0;
        for (uint32_t k = 0; k < n_blocks; k++) {
            uint32_t four = k < n_groups ? (uint32_t)from[(3 * (size_t)k + d) * pitch] : 0;
            carry |= (uint64_t)four << shift;
            b->digit[d][k] = (int32_t)(uint32_t)carry;
            carry >>= 32;
        }
    }
}

static void down_words(const struct mr_down *down, uint32_t i, const uint8_t *const *strips, uint32_t n, uint8_t *out)
{
    struct blocks *b = (struct blocks *)(void *)down->tables;
    const struct mr_axis *y = down->y;
    uint32_t before = y->start[i] % MR_STRIP_ROWS;
    bool two = before + y->count[i] > MR_STRIP_ROWS;
    uint32_t w0 = (uint32_t)y->weight[i], w1 = (uint32_t)y->weight[y->pitch + i];
    b->digit[0][0] = (int32_t)(w0 >> 11 | w1 >> 11 << 16);
    b->digit[1][0] = (int32_t)((w0 & 2047) | (w1 & 2047) << 16);
    __m512i shuffle = _mm512_set4_epi32((int)0x800d800c, (int)0x80098008, (int)0x80058004, (int)0x80018000);
    if (two) {
        sum_row(strips, b, WORDS_OF_TWO, 2, shuffle, n, out);
    } else {
        shuffle = _mm512_add_epi32(shuffle, _mm512_set1_epi32((int)(before * 0x00010001)));
        sum_row(strips, b, WORDS_OF_ONE, 1, shuffle, n, out);
    }
}

static void down_avx512(const struct mr_down *down, uint32_t i, const uint8_t *const *strips, uint32_t n, uint8_t *out)
{
    struct blocks *b = (struct blocks *)(void *)down->tables;
    uint32_t before = down->y->start[i] % MR_STRIP_ROWS, count = down->y->count[i];
    uint32_t n_blocks = (before + count + MR_STRIP_ROWS - 1) / MR_STRIP_ROWS;
    const __m512i none = _mm512_setzero_si512();
    if (count <= 2) {
        down_words(down, i, strips, n, out);
    } else if (n_blocks == 1) {
        place_digits(down, i, before, 1, b);
        sum_row(strips, b, ONE_BLOCK, 1, none, n, out);
    } else if (count <= 4) {
        place_digits(down, i, 0, 1, b);
        sum_row(strips, b, TWO_BLOCKS, 1, _mm512_set1_epi32((int)(8 * before)), n, out);
    } else {
        place_digits(down, i, before, n_blocks, b);
        switch (n_blocks) {
        case 2: sum_row(strips, b, MANY, 2, none, n, out); break;
        case 3: sum_row(strips, b, MANY, 3, none, n, out); break;
        default: sum_row(strips, b, MANY, n_blocks, none, n, out); break;
        }
    }
}

const struct mr_kernels mr_kernels_avx512 = {
    .cpu = MR_CPU_AVX512,
    .strip_bytes = sizeof(int32_t),
    .fill = mr_axis_fill_avx512,
    .across_bytes = across_bytes_avx512,
    .across_make = across_make_avx512,
    .across = across_avx512,
    .down_bytes = down_bytes_avx512,
    .down_make = down_make_avx512,
    .down = down_avx512,
    .planes = mr_store_planes_avx512,
    .values = mr_store_values_avx512,
};
