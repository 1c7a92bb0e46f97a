/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The horizontal pass for AVX-512, and the set's table. A strip is one row of dwords, each with the
 * bytes of four rows; weights_avx512.h says how weights are multiplied.
 *
 * Invariant: no load reads past its row, so the last loads begin earlier.
 */
#include "transforms/simd/weights_avx512.h"
#include "transforms/simd/kernels_simd.h"

#include <string.h>

/* The ways of a horizontal pass. */
enum {
    TWO_TAPS,   /* words */
    NEAR_TAPS,  /* digits, one load for each of up to four steps */
    FAR_TAPS,   /* two adjacent loads for each step */
    WIDE_PIXELS /* outputs are too far apart for that: one after the other */
};

/*
 * Sixteen values and four taps of each: the position of each byte in the load, and the digits, d2
 * first.
 */
struct group {
    __m512i from;
    __m512i digit[3];
};

/*
 * Wide pixels: where a pixel's loads begin, and how many bytes of each load come before its taps.
 */
struct place {
    int32_t at;
    int32_t lead;
};

#define LOAD_BYTES 64
/* With more steps, neighbours rarely fit into two loads. */
#define MAX_STEPS 4
#define WIDE_LEAD 4

/* ---- Tables ---- */

static uint32_t n_groups(const struct mr_resample_horizontal *a)
{
    return a->x->pitch / 16 * a->channels;
}

/* Wide pixels: the number of taps, a multiple of what one load holds. */
static uint32_t wide_taps(const struct mr_resample_horizontal *a)
{
    uint32_t step = a->channels == 1 ? 16 : 4;
    return (a->x->max_taps + step - 1) & ~(step - 1);
}

static size_t horizontal_bytes_avx512(const struct mr_resample_horizontal *a)
{
    size_t n_steps = (a->x->max_taps + 3) / 4;
    size_t groups =
        n_steps > MAX_STEPS ? 0 : n_steps * n_groups(a) * (sizeof(struct group) + sizeof(int32_t));
    size_t wide = a->x->n * (sizeof(struct place) + 3 * (size_t)wide_taps(a));
    return groups > wide ? groups : wide;
}

static struct group *find_groups(const struct mr_resample_horizontal *a)
{
    return (struct group *)(void *)a->tables;
}

static int32_t *find_offsets(const struct mr_resample_horizontal *a)
{
    return (int32_t *)(void *)(find_groups(a) + (size_t)a->n_steps * n_groups(a));
}

static struct place *find_places(const struct mr_resample_horizontal *a)
{
    return (struct place *)(void *)a->tables;
}

static uint8_t *find_wide_digits(const struct mr_resample_horizontal *a)
{
    return (uint8_t *)(find_places(a) + a->x->n);
}

/* The same for two taps: words hi, lo. */
INLINE void make_words(const int32_t *weight, size_t pitch, __m512i digit[3])
{
    const __m512i low = _mm512_set1_epi32(2047);
    __m512i w0 = _mm512_loadu_si512(weight), w1 = _mm512_loadu_si512(weight + pitch);
    digit[0] = _mm512_or_si512(_mm512_srli_epi32(w0, 11),
                               _mm512_slli_epi32(_mm512_srli_epi32(w1, 11), 16));
    digit[1] = _mm512_or_si512(_mm512_and_si512(w0, low),
                               _mm512_slli_epi32(_mm512_and_si512(w1, low), 16));
    digit[2] = _mm512_setzero_si512();
}

struct making {
    int32_t channels;
    int32_t most; /* last position at which a load may begin */
    /*
     * For the sixteen values of group v: the index of each one's pixel among the block's, and its
     * channel.
     */
    int32_t pixel[4][16];
    int32_t channel[4][16];
};

static void find_channels(struct making *m)
{
    int32_t pixel = 0, channel = 0;
    for (int32_t v = 0; v < m->channels; v++)
        for (int32_t i = 0; i < 16; i++) {
            m->pixel[v][i] = pixel;
            m->channel[v][i] = channel;
            if (++channel == m->channels) {
                channel = 0;
                pixel++;
            }
        }
}

/* Distance from the first to the last byte that four taps of any group read. */
static uint32_t find_reach(const struct making *m, const struct mr_axis *x)
{
    uint32_t most = 0;
    for (uint32_t at = 0; at < x->pitch; at += 16)
        for (int32_t v = 0; v < m->channels; v++) {
            uint32_t one = x->start[at + (uint32_t)m->pixel[v][0]],
                     other = x->start[at + (uint32_t)m->pixel[v][15]];
            uint32_t apart = one < other ? other - one : one - other;
            most = apart > most ? apart : most;
        }
    return (most + (x->max_taps < 4 ? x->max_taps : 4)) * (uint32_t)m->channels;
}

