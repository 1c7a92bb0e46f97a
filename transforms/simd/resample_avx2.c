/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The horizontal pass for AVX2, and the set's table. A strip is two rows of dwords, each with the
 * u16 values of two rows; weights_avx2.h says how weights are multiplied.
 *
 * Invariant: a sum shifted right by 21 is twice the value. vpavgw with 0 then adds one and halves,
 * which is the rounding.
 */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/weights_avx2.h"

#include <string.h>

/* The ways of a horizontal pass. */
enum {
    TWO_TAPS,   /* one load of 16 bytes has all taps, and those of the neighbours */
    QUADS,      /* one load per four taps */
    PAIRS,      /* one load per two taps */
    WIDE_PIXELS /* outputs are too far apart for that: one after the other */
};

/* With more taps than this the groups' tables would not fit into the cache. */
#define MAX_GROUP_TAPS 16

/*
 * Eight values and four taps of each: the position in the load of each word's two bytes, and two
 * weights for each value.
 */
struct group {
    __m256i from0, hi0, lo0;
    __m256i from1, hi1, lo1;
};

/* Byte offsets of the loads: taps 0 and 1 for the lower and upper half, then taps 2 and 3. */
struct offsets {
    int32_t at[4];
};

/*
 * Wide pixels: where a pixel's loads begin, and how many bytes of each load come before its taps.
 */
struct place {
    int32_t at;
    int32_t lead;
};

#define WIDE_LEAD 4

/* ---- Tables ---- */

static uint32_t n_groups(const struct mr_resample_horizontal *a)
{
    return a->x->pitch / 8 * a->channels;
}

/* Wide pixels: the number of taps, a multiple of what one load holds. */
static uint32_t wide_taps(const struct mr_resample_horizontal *a)
{
    uint32_t step = a->channels == 1 ? 16 : 4;
    return (a->x->max_taps + step - 1) & ~(step - 1);
}

static size_t horizontal_bytes_avx2(const struct mr_resample_horizontal *a)
{
    size_t n_steps = a->x->max_taps > MAX_GROUP_TAPS ? 0 : (a->x->max_taps + 3) / 4;
    size_t groups = n_steps * n_groups(a) * (sizeof(struct group) + sizeof(struct offsets));
    size_t wide = a->x->n * (sizeof(struct place) + 2 * sizeof(int16_t) * (size_t)wide_taps(a));
    return groups > wide ? groups : wide;
}

static struct group *find_groups(const struct mr_resample_horizontal *a)
{
    return (struct group *)(void *)a->tables;
}

static struct offsets *find_offsets(const struct mr_resample_horizontal *a)
{
    return (struct offsets *)(void *)(find_groups(a) + (size_t)a->n_steps * n_groups(a));
}

static struct place *find_places(const struct mr_resample_horizontal *a)
{
    return (struct place *)(void *)a->tables;
}

/* For each pixel the hi words of all its taps, then the lo words. */
static int16_t *find_wide_words(const struct mr_resample_horizontal *a)
{
    return (int16_t *)(void *)(find_places(a) + a->x->n);
}

/* The smallest dword of each half, in all dwords of that half. */
INLINE __m256i min_of_half(__m256i v)
{
    v = _mm256_min_epi32(v, _mm256_shuffle_epi32(v, 0xb1));
    return _mm256_min_epi32(v, _mm256_shuffle_epi32(v, 0x4e));
}

INLINE int32_t find_largest(__m256i v)
{
    int32_t each[8], most = 0;
    store256(each, v);
    for (int i = 0; i < 8; i++)
        most = each[i] > most ? each[i] : most;
    return most;
}

/* What the groups of one row of a horizontal pass are made from. */
struct making {
    uint32_t channels;
    int32_t row_bytes;
    int32_t max_taps;
    /*
     * For the eight values of group v: the index of each one's pixel among the block's eight, and
     * its channel.
     */
    __m256i pixel_of[4];
    __m256i channel_of[4];
    __m256i
        reach2; /* furthest byte from the start of its load, for loads of two taps, and of four */
    __m256i reach4;
};

