/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the image operations for AVX2. Pixels are dwords, eight at a time; where fewer than ten are left, which
 * a load could overrun, they are copied to memory of their own.
 */
#include "transforms/simd/image_loops.h"
#include "transforms/simd/simd_avx2.h"

#include <string.h>

#define PIXELS 8

struct rgb {
    __m256i r, g, b;
};

/* A dword of each pixel, red in the lowest byte. Reads 28 bytes. */
INLINE __m256i load_dwords(const uint8_t *from)
{
    const __m256i spread =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 1, 2, -1, 3, 4, 5, -1, 6, 7, 8, -1, 9, 10, 11, -1));
    return _mm256_shuffle_epi8(load_halves(from, from + 12), spread);
}

INLINE struct rgb split_dwords(__m256i v)
{
    const __m256i low = _mm256_set1_epi32(255);
    return (struct rgb){_mm256_and_si256(v, low), _mm256_and_si256(_mm256_srli_epi32(v, 8), low),
                        _mm256_srli_epi32(v, 16)};
}

/* The first 12 bytes of both halves. */
INLINE void store_triples(uint8_t *to, __m256i v)
{
    v = _mm256_permutevar8x32_epi32(v, _mm256_setr_epi32(0, 1, 2, 4, 5, 6, 7, 7));
    _mm_storeu_si128((void *)to, _mm256_castsi256_si128(v));
    _mm_storel_epi64((void *)(to + 16), _mm256_extracti128_si256(v, 1));
}

/* Values become 0 to 255 by saturation. Of four pixels, four reds, four greens and four blues are packed together. */
INLINE void store_pixels(uint8_t *to, __m256i r, __m256i g, __m256i b)
{
    const __m256i order =
        _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11, -1, -1, -1, -1));
    __m256i v = _mm256_packus_epi16(_mm256_packs_epi32(r, g), _mm256_packs_epi32(b, b));
    store_triples(to, _mm256_shuffle_epi8(v, order));
}

/* Red and blue of a dword with their weights; green twice with half of its own, which has 16 bits. */
INLINE __m256i find_gray(__m256i v)
{
    __m256i red_blue = _mm256_and_si256(v, _mm256_set1_epi32(0xff00ff));
    __m256i green = _mm256_and_si256(_mm256_srli_epi32(v, 7), _mm256_set1_epi32(0x1fe));
    __m256i sum = _mm256_madd_epi16(red_blue, _mm256_set1_epi32(7471 << 16 | 19595));
    sum = _mm256_add_epi32(sum, _mm256_madd_epi16(green, _mm256_set1_epi32(38470 / 2)));
    return _mm256_srli_epi32(_mm256_add_epi32(sum, _mm256_set1_epi32(0x8000)), 16);
}

static uint64_t sum_gray(const uint8_t *pixels, size_t n)
{
    __m256i sums = _mm256_setzero_si256();
    size_t i = 0;
    for (; n - i >= PIXELS + 2; i += PIXELS) {
        __m256i gray = find_gray(load_dwords(pixels + 3 * i));
        sums = _mm256_add_epi64(sums, _mm256_sad_epu8(gray, _mm256_setzero_si256()));
    }
    uint64_t parts[4];
    store256(parts, sums);
    return parts[0] + parts[1] + parts[2] + parts[3] + mr_image_loops_c.sum_gray(pixels + 3 * i, n - i);
}

INLINE void store_gray(uint32_t step, __m256i gray, uint8_t *out)
{
    if (step == 3) {
        const __m256i thrice =
            _mm256_broadcastsi128_si256(_mm_setr_epi8(0, 0, 0, 4, 4, 4, 8, 8, 8, 12, 12, 12, -1, -1, -1, -1));
        store_triples(out, _mm256_shuffle_epi8(gray, thrice));
    } else {
        __m128i words = _mm_packus_epi32(_mm256_castsi256_si128(gray), _mm256_extracti128_si256(gray, 1));
        _mm_storel_epi64((void *)out, _mm_packus_epi16(words, words));
    }
}

static void make_gray(uint32_t step, const uint8_t *pixels, size_t n, uint8_t *out)
{
    size_t i = 0;
    for (; n - i >= PIXELS + 2; i += PIXELS)
        store_gray(step, find_gray(load_dwords(pixels + 3 * i)), out + step * i);
    mr_image_loops_c.gray(step, pixels + 3 * i, n - i, out + step * i);
}