/* Where the load for taps `tap` to tap + 3 of outputs first to last begins. */
INLINE int32_t place_load(const struct making *m, const struct mr_axis *x, uint32_t first,
                          uint32_t last, int32_t tap)
{
    int32_t one = (int32_t)x->start[first], other = (int32_t)x->start[last];
    int32_t at = m->channels * ((one < other ? one : other) + tap);
    return at < m->most ? at : m->most;
}

/* Make the groups of sixteen pixels from x on, for taps 4 * step to 4 * step + 3. */
INLINE void make_block(const struct making *m, const struct mr_axis *axis, uint32_t x,
                       uint32_t step, bool words, struct group *group, int32_t *offset)
{
    const __m512i low_byte = _mm512_set4_epi32(0x0c0c0c0c, 0x08080808, 0x04040404, 0);
    int32_t channels = m->channels, tap = (int32_t)step * 4;
    const __m512i taps = _mm512_set1_epi32(
        words ? channels << 16 : (3 * channels) << 24 | (2 * channels) << 16 | channels << 8);
    const int32_t *weight = axis->weight + (size_t)step * 4 * axis->pitch + x;
    __m512i digit[3];
    if (words)
        make_words(weight, axis->pitch, digit);
    else
        make_digits(weight, axis->pitch, digit);
    __m512i start =
        _mm512_mullo_epi32(_mm512_loadu_si512(axis->start + x), _mm512_set1_epi32(channels));
    for (int32_t v = 0; v < channels; v++, group++, offset++) {
        __m512i pixel = _mm512_loadu_si512(m->pixel[v]),
                channel = _mm512_loadu_si512(m->channel[v]);
        for (int i = 0; i < 3; i++)
            group->digit[i] = _mm512_permutexvar_epi32(pixel, digit[i]);
        *offset =
            place_load(m, axis, x + (uint32_t)m->pixel[v][0], x + (uint32_t)m->pixel[v][15], tap);
        __m512i at = _mm512_add_epi32(_mm512_permutexvar_epi32(pixel, start), channel);
        at = _mm512_add_epi32(at, _mm512_set1_epi32(channels * tap - *offset));
        group->from = _mm512_add_epi8(_mm512_shuffle_epi8(at, low_byte), taps);
    }
}

static void make_groups(const struct mr_resample_horizontal *a, const struct making *making)
{
    const struct mr_axis *x = a->x;
    struct group *group = find_groups(a);
    int32_t *offset = find_offsets(a);
    for (uint32_t step = 0; step < a->n_steps; step++)
        for (uint32_t at = 0; at < x->pitch; at += 16, group += a->channels, offset += a->channels)
            make_block(making, x, at, step, a->way == TWO_TAPS, group, offset);
}