INLINE __m256i spread_offsets(__m256i distance, int32_t step)
{
    const __m256i bytes =
        _mm256_setr_epi8(0, -1, 0, -1, 4, -1, 4, -1, 8, -1, 8, -1, 12, -1, 12, -1, 0, -1, 0, -1, 4,
                         -1, 4, -1, 8, -1, 8, -1, 12, -1, 12, -1);
    __m256i words = _mm256_shuffle_epi8(distance, bytes);
    return _mm256_or_si256(_mm256_add_epi8(words, _mm256_set1_epi32(step << 16)),
                           _mm256_set1_epi32((int)0x80008000));
}

/*
 * The load for taps `tap` and tap + 1, whose bytes begin at `at`: its offsets, and the positions of
 * words in it.
 */
INLINE __m256i make_load(struct making *m, __m256i at, __m256i last, int32_t tap,
                         int32_t offsets[2])
{
    int32_t step = (int32_t)m->channels, rest = m->max_taps - 1 - tap;
    __m256i base = _mm256_min_epi32(min_of_half(at), _mm256_set1_epi32(m->row_bytes - 16));
    if (rest >= 0) {
        __m256i end2 = _mm256_add_epi32(at, _mm256_set1_epi32(step * (rest < 1 ? rest : 1)));
        __m256i end4 = _mm256_add_epi32(at, _mm256_set1_epi32(step * (rest < 3 ? rest : 3)));
        m->reach2 =
            _mm256_max_epi32(m->reach2, _mm256_sub_epi32(_mm256_min_epi32(end2, last), base));
        if (tap % 4 == 0)
            m->reach4 =
                _mm256_max_epi32(m->reach4, _mm256_sub_epi32(_mm256_min_epi32(end4, last), base));
    }
    offsets[0] = _mm256_extract_epi32(base, 0);
    offsets[1] = _mm256_extract_epi32(base, 4);
    return spread_offsets(_mm256_sub_epi32(at, base), step);
}

/* Make the groups of eight pixels from x on, for taps 4 * step to 4 * step + 3. */
INLINE void make_block(struct making *m, const struct mr_axis *axis, uint32_t x, uint32_t step,
                       struct group *group, struct offsets *offsets)
{
    const int32_t *weight = axis->weight + (size_t)step * 4 * axis->pitch + x;
    size_t pitch = axis->pitch;
    __m256i w0 = load256(weight), w1 = load256(weight + pitch);
    __m256i w2 = load256(weight + 2 * pitch), w3 = load256(weight + 3 * pitch);
    __m256i hi0 = pair_hi(w0, w1), lo0 = pair_lo(w0, w1), hi1 = pair_hi(w2, w3),
            lo1 = pair_lo(w2, w3);
    int32_t channels = (int32_t)m->channels, tap = (int32_t)step * 4;
    __m256i start = _mm256_mullo_epi32(load256(axis->start + x), _mm256_set1_epi32(channels));
    for (int32_t v = 0; v < channels; v++, group++, offsets++) {
        __m256i pixel = m->pixel_of[v];
        __m256i last =
            _mm256_add_epi32(_mm256_set1_epi32(m->row_bytes - channels), m->channel_of[v]);
        __m256i at = _mm256_add_epi32(_mm256_permutevar8x32_epi32(start, pixel), m->channel_of[v]);
        at = _mm256_add_epi32(at, _mm256_set1_epi32(channels * tap));
        group->hi0 = _mm256_permutevar8x32_epi32(hi0, pixel);
        group->lo0 = _mm256_permutevar8x32_epi32(lo0, pixel);
        group->hi1 = _mm256_permutevar8x32_epi32(hi1, pixel);
        group->lo1 = _mm256_permutevar8x32_epi32(lo1, pixel);
        group->from0 = make_load(m, at, last, tap, offsets->at);
        at = _mm256_add_epi32(at, _mm256_set1_epi32(2 * channels));
        group->from1 = make_load(m, at, last, tap + 2, offsets->at + 2);
    }
}