/* Eight pixels, or n of them in memory of their own. */
#define FOR_PIXELS(function, argument, pixels, n)                                                                      \
    for (size_t i = 0; i < (n); i += PIXELS) {                                                                         \
        uint8_t *at = (pixels) + 3 * i;                                                                                \
        if ((n)-i >= PIXELS + 2) {                                                                                     \
            function(argument, at);                                                                                    \
        } else {                                                                                                       \
            uint8_t copy[32] = {0};                                                                                    \
            size_t len = 3 * ((n)-i < PIXELS ? (n)-i : PIXELS);                                                        \
            memcpy(copy, at, len);                                                                                     \
            function(argument, copy);                                                                                  \
            memcpy(at, copy, len);                                                                                     \
        }                                                                                                              \
    }

/* from + factor * (to - from), not clipped; `fused` would round once where Pillow rounds twice. */
INLINE __m256i blend_dwords(__m256 factor, __m256i from, __m256i difference)
{
    __m256 product = _mm256_mul_ps(factor, _mm256_cvtepi32_ps(difference));
    return _mm256_cvttps_epi32(_mm256_add_ps(_mm256_cvtepi32_ps(from), product));
}

INLINE void saturate_pixels(__m256 factor, uint8_t *at)
{
    __m256i v = load_dwords(at), gray = find_gray(v);
    struct rgb p = split_dwords(v);
    store_pixels(at, blend_dwords(factor, gray, _mm256_sub_epi32(p.r, gray)),
                 blend_dwords(factor, gray, _mm256_sub_epi32(p.g, gray)),
                 blend_dwords(factor, gray, _mm256_sub_epi32(p.b, gray)));
}

static void saturate(float factor, uint8_t *pixels,
                     size_t n){FOR_PIXELS(saturate_pixels, _mm256_set1_ps(factor), pixels, n)}

/* The hue in bytes; spread is not 0. */
INLINE __m256i find_hue(struct rgb p, __m256i largest, __m256i smallest, __m256i spread)
{
    const __m256i one = _mm256_set1_epi32(1), three = _mm256_set1_epi32(3), five = _mm256_set1_epi32(5);
    const __m256 sixth = _mm256_set1_ps(1.0f / 6.0f), last = _mm256_set1_ps(255.0f);
    __m256i middle =
        _mm256_xor_si256(_mm256_xor_si256(p.r, p.g), _mm256_xor_si256(p.b, _mm256_xor_si256(largest, smallest)));
    __m256i r_first = _mm256_cmpeq_epi32(p.r, largest), g_first = _mm256_cmpeq_epi32(p.g, largest);
    __m256i b_last = _mm256_cmpeq_epi32(p.b, smallest), g_last = _mm256_cmpeq_epi32(p.g, smallest);
    /* base + x or base - x, as plain C has it */
    __m256i of_b = _mm256_blendv_epi8(three, five, g_last), of_g = _mm256_blendv_epi8(three, one, b_last);
    __m256i of_r = _mm256_blendv_epi8(_mm256_set1_epi32(-1), one, b_last);
    __m256i base = _mm256_blendv_epi8(_mm256_blendv_epi8(of_b, of_g, g_first), of_r, r_first);
    __m256i minus_g = _mm256_xor_si256(b_last, _mm256_set1_epi32(-1));
    __m256i minus = _mm256_blendv_epi8(_mm256_blendv_epi8(g_last, minus_g, g_first), b_last, r_first);
    __m256 x = _mm256_div_ps(_mm256_cvtepi32_ps(_mm256_sub_epi32(largest, middle)), _mm256_cvtepi32_ps(spread));
    x = _mm256_xor_ps(x, _mm256_and_ps(_mm256_castsi256_ps(minus), _mm256_set1_ps(-0.0f)));
    __m256 sixths = _mm256_add_ps(_mm256_cvtepi32_ps(base), x);
    /* sixths / 6, correctly rounded */
    __m256 turn = _mm256_mul_ps(sixths, sixth);
    turn = fused(fused(_mm256_set1_ps(-6.0f), turn, sixths), sixth, turn);
    __m256 below = _mm256_cmp_ps(turn, _mm256_setzero_ps(), _CMP_LT_OQ);
    turn = _mm256_add_ps(turn, _mm256_and_ps(below, _mm256_set1_ps(1.0f)));
    /* the exact product with 255, cut: one less where rounding has reached the next integer */
    __m256i hue = _mm256_cvttps_epi32(_mm256_mul_ps(turn, last));
    __m256 rest = fused(turn, last, _mm256_sub_ps(_mm256_setzero_ps(), _mm256_cvtepi32_ps(hue)));
    return _mm256_add_epi32(hue, _mm256_castps_si256(_mm256_cmp_ps(rest, _mm256_setzero_ps(), _CMP_LT_OQ)));
}