/* Write the digits of one pixel's taps, with `before` zeros before them. */
static void make_pixel(const struct mr_axis *x, uint32_t i, uint32_t before, uint32_t n_taps,
                       uint8_t *digits)
{
    for (uint32_t k = 0; k < n_taps; k++) {
        uint32_t tap = k - before; /* wraps to a huge number before the first tap */
        uint32_t w = tap < x->max_taps ? (uint32_t)x->weight[(size_t)tap * x->pitch + i] : 0;
        w = (w + 0x8080) ^ 0x8080;
        digits[k] = (uint8_t)(w >> 16);
        digits[n_taps + k] = (uint8_t)(w >> 8);
        digits[2 * n_taps + k] = (uint8_t)w;
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
    uint8_t *digits = find_wide_digits(a);
    for (uint32_t i = 0; i < x->n; i++, digits += 3 * (size_t)n_taps) {
        uint32_t start = x->start[i] < last ? x->start[i] : last;
        uint32_t lead = (start + n_taps) * a->channels + more > a->row_bytes ? more : 0;
        place[i] = (struct place){(int32_t)(start * a->channels - lead), (int32_t)lead};
        make_pixel(x, i, x->start[i] - start, n_taps, digits);
    }
    a->way = WIDE_PIXELS;
    a->n_steps = n_taps;
}

static void horizontal_make_avx512(struct mr_resample_horizontal *a)
{
    struct making making = {.channels = (int32_t)a->channels};
    find_channels(&making);
    uint32_t reach = find_reach(&making, a->x), n_taps = a->x->max_taps;
    a->n_steps = (n_taps + 3) / 4;
    if (a->n_steps > MAX_STEPS || reach > 2 * LOAD_BYTES) {
        make_wide(a);
        return;
    }
    bool far = reach > LOAD_BYTES;
    a->way = far ? FAR_TAPS : n_taps <= 2 && !a->x->overshoots ? TWO_TAPS : NEAR_TAPS;
    uint32_t least = far ? 2 * LOAD_BYTES : LOAD_BYTES;
    if (a->row_bytes < least)
        a->row_bytes = least;
    making.most = (int32_t)(a->row_bytes - least);
    make_groups(a, &making);
}

/* ---- The horizontal pass ---- */

INLINE __m512i pick_bytes(const uint8_t *at, __m512i from, bool far)
{
    __m512i bytes = _mm512_loadu_si512(at);
    return far ? _mm512_permutex2var_epi8(bytes, from, _mm512_loadu_si512(at + LOAD_BYTES))
               : _mm512_permutexvar_epi8(from, bytes);
}

/* Sum sixteen values of one row, not shifted yet. */
INLINE __m512i sum_group(const struct group *const *group, const int32_t *offset,
                         const uint8_t *row, uint32_t n_steps, bool far)
{
    __m512i bytes[MAX_STEPS], sum = _mm512_set1_epi32(32);
    for (uint32_t k = 0; k < n_steps; k++)
        bytes[k] = pick_bytes(row + offset[k], group[k]->from, far);
    for (uint32_t i = 0; i < 3; i++) {
        if (i > 0)
            sum = _mm512_slli_epi32(sum, 8);
        for (uint32_t k = 0; k < n_steps; k++)
            sum = _mm512_dpbusd_epi32(sum, bytes[k], group[k]->digit[i]);
    }
    return sum;
}

INLINE __m512i sum_two_taps(const struct group *group, int32_t offset, const uint8_t *row)
{
    const __mmask64 words = 0x5555555555555555u;
    __m512i bytes =
        _mm512_maskz_permutexvar_epi8(words, group->from, _mm512_loadu_si512(row + offset));
    return sum_words(bytes, group->digit[0], group->digit[1]);
}

/* Join the sums of four rows into dwords of four bytes. */
INLINE __m512i join_sums(const __m512i sum[MR_STRIP_ROWS], bool overshoots)
{
    const __m512i by_value = _mm512_set4_epi32(0x0f0b0703, 0x0e0a0602, 0x0d090501, 0x0c080400);
    if (overshoots)
        return _mm512_shuffle_epi8(clip_sums(sum[0], sum[1], sum[2], sum[3]), by_value);
    return join_rows(sum[0], sum[1], sum[2], sum[3]);
}

/* n_steps 0 means two taps. */
INLINE void horizontal_groups(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                              uint8_t *strip, uint32_t n_steps, bool far, bool overshoots)
{
    const struct group *groups = find_groups(a);
    const int32_t *offsets = find_offsets(a);
    uint32_t n = n_groups(a);
    /*
     * Copies the pointers, because the compiler cannot know that a store to strip leaves rows
     * unchanged.
     */
    const uint8_t *const row[MR_STRIP_ROWS] = {rows[0], rows[1], rows[2], rows[3]};
    for (uint32_t g = 0; g < n; g++) {
        const struct group *group[MAX_STEPS];
        int32_t offset[MAX_STEPS];
        for (uint32_t k = 0; k < n_steps; k++) {
            group[k] = groups + (size_t)k * n + g;
            offset[k] = offsets[(size_t)k * n + g];
        }
        __m512i sum[MR_STRIP_ROWS];
        for (uint32_t i = 0; i < MR_STRIP_ROWS; i++)
            sum[i] = n_steps == 0 ? sum_two_taps(groups + g, offsets[g], row[i])
                                  : sum_group(group, offset, row[i], n_steps, far);
        _mm512_storeu_si512(strip + 64 * (size_t)g, join_sums(sum, overshoots));
    }
}

/* Numbers of steps as constants, so that the inner loops are unrolled. */
INLINE void horizontal_steps(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                             uint8_t *strip, bool far, bool overshoots)
{
    switch (a->n_steps) {
    case 2: horizontal_groups(a, rows, strip, 2, far, overshoots); break;
    case 3: horizontal_groups(a, rows, strip, 3, far, overshoots); break;
    case 4: horizontal_groups(a, rows, strip, 4, far, overshoots); break;
    default: horizontal_groups(a, rows, strip, 1, far, overshoots); break;
    }
}

INLINE __m512i load_quarters(const uint8_t *const *rows, size_t at)
{
    __m512i v =
        _mm512_castsi128_si512(_mm_loadu_si128((const __m128i *)(const void *)(rows[0] + at)));
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows[1] + at)), 1);
    v = _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows[2] + at)), 2);
    return _mm512_inserti32x4(v, _mm_loadu_si128((const __m128i *)(const void *)(rows[3] + at)), 3);
}