INLINE void find_channels(struct making *m)
{
    int32_t pixel[8], channel[8];
    for (uint32_t v = 0; v < m->channels; v++) {
        for (uint32_t i = 0; i < 8; i++) {
            pixel[i] = (int32_t)((8 * v + i) / m->channels);
            channel[i] = (int32_t)((8 * v + i) % m->channels);
        }
        m->pixel_of[v] = load256(pixel);
        m->channel_of[v] = load256(channel);
    }
}

/* All four taps of a group in one load: taps 2 and 3 come after taps 0 and 1. */
static void join_pairs(const struct mr_resample_horizontal *a)
{
    struct group *groups = find_groups(a);
    const __m256i step = _mm256_set1_epi32((int)(2 * a->channels * 0x00010001u)),
                  high = _mm256_set1_epi32((int)0x80008000);
    for (uint32_t g = 0; g < a->n_steps * n_groups(a); g++)
        groups[g].from1 = _mm256_or_si256(_mm256_add_epi8(groups[g].from0, step), high);
}

/* Write the words of one pixel's taps, with `before` zeros before them. */
static void make_pixel(const struct mr_axis *x, uint32_t i, uint32_t before, uint32_t n_taps,
                       int16_t *words)
{
    for (uint32_t k = 0; k < n_taps; k++) {
        uint32_t tap = k - before; /* wraps to a huge number before the first tap */
        int32_t w = tap < x->max_taps ? x->weight[(size_t)tap * x->pitch + i] : 0;
        words[k] = (int16_t)(w >> 11);
        words[n_taps + k] = (int16_t)(w & 2047);
    }
}

/*
 * No load may read past the row. Near the row's end taps begin earlier, with zero weights. A load
 * of four pixels of three channels is four bytes longer than the pixels, so the last loads begin
 * four bytes earlier.
 */
static void make_wide(struct mr_resample_horizontal *a)
{
    const struct mr_axis *x = a->x;
    uint32_t n_taps = wide_taps(a), least = n_taps * a->channels + 2 * WIDE_LEAD;
    if (a->row_bytes < least)
        a->row_bytes = least;
    uint32_t last = a->row_bytes / a->channels - n_taps, more = a->channels == 3 ? WIDE_LEAD : 0;
    struct place *place = find_places(a);
    int16_t *words = find_wide_words(a);
    for (uint32_t i = 0; i < x->n; i++, words += 2 * (size_t)n_taps) {
        uint32_t start = x->start[i] < last ? x->start[i] : last;
        uint32_t lead = (start + n_taps) * a->channels + more > a->row_bytes ? more : 0;
        place[i] = (struct place){(int32_t)(start * a->channels - lead), (int32_t)lead};
        make_pixel(x, i, x->start[i] - start, n_taps, words);
    }
    a->way = WIDE_PIXELS;
    a->n_steps = n_taps;
}

/* False if the taps of neighbours are too far apart. */
static bool make_groups(struct mr_resample_horizontal *a)
{
    const struct mr_axis *x = a->x;
    struct making making = {.channels = a->channels,
                            .row_bytes = (int32_t)a->row_bytes,
                            .max_taps = (int32_t)x->max_taps};
    making.reach2 = making.reach4 = _mm256_setzero_si256();
    find_channels(&making);
    a->n_steps = (x->max_taps + 3) / 4;
    struct group *group = find_groups(a);
    struct offsets *offsets = find_offsets(a);
    for (uint32_t step = 0; step < a->n_steps; step++) {
        for (uint32_t at = 0; at < x->pitch; at += 8, group += a->channels, offsets += a->channels)
            make_block(&making, x, at, step, group, offsets);
        if (find_largest(making.reach2) > 15)
            return false;
    }
    a->way = x->max_taps <= 2 ? TWO_TAPS : find_largest(making.reach4) <= 15 ? QUADS : PAIRS;
    if (a->way == QUADS)
        join_pairs(a);
    return true;
}