INLINE __m256 absolute(__m256 v)
{
    return _mm256_andnot_ps(_mm256_set1_ps(-0.0f), v);
}

/* largest - round(product * weight), the weight clipped to 0 to 255 */
INLINE __m256i take_weight(__m256i largest, __m256 product, __m256 weight)
{
    weight = _mm256_max_ps(_mm256_setzero_ps(), _mm256_min_ps(_mm256_set1_ps(255.0f), weight));
    return _mm256_sub_epi32(largest, _mm256_cvttps_epi32(fused(product, weight, _mm256_set1_ps(0.5f))));
}

INLINE void shift_pixels(__m256i shift, uint8_t *at)
{
    const __m256i one = _mm256_set1_epi32(1), low = _mm256_set1_epi32(255);
    const __m256 last = _mm256_set1_ps(255.0f);
    struct rgb p = split_dwords(load_dwords(at));
    __m256i largest = _mm256_max_epi32(_mm256_max_epi32(p.r, p.g), p.b);
    __m256i smallest = _mm256_min_epi32(_mm256_min_epi32(p.r, p.g), p.b);
    __m256i spread = _mm256_sub_epi32(largest, smallest);
    __m256i hue = find_hue(p, largest, smallest, _mm256_max_epi32(spread, one));
    hue = _mm256_and_si256(_mm256_add_epi32(hue, shift), low);
    /* V * S / 65025; a quotient that is no integer lies further from one than rounding moves it */
    __m256 share = _mm256_div_ps(_mm256_cvtepi32_ps(_mm256_mullo_epi32(spread, low)),
                                 _mm256_cvtepi32_ps(_mm256_max_epi32(largest, one)));
    __m256 product = _mm256_mul_ps(_mm256_cvtepi32_ps(largest), _mm256_cvtepi32_ps(_mm256_cvttps_epi32(share)));
    product = _mm256_mul_ps(product, _mm256_set1_ps(1.0f / 65025.0f));
    __m256 turn = _mm256_mul_ps(_mm256_cvtepi32_ps(hue), _mm256_set1_ps(6.0f));
    __m256 r = _mm256_sub_ps(_mm256_set1_ps(510.0f), absolute(_mm256_sub_ps(turn, _mm256_set1_ps(765.0f))));
    __m256 g = _mm256_sub_ps(absolute(_mm256_sub_ps(turn, _mm256_set1_ps(510.0f))), last);
    __m256 b = _mm256_sub_ps(absolute(_mm256_sub_ps(turn, _mm256_set1_ps(1020.0f))), last);
    store_pixels(at, take_weight(largest, product, r), take_weight(largest, product, g),
                 take_weight(largest, product, b));
}

static void shift_hue(const struct mr_hue_shift *shift, uint8_t *pixels,
                      size_t n){FOR_PIXELS(shift_pixels, _mm256_set1_epi32((int)shift->shift), pixels, n)}

INLINE __m256i load_words(const uint8_t *from)
{
    return _mm256_cvtepu8_epi16(load128(from));
}