/* One digit of four taps of a pixel, or, with one channel, of sixteen taps. */
INLINE __m512i load_digit(const uint8_t *digits, int channels)
{
    int32_t four;
    if (channels == 1)
        return _mm512_broadcast_i32x4(_mm_loadu_si128((const __m128i *)(const void *)digits));
    memcpy(&four, digits, sizeof four);
    return _mm512_set1_epi32(four);
}

/*
 * Sum one pixel of four rows, one in each quarter of the vectors: a dword for each channel; with
 * one channel, in the first dword.
 */
INLINE __m512i sum_pixel(const uint8_t *const *rows, struct place place, const uint8_t *digits,
                         uint32_t n_taps, int channels, bool overshoots)
{
    char c = (char)channels, c2 = (char)(2 * channels), c3 = (char)(3 * channels);
    __m512i from = _mm512_broadcast_i32x4(_mm_setr_epi8(
        0, c, c2, c3, 1, (char)(c + 1), (char)(c2 + 1), (char)(c3 + 1), 2, (char)(c + 2),
        (char)(c2 + 2), (char)(c3 + 2), 3, (char)(c + 3), (char)(c2 + 3), (char)(c3 + 3)));
    from = _mm512_add_epi8(from, _mm512_set1_epi8((char)place.lead));
    __m512i sum2 = _mm512_setzero_si512(), sum1 = sum2, sum0 = sum2;
    uint32_t taps = channels == 1 ? 16 : 4;
    size_t at = (size_t)place.at;
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
    sum = _mm512_add_epi32(sum, _mm512_set1_epi32(1 << 21));
    if (!overshoots)
        return _mm512_srli_epi32(sum, 22);
    sum = _mm512_max_epi32(_mm512_srai_epi32(sum, 22), _mm512_setzero_si512());
    return _mm512_min_epi32(sum, _mm512_set1_epi32(255));
}

/*
 * A store of four dwords writes too much; the next store overwrites that, and the last one goes
 * into the strip's slack.
 */
INLINE void horizontal_wide(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                            uint8_t *strip, int channels, bool overshoots)
{
    const __m512i by_value = _mm512_castsi128_si512(
        _mm_setr_epi8(0, 16, 32, 48, 4, 20, 36, 52, 8, 24, 40, 56, 12, 28, 44, 60));
    const struct place *place = find_places(a);
    const uint8_t *digits = find_wide_digits(a);
    uint32_t n_taps = a->n_steps;
    for (uint32_t i = 0; i < a->x->n; i++, digits += 3 * (size_t)n_taps) {
        __m512i sum = _mm512_permutexvar_epi8(
            by_value, sum_pixel(rows, place[i], digits, n_taps, channels, overshoots));
        uint8_t *out = strip + 4 * (size_t)i * (size_t)channels;
        _mm_storeu_si128((__m128i *)(void *)out, _mm512_castsi512_si128(sum));
    }
}

INLINE void horizontal_way(const struct mr_resample_horizontal *a, const uint8_t *const *rows,
                           uint8_t *strip, bool overshoots)
{
    switch (a->way) {
    case TWO_TAPS: horizontal_groups(a, rows, strip, 0, false, false); break;
    case NEAR_TAPS: horizontal_steps(a, rows, strip, false, overshoots); break;
    case FAR_TAPS: horizontal_steps(a, rows, strip, true, overshoots); break;
    default:
        if (a->channels == 1)
            horizontal_wide(a, rows, strip, 1, overshoots);
        else if (a->channels == 3)
            horizontal_wide(a, rows, strip, 3, overshoots);
        else
            horizontal_wide(a, rows, strip, 4, overshoots);
    }
}

static void horizontal_avx512(const struct mr_resample_horizontal *a,
                              const uint8_t *const rows[MR_STRIP_ROWS], uint8_t *strip)
{
    if (a->x->overshoots)
        horizontal_way(a, rows, strip, true);
    else
        horizontal_way(a, rows, strip, false);
}