static void horizontal_make_avx2(struct mr_resample_horizontal *a)
{
    if (a->row_bytes < 16)
        a->row_bytes = 16;
    if (a->x->max_taps > MAX_GROUP_TAPS || !make_groups(a))
        make_wide(a);
}

/* ---- The horizontal pass ---- */

INLINE __m256i add_taps(__m256i sum, __m256i words, __m256i weights)
{
    return _mm256_add_epi32(sum, _mm256_madd_epi16(words, weights));
}

/* Sum eight values of one row, not rounded yet. n: distance to the groups of the next step. */
INLINE __m256i sum_groups(const struct group *group, const struct offsets *offsets, size_t n,
                          const uint8_t *row, bool joined, uint32_t n_pairs)
{
    __m256i hi = _mm256_setzero_si256(), lo = hi;
    for (uint32_t pair = 0; pair < n_pairs; pair += 2, group += n, offsets += n) {
        __m256i bytes = load_halves(row + offsets->at[0], row + offsets->at[1]);
        __m256i words = _mm256_shuffle_epi8(bytes, group->from0);
        hi = pair == 0 ? _mm256_madd_epi16(words, group->hi0) : add_taps(hi, words, group->hi0);
        lo = pair == 0 ? _mm256_madd_epi16(words, group->lo0) : add_taps(lo, words, group->lo0);
        if (pair + 1 == n_pairs)
            break;
        if (!joined)
            bytes = load_halves(row + offsets->at[2], row + offsets->at[3]);
        words = _mm256_shuffle_epi8(bytes, group->from1);
        hi = add_taps(hi, words, group->hi1);
        lo = add_taps(lo, words, group->lo1);
    }
    return _mm256_add_epi32(_mm256_slli_epi32(hi, 11), lo);
}

/* Round the sums of two rows and put them side by side as words. */
INLINE __m256i join_rows(__m256i a, __m256i b)
{
    __m256i twice = _mm256_blend_epi16(_mm256_srli_epi32(a, 21), _mm256_srli_epi32(b, 5), 0xaa);
    return _mm256_avg_epu16(twice, _mm256_setzero_si256());
}

/* The same for sums that may be outside of 0 to 255; not clipped yet. */
INLINE __m256i join_signed(__m256i a, __m256i b)
{
    __m256i words = _mm256_blend_epi16(_mm256_srli_epi32(a, 16), b, 0xaa);
    return _mm256_srai_epi16(_mm256_adds_epi16(words, _mm256_set1_epi16(32)), 6);
}

/* Store eight values of four rows. */
INLINE void store_rows(const __m256i sum[MR_STRIP_ROWS], bool overshoots, uint8_t *pair0,
                       uint8_t *pair1)
{
    const __m256i zero = _mm256_setzero_si256();
    if (overshoots) {
        __m256i bytes =
            _mm256_packus_epi16(join_signed(sum[0], sum[1]), join_signed(sum[2], sum[3]));
        store256(pair0, _mm256_unpacklo_epi8(bytes, zero));
        store256(pair1, _mm256_unpackhi_epi8(bytes, zero));
    } else {
        store256(pair0, join_rows(sum[0], sum[1]));
        store256(pair1, join_rows(sum[2], sum[3]));
    }
}