INLINE void store_bytes(uint8_t *to, __m256i words)
{
    _mm_storeu_si128((void *)to, _mm_packus_epi16(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
}

INLINE __m256i sum_three(const uint8_t *at, size_t stride)
{
    return _mm256_add_epi16(_mm256_add_epi16(load_words(at - stride), load_words(at)), load_words(at + stride));
}

/* (sum + 6) / 13 is exact as a multiplication up to 3315. */
INLINE void sharpen_values(__m256 factor, uint32_t step, size_t stride, const uint8_t *at, uint8_t *out)
{
    __m256i centre = load_words(at);
    __m256i sum = _mm256_add_epi16(_mm256_add_epi16(sum_three(at - step, stride), sum_three(at, stride)),
                                   _mm256_add_epi16(sum_three(at + step, stride), _mm256_slli_epi16(centre, 2)));
    __m256i smooth = _mm256_mulhi_epu16(_mm256_add_epi16(sum, _mm256_set1_epi16(6)), _mm256_set1_epi16(5042));
    __m256i difference = _mm256_sub_epi16(centre, smooth), zero = _mm256_setzero_si256();
    __m256i low = blend_dwords(factor, _mm256_unpacklo_epi16(smooth, zero),
                               _mm256_srai_epi32(_mm256_unpacklo_epi16(zero, difference), 16));
    __m256i high = blend_dwords(factor, _mm256_unpackhi_epi16(smooth, zero),
                                _mm256_srai_epi32(_mm256_unpackhi_epi16(zero, difference), 16));
    store_bytes(out, _mm256_packs_epi32(low, high));
}

static void sharpen(float factor, uint32_t step, size_t len, size_t stride, const uint8_t *row, uint8_t *out)
{
    if (len < 2 * (size_t)step + 16) {
        mr_image_loops_sharpen(factor, step, len, stride, row, out);
        return;
    }
    __m256 factors = _mm256_set1_ps(factor);
    size_t end = len - step - 16; /* the last ones, some of them twice */
    for (size_t i = step; i < end; i += 16)
        sharpen_values(factors, step, stride, row + i, out + i);
    sharpen_values(factors, step, stride, row + end, out + end);
}

/* A box's weights as two halves of 12 bits, in pairs for vpmaddwd. */
struct box_weights {
    __m256i low, high;
};

INLINE struct box_weights split_weights(const struct mr_box_blur *box)
{
    return (struct box_weights){_mm256_set1_epi32((int)((box->whole & 4095) | (box->part & 4095) << 16)),
                                _mm256_set1_epi32((int)((box->whole >> 12) | (box->part >> 12) << 16))};
}

INLINE __m256i weigh_pairs(const struct box_weights *w, __m256i pairs)
{
    __m256i low = _mm256_add_epi32(_mm256_madd_epi16(pairs, w->low), _mm256_set1_epi32(1 << 23));
    __m256i sum = _mm256_add_epi32(_mm256_madd_epi16(pairs, w->high), _mm256_srli_epi32(low, 12));
    return _mm256_srli_epi32(sum, 12);
}

/* (sum * whole + ends * part + 2^23) >> 24; sums are below 2^15. */
INLINE void store_box(const struct box_weights *w, __m256i sum, __m256i ends, uint8_t *to)
{
    __m256i low = weigh_pairs(w, _mm256_unpacklo_epi16(sum, ends));
    __m256i high = weigh_pairs(w, _mm256_unpackhi_epi16(sum, ends));
    store_bytes(to, _mm256_packus_epi32(low, high));
}

/* Sums of all bytes of a box anew for each value: up to here that is faster than plain C's running sums. */
#define MAX_ROW_REACH 12
#define MAX_COLUMN_REACH 63

static void box_row(const struct mr_box_blur *box, uint32_t step, uint32_t n, const uint8_t *row, uint8_t *out)
{
    const uint32_t reach = box->reach, margin = (reach + 1) * step, len = n * step;
    if (reach > MAX_ROW_REACH || len < 2 * margin + 16) {
        mr_image_loops_box_row(box, step, n, row, out);
        return;
    }
    /* Both ends are those of shorter rows. */
    uint8_t ends[3 * (2 * MAX_ROW_REACH + 3)];
    mr_image_loops_box_row(box, step, 2 * reach + 2, row, ends);
    memcpy(out, ends, margin);
    mr_image_loops_box_row(box, step, 2 * reach + 2, row + len - 2 * margin, ends);
    memcpy(out + len - margin, ends + margin, margin);
    struct box_weights w = split_weights(box);
    for (uint32_t i = margin; i < len - margin; i += 16) {
        i = i < len - margin - 16 ? i : len - margin - 16;
        const uint8_t *at = row + i;
        __m256i sum = load_words(at);
        for (uint32_t k = step; k <= reach * step; k += step)
            sum = _mm256_add_epi16(sum, _mm256_add_epi16(load_words(at - k), load_words(at + k)));
        store_box(&w, sum, _mm256_add_epi16(load_words(at - margin), load_words(at + margin)), out + i);
    }
}

/* 16 columns. */
INLINE void box_strip(const struct mr_box_blur *box, int64_t n, const uint8_t *from, size_t from_stride, uint8_t *to,
                      size_t to_stride)
{
    struct box_weights w = split_weights(box);
    const int64_t reach = box->reach, last = n - 1;
    __m256i sum = _mm256_setzero_si256();
    for (int64_t k = -reach; k <= reach; k++)
        sum = _mm256_add_epi16(sum, load_words(from + from_stride * (size_t)(k < 0 ? 0 : k > last ? last : k)));
    for (int64_t i = 0; i < n; i++, to += to_stride) {
        int64_t first = i - reach, next = i + reach + 1;
        __m256i before = load_words(from + from_stride * (size_t)(first > 0 ? first - 1 : 0));
        __m256i leaves = load_words(from + from_stride * (size_t)(first > 0 ? first : 0));
        __m256i enters = load_words(from + from_stride * (size_t)(next < last ? next : last));
        store_box(&w, sum, _mm256_add_epi16(before, enters), to);
        sum = _mm256_add_epi16(sum, _mm256_sub_epi16(enters, leaves));
    }
}

static void box_columns(const struct mr_box_blur *box, uint32_t n, size_t len, const uint8_t *from, size_t from_stride,
                        uint8_t *to, size_t to_stride)
{
    if (box->reach > MAX_COLUMN_REACH || len < 16) {
        mr_image_loops_box_columns(box, n, len, from, from_stride, to, to_stride);
        return;
    }
    for (size_t i = 0; i < len; i += 16) {
        i = i < len - 16 ? i : len - 16;
        box_strip(box, n, from + i, from_stride, to + i, to_stride);
    }
}

INLINE __m256i taps_part(__m256i words, uint16_t weight)
{
    return _mm256_mulhi_epu16(words, _mm256_set1_epi16((short)weight));
}

static void taps_row(const struct mr_taps *taps, uint32_t step, const uint8_t *bytes, uint16_t *words)
{
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i += 16) {
        const uint8_t *at = bytes + i;
        __m256i sum = taps_part(_mm256_slli_epi16(load_words(at), MR_TAPS_POINT), taps->weight[0]);
        sum = _mm256_add_epi16(sum, _mm256_set1_epi16((short)taps->bias));
        for (uint32_t k = 1; k <= taps->reach; k++) {
            __m256i pair = _mm256_add_epi16(load_words(at - (size_t)k * step), load_words(at + (size_t)k * step));
            sum = _mm256_add_epi16(sum, taps_part(_mm256_slli_epi16(pair, MR_TAPS_POINT), taps->weight[k]));
        }
        store256(words + i, sum);
    }
}

static void taps_columns(const struct mr_taps *taps, const uint16_t *const *rows, uint8_t *bytes)
{
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i += 16) {
        __m256i sum = taps_part(load256(rows[0] + i), taps->weight[0]);
        sum = _mm256_add_epi16(sum, _mm256_set1_epi16((short)(taps->bias + (1u << (MR_TAPS_POINT - 1)))));
        for (int32_t k = 1; k <= (int32_t)taps->reach; k++) {
            __m256i pair = _mm256_add_epi16(load256(rows[-k] + i), load256(rows[k] + i));
            sum = _mm256_add_epi16(sum, taps_part(pair, taps->weight[k]));
        }
        store_bytes(bytes + i, _mm256_srli_epi16(sum, MR_TAPS_POINT));
    }
}

const struct mr_image_loops mr_image_loops_avx2 = {.map = mr_image_map_avx2,
                                                   .gray = make_gray,
                                                   .sum_gray = sum_gray,
                                                   .saturate = saturate,
                                                   .shift_hue = shift_hue,
                                                   .sharpen = sharpen,
                                                   .box_row = box_row,
                                                   .box_columns = box_columns,
                                                   .taps_row = taps_row,
                                                   .taps_columns = taps_columns,
                                                   .warp = &mr_warp_loops_avx2};