/* ---- Unfiltered rows ---- */

/* Dwords 0, 4, 8, 12, then 1, 5, ...: unpacking the quarters then puts them in order. */
INLINE __m512i load_turned(const uint8_t *row, __mmask64 bytes)
{
    const __m512i turn = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    return _mm512_permutexvar_epi32(turn, _mm512_maskz_loadu_epi8(bytes, row));
}

static void put_rows_avx512(const uint8_t *const rows[MR_STRIP_ROWS], uint32_t n, size_t stride,
                            uint8_t *strip)
{
    (void)stride;
    for (uint32_t at = 0; at < n; at += 64, strip += 256) {
        __mmask64 bytes = first_bytes(n - at);
        __m512i row0 = load_turned(rows[0] + at, bytes), row1 = load_turned(rows[1] + at, bytes);
        __m512i row2 = load_turned(rows[2] + at, bytes), row3 = load_turned(rows[3] + at, bytes);
        __m512i a = _mm512_unpacklo_epi8(row0, row1), b = _mm512_unpackhi_epi8(row0, row1);
        __m512i c = _mm512_unpacklo_epi8(row2, row3), d = _mm512_unpackhi_epi8(row2, row3);
        _mm512_storeu_si512(strip, _mm512_unpacklo_epi16(a, c));
        _mm512_storeu_si512(strip + 64, _mm512_unpackhi_epi16(a, c));
        _mm512_storeu_si512(strip + 128, _mm512_unpacklo_epi16(b, d));
        _mm512_storeu_si512(strip + 192, _mm512_unpackhi_epi16(b, d));
    }
}

/*
 * One byte of each dword of a strip: 32 bytes of two vectors, and the same again in the upper half.
 */
static void take_row_avx512(const uint8_t *strip, size_t stride, uint32_t i, uint32_t n,
                            uint8_t *out)
{
    (void)stride;
    const __m512i first = _mm512_set_epi8(
        124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84, 80, 76, 72, 68, 64, 60, 56, 52, 48, 44,
        40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0, 124, 120, 116, 112, 108, 104, 100, 96, 92, 88, 84,
        80, 76, 72, 68, 64, 60, 56, 52, 48, 44, 40, 36, 32, 28, 24, 20, 16, 12, 8, 4, 0);
    const __m512i from = _mm512_add_epi8(first, _mm512_set1_epi8((char)i));
    for (uint32_t at = 0; at < n; at += 64, strip += 256) {
        __m512i low = _mm512_permutex2var_epi8(_mm512_loadu_si512(strip), from,
                                               _mm512_loadu_si512(strip + 64));
        __m512i high = _mm512_permutex2var_epi8(_mm512_loadu_si512(strip + 128), from,
                                                _mm512_loadu_si512(strip + 192));
        __m512i bytes = _mm512_mask_blend_epi64(0xf0, low, high);
        if (n - at >= 64)
            _mm512_storeu_si512(out + at, bytes);
        else
            _mm512_mask_storeu_epi8(out + at, first_bytes(n - at), bytes);
    }
}

const struct mr_kernel_ops mr_kernels_avx512 = {
    .cpu = MR_CPU_AVX512,
    .strip_bytes = sizeof(int32_t),
    .fill = mr_axis_fill_avx512,
    .horizontal_bytes = horizontal_bytes_avx512,
    .horizontal_make = horizontal_make_avx512,
    .horizontal = horizontal_avx512,
    .put_rows = put_rows_avx512,
    .take_row = take_row_avx512,
    .vertical_bytes = mr_resample_vertical_bytes_avx512,
    .vertical_make = mr_resample_vertical_make_avx512,
    .vertical = mr_resample_vertical_row_avx512,
    .planes = mr_tensor_write_planes_avx512,
    .values = mr_tensor_write_values_avx512,
    .mirror = mr_tensor_write_mirror_avx512,
    .mix_floats = mr_mix_floats_avx512,
    .mix_bytes = mr_mix_bytes_avx512,
    .expand_dct = mr_tile_expand_dct_avx512,
    .idct_blocks = mr_idct_blocks_avx512,
    .xxh3 = mr_xxh3_avx2,
    .encode_dct = mr_tile_encode_dct_avx512,
    .scan_clean = mr_scan_clean_c,
    .scan_store = mr_scan_store_avx2,
    .scan_skip = mr_scan_skip_avx2,
    .image = &mr_image_loops_avx512,
};