INLINE void horizontal_groups(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                              uint8_t *strip, bool joined, uint32_t n_pairs, bool overshoots)
{
    const struct group *group = find_groups(a);
    const struct offsets *offsets = find_offsets(a);
    uint32_t n = n_groups(a);
    uint8_t *pair0 = strip, *pair1 = strip + 4 * a->stride;
    /*
     * Copies the pointers, because the compiler cannot know that a store to strip leaves rows
     * unchanged.
     */
    const uint8_t *const row[MR_STRIP_ROWS] = {rows[0], rows[1], rows[2], rows[3]};
    for (uint32_t g = 0; g < n; g++, group++, offsets++, pair0 += 32, pair1 += 32) {
        __m256i sum[MR_STRIP_ROWS];
        for (uint32_t i = 0; i < MR_STRIP_ROWS; i++)
            sum[i] = sum_groups(group, offsets, n, row[i], joined, n_pairs);
        store_rows(sum, overshoots, pair0, pair1);
    }
}

/* The same for the two halves of one vector. */
INLINE __m128i join_halves(__m256i sum, bool overshoots)
{
    __m128i a = _mm256_castsi256_si128(sum), b = _mm256_extracti128_si256(sum, 1);
    if (overshoots) {
        __m256i words = join_signed(_mm256_castsi128_si256(a), _mm256_castsi128_si256(b));
        return _mm_cvtepu8_epi16(
            _mm_packus_epi16(_mm256_castsi256_si128(words), _mm_setzero_si128()));
    }
    __m128i twice = _mm_blend_epi16(_mm_srli_epi32(a, 21), _mm_srli_epi32(b, 5), 0xaa);
    return _mm_avg_epu16(twice, _mm_setzero_si128());
}

/*
 * Sum one pixel of two rows, one in each half of the vectors: a dword for each channel, of 3 or 4.
 */
INLINE __m256i sum_pixel(const uint8_t *a, const uint8_t *b, int32_t lead, const int16_t *hi,
                         const int16_t *lo, uint32_t n_taps, int channels)
{
    int c = channels, z = -128;
    __m256i from0 = _mm256_broadcastsi128_si256(_mm_setr_epi8(
        0, z, (char)c, z, 1, z, (char)(c + 1), z, 2, z, (char)(c + 2), z, 3, z, (char)(c + 3), z));
    from0 = _mm256_add_epi8(from0, _mm256_set1_epi16((short)lead));
    const __m256i from1 = _mm256_add_epi8(from0, _mm256_set1_epi16((short)(2 * c)));
    __m256i hi_sum = _mm256_setzero_si256(), lo_sum = hi_sum;
    for (uint32_t k = 0; k < n_taps; k += 4, a += 4 * c, b += 4 * c) {
        __m256i bytes = load_halves(a, b);
        __m256i p = _mm256_shuffle_epi8(bytes, from0), q = _mm256_shuffle_epi8(bytes, from1);
        int32_t w[4];
        memcpy(w, hi + k, 8);
        memcpy(w + 2, lo + k, 8);
        hi_sum = _mm256_add_epi32(hi_sum,
                                  _mm256_add_epi32(_mm256_madd_epi16(p, _mm256_set1_epi32(w[0])),
                                                   _mm256_madd_epi16(q, _mm256_set1_epi32(w[1]))));
        lo_sum = _mm256_add_epi32(lo_sum,
                                  _mm256_add_epi32(_mm256_madd_epi16(p, _mm256_set1_epi32(w[2])),
                                                   _mm256_madd_epi16(q, _mm256_set1_epi32(w[3]))));
    }
    return _mm256_add_epi32(_mm256_slli_epi32(hi_sum, 11), lo_sum);
}

/*
 * The same with one channel: the dwords of a half are partial sums, and at the end all four are the
 * sum.
 */
INLINE __m256i sum_gray(const uint8_t *a, const uint8_t *b, const int16_t *hi, const int16_t *lo,
                        uint32_t n_taps)
{
    const __m256i zero = _mm256_setzero_si256();
    __m256i hi_sum = zero, lo_sum = zero;
    for (uint32_t k = 0; k < n_taps; k += 16) {
        __m256i bytes = load_halves(a + k, b + k);
        __m256i p = _mm256_unpacklo_epi8(bytes, zero), q = _mm256_unpackhi_epi8(bytes, zero);
        __m256i hi0 = _mm256_broadcastsi128_si256(load128(hi + k)),
                hi1 = _mm256_broadcastsi128_si256(load128(hi + k + 8));
        __m256i lo0 = _mm256_broadcastsi128_si256(load128(lo + k)),
                lo1 = _mm256_broadcastsi128_si256(load128(lo + k + 8));
        hi_sum = _mm256_add_epi32(
            hi_sum, _mm256_add_epi32(_mm256_madd_epi16(p, hi0), _mm256_madd_epi16(q, hi1)));
        lo_sum = _mm256_add_epi32(
            lo_sum, _mm256_add_epi32(_mm256_madd_epi16(p, lo0), _mm256_madd_epi16(q, lo1)));
    }
    __m256i sum = _mm256_add_epi32(_mm256_slli_epi32(hi_sum, 11), lo_sum);
    sum = _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0xb1));
    return _mm256_add_epi32(sum, _mm256_shuffle_epi32(sum, 0x4e));
}

/*
 * A store of four dwords writes too much; the next store overwrites that, and the last one goes
 * into the strip's slack.
 */
INLINE void horizontal_wide(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                            uint8_t *strip, int channels, bool overshoots)
{
    const struct place *place = find_places(a);
    const int16_t *words = find_wide_words(a);
    uint32_t n_taps = a->n_steps;
    for (uint32_t i = 0; i < a->x->n; i++, place++, words += 2 * (size_t)n_taps) {
        for (uint32_t r = 0; r < MR_STRIP_ROWS; r += 2) {
            const uint8_t *row0 = rows[r] + place->at, *row1 = rows[r + 1] + place->at;
            __m256i sum = channels == 1 ? sum_gray(row0, row1, words, words + n_taps, n_taps)
                                        : sum_pixel(row0, row1, place->lead, words, words + n_taps,
                                                    n_taps, channels);
            uint8_t *out = strip + 4 * (r / 2 * a->stride + (size_t)i * (size_t)channels);
            _mm_storeu_si128((__m128i *)(void *)out, join_halves(sum, overshoots));
        }
    }
}

/* Common numbers of taps as constants, so that the inner loops are unrolled. */
INLINE void horizontal_pairs(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                             uint8_t *strip, bool joined, bool overshoots)
{
    uint32_t n_pairs = (a->x->max_taps + 1) / 2;
    switch (n_pairs) {
    case 2: horizontal_groups(a, rows, strip, joined, 2, overshoots); break;
    case 3: horizontal_groups(a, rows, strip, joined, 3, overshoots); break;
    case 4: horizontal_groups(a, rows, strip, joined, 4, overshoots); break;
    case 5: horizontal_groups(a, rows, strip, joined, 5, overshoots); break;
    case 6: horizontal_groups(a, rows, strip, joined, 6, overshoots); break;
    default: horizontal_groups(a, rows, strip, joined, n_pairs, overshoots); break;
    }
}

INLINE void horizontal_way(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                           uint8_t *strip, bool overshoots)
{
    if (a->way == TWO_TAPS)
        horizontal_groups(a, rows, strip, true, 1, overshoots);
    else if (a->way == QUADS)
        horizontal_pairs(a, rows, strip, true, overshoots);
    else if (a->way == PAIRS)
        horizontal_pairs(a, rows, strip, false, overshoots);
    else if (a->channels == 1)
        horizontal_wide(a, rows, strip, 1, overshoots);
    else if (a->channels == 3)
        horizontal_wide(a, rows, strip, 3, overshoots);
    else
        horizontal_wide(a, rows, strip, 4, overshoots);
}

static void horizontal_avx2(const struct mr_resample_horizontal *a,
                            const uint8_t *const rows[MR_STRIP_ROWS], uint8_t *strip)
{
    if (a->x->overshoots)
        horizontal_way(a, rows, strip, true);
    else
        horizontal_way(a, rows, strip, false);
}

/* ---- Unfiltered rows ---- */

INLINE void put_16(const uint8_t *a, const uint8_t *b, uint8_t *pair)
{
    __m128i first = load128(a), second = load128(b);
    store256(pair, _mm256_cvtepu8_epi16(_mm_unpacklo_epi8(first, second)));
    store256(pair + 32, _mm256_cvtepu8_epi16(_mm_unpackhi_epi8(first, second)));
}

static void put_rows_avx2(const uint8_t *const rows[MR_STRIP_ROWS], uint32_t n, size_t stride,
                          uint8_t *strip)
{
    for (uint32_t r = 0; r < MR_STRIP_ROWS; r += 2, strip += 4 * stride) {
        const uint8_t *a = rows[r], *b = rows[r + 1];
        uint32_t at = 0;
        for (; at + 16 <= n; at += 16)
            put_16(a + at, b + at, strip + 4 * (size_t)at);
        if (at < n) {
            uint8_t rest[2][16] = {0};
            memcpy(rest[0], a + at, n - at);
            memcpy(rest[1], b + at, n - at);
            put_16(rest[0], rest[1], strip + 4 * (size_t)at);
        }
    }
}

/* 32 values of a pair's first or second row. */
INLINE __m256i take_32(const uint8_t *pair, __m128i shift)
{
    const __m256i word = _mm256_set1_epi32(0xffff),
                  in_order = _mm256_setr_epi32(0, 4, 1, 5, 2, 6, 3, 7);
    __m256i value[4];
    for (uint32_t i = 0; i < 4; i++)
        value[i] = _mm256_and_si256(_mm256_srl_epi32(load256(pair + 32 * i), shift), word);
    __m256i a = _mm256_packus_epi32(value[0], value[1]),
            b = _mm256_packus_epi32(value[2], value[3]);
    return _mm256_permutevar8x32_epi32(_mm256_packus_epi16(a, b), in_order);
}

static void take_row_avx2(const uint8_t *strip, size_t stride, uint32_t i, uint32_t n, uint8_t *out)
{
    const uint8_t *pair = strip + i / 2 * 4 * stride;
    __m128i shift = _mm_cvtsi32_si128(i % 2 * 16);
    uint32_t at = 0;
    for (; at + 32 <= n; at += 32)
        store256(out + at, take_32(pair + 4 * (size_t)at, shift));
    if (at < n) {
        uint8_t rest[32];
        store256(rest, take_32(pair + 4 * (size_t)at, shift));
        memcpy(out + at, rest, n - at);
    }
}

const struct mr_kernel_ops mr_kernels_avx2 = {
    .cpu = MR_CPU_AVX2,
    .strip_bytes = 2 * sizeof(int32_t),
    .fill = mr_axis_fill_avx2,
    .horizontal_bytes = horizontal_bytes_avx2,
    .horizontal_make = horizontal_make_avx2,
    .horizontal = horizontal_avx2,
    .put_rows = put_rows_avx2,
    .take_row = take_row_avx2,
    .vertical_bytes = mr_resample_vertical_bytes_avx2,
    .vertical_make = mr_resample_vertical_make_avx2,
    .vertical = mr_resample_vertical_row_avx2,
    .planes = mr_tensor_write_planes_avx2,
    .values = mr_tensor_write_values_avx2,
    .mirror = mr_tensor_write_mirror_avx2,
    .mix_floats = mr_mix_floats_avx2,
    .mix_bytes = mr_mix_bytes_avx2,
    .expand_dct = mr_tile_expand_dct_avx2,
    .idct_blocks = mr_idct_blocks_avx2,
    .xxh3 = mr_xxh3_avx2,
    .encode_dct = mr_tile_encode_dct,
    .scan_clean = mr_scan_clean_c,
    .scan_store = mr_scan_store_avx2,
    .scan_skip = mr_scan_skip_avx2,
    .image = &mr_image_loops_avx2,
};
