/* SPDX-License-Identifier: Apache-2.0 */
/* The loops of the image operations for AVX-512. Pixels are dwords, sixteen at a time, loaded and stored by masks. */
#include "transforms/simd/image_loops.h"
#include "transforms/simd/simd_avx512.h"

#include <string.h>

#define PIXELS 16

struct rgb {
    __m512i r, g, b;
};

/* A dword of each pixel, red in the lowest byte. */
INLINE __m512i load_dwords(const uint8_t *from, __mmask64 bytes)
{
    const __m512i spread =
        _mm512_setr_epi32(0x020100, 0x050403, 0x080706, 0x0b0a09, 0x0e0d0c, 0x11100f, 0x141312, 0x171615, 0x1a1918,
                          0x1d1c1b, 0x201f1e, 0x232221, 0x262524, 0x292827, 0x2c2b2a, 0x2f2e2d);
    const __mmask64 three_of_four = 0x7777777777777777u;
    return _mm512_maskz_permutexvar_epi8(three_of_four, spread, _mm512_maskz_loadu_epi8(bytes, from));
}

INLINE struct rgb split_dwords(__m512i v)
{
    const __m512i low = _mm512_set1_epi32(255);
    return (struct rgb){_mm512_and_si512(v, low), _mm512_and_si512(_mm512_srli_epi32(v, 8), low),
                        _mm512_srli_epi32(v, 16)};
}

/* 16 pixels, or those of the mask. A load that lies within 64 bytes of a store by a mask waits for it, so only the last
 * one is one.
 */
INLINE void store_packed(uint8_t *to, __mmask64 bytes, __m512i v)
{
    if (bytes == first_bytes(3 * PIXELS)) {
        _mm256_storeu_si256((void *)to, _mm512_castsi512_si256(v));
        _mm_storeu_si128((void *)(to + 32), _mm512_extracti32x4_epi32(v, 2));
    } else {
        _mm512_mask_storeu_epi8(to, bytes, v);
    }
}

/* Values become 0 to 255 by saturation. Of four pixels, four reds, four greens and four blues are packed together. */
INLINE void store_pixels(uint8_t *to, __mmask64 bytes, __m512i r, __m512i g, __m512i b)
{
    const __m512i order =
        _mm512_setr_epi32(0x01080400, 0x06020905, 0x0b07030a, 0x11181410, 0x16121915, 0x1b17131a, 0x21282420,
                          0x26222925, 0x2b27232a, 0x31383430, 0x36323935, 0x3b37333a, 0, 0, 0, 0);
    __m512i v = _mm512_packus_epi16(_mm512_packs_epi32(r, g), _mm512_packs_epi32(b, b));
    store_packed(to, bytes, _mm512_permutexvar_epi8(order, v));
}

/* The bytes of up to 16 pixels. */
INLINE __mmask64 pixel_bytes(size_t n)
{
    return first_bytes(3 * (uint32_t)(n < PIXELS ? n : PIXELS));
}

/* Red and blue of a dword with their weights; green twice with half of its own, which has 16 bits. */
INLINE __m512i find_gray(__m512i v)
{
    __m512i red_blue = _mm512_and_si512(v, _mm512_set1_epi32(0xff00ff));
    __m512i green = _mm512_and_si512(_mm512_srli_epi32(v, 7), _mm512_set1_epi32(0x1fe));
    __m512i sum = _mm512_madd_epi16(red_blue, _mm512_set1_epi32(7471 << 16 | 19595));
    sum = _mm512_add_epi32(sum, _mm512_madd_epi16(green, _mm512_set1_epi32(38470 / 2)));
    return _mm512_srli_epi32(_mm512_add_epi32(sum, _mm512_set1_epi32(0x8000)), 16);
}

static void make_gray(uint32_t step, const uint8_t *pixels, size_t n, uint8_t *out)
{
    const __m512i thrice =
        _mm512_setr_epi32(0x04000000, 0x08080404, 0x0c0c0c08, 0x14101010, 0x18181414, 0x1c1c1c18, 0x24202020,
                          0x28282424, 0x2c2c2c28, 0x34303030, 0x38383434, 0x3c3c3c38, 0, 0, 0, 0);
    for (size_t i = 0; i < n; i += PIXELS) {
        __mmask64 bytes = pixel_bytes(n - i);
        __m512i gray = find_gray(load_dwords(pixels + 3 * i, bytes));
        if (step == 3)
            store_packed(out + 3 * i, bytes, _mm512_permutexvar_epi8(thrice, gray));
        else if (n - i >= PIXELS)
            _mm_storeu_si128((void *)(out + i), _mm512_cvtepi32_epi8(gray));
        else
            _mm512_mask_cvtepi32_storeu_epi8(out + i, (__mmask16)first_bytes((uint32_t)(n - i)), gray);
    }
}

static uint64_t sum_gray(const uint8_t *pixels, size_t n)
{
    __m512i sums = _mm512_setzero_si512();
    for (size_t i = 0; i < n; i += PIXELS) {
        __m512i gray = find_gray(load_dwords(pixels + 3 * i, pixel_bytes(n - i)));
        sums = _mm512_add_epi64(sums, _mm512_sad_epu8(gray, _mm512_setzero_si512()));
    }
    return (uint64_t)_mm512_reduce_add_epi64(sums);
}

/* from + factor * (to - from), not clipped; a fused operation would round once where Pillow rounds twice. */
INLINE __m512i blend_dwords(__m512 factor, __m512i from, __m512i difference)
{
    __m512 product = _mm512_mul_ps(factor, _mm512_cvtepi32_ps(difference));
    return _mm512_cvttps_epi32(_mm512_add_ps(_mm512_cvtepi32_ps(from), product));
}

static void saturate(float factor, uint8_t *pixels, size_t n)
{
    const __m512 factors = _mm512_set1_ps(factor);
    for (size_t i = 0; i < n; i += PIXELS) {
        __mmask64 bytes = pixel_bytes(n - i);
        __m512i v = load_dwords(pixels + 3 * i, bytes), gray = find_gray(v);
        struct rgb p = split_dwords(v);
        store_pixels(pixels + 3 * i, bytes, blend_dwords(factors, gray, _mm512_sub_epi32(p.r, gray)),
                     blend_dwords(factors, gray, _mm512_sub_epi32(p.g, gray)),
                     blend_dwords(factors, gray, _mm512_sub_epi32(p.b, gray)));
    }
}

/* The hue in bytes; spread is not 0. */
INLINE __m512i find_hue(struct rgb p, __m512i largest, __m512i smallest, __m512i spread)
{
    /* base + x or base - x, as plain C has it, by sixth: red first (blue last, green last), green, blue */
    const __m512 bases = _mm512_setr_ps(1, -1, 1, 3, 5, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512 signs = _mm512_setr_ps(-1, 1, 1, -1, -1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0);
    const __m512 sixth = _mm512_set1_ps(1.0f / 6.0f);
    __m512i middle = _mm512_ternarylogic_epi32(_mm512_ternarylogic_epi32(p.r, p.g, p.b, 0x96), largest, smallest, 0x96);
    __mmask16 r_first = _mm512_cmpeq_epi32_mask(p.r, largest), g_first = _mm512_cmpeq_epi32_mask(p.g, largest);
    __mmask16 b_last = _mm512_cmpeq_epi32_mask(p.b, smallest), g_last = _mm512_cmpeq_epi32_mask(p.g, smallest);
    __m512i which = _mm512_mask_mov_epi32(_mm512_set1_epi32(5), g_last, _mm512_set1_epi32(4));
    which = _mm512_mask_mov_epi32(which, g_first, _mm512_set1_epi32(3));
    which = _mm512_mask_mov_epi32(which, g_first & b_last, _mm512_set1_epi32(2));
    which = _mm512_mask_mov_epi32(which, r_first, _mm512_set1_epi32(1));
    which = _mm512_mask_mov_epi32(which, r_first & b_last, _mm512_setzero_si512());
    __m512 x = _mm512_div_ps(_mm512_cvtepi32_ps(_mm512_sub_epi32(largest, middle)), _mm512_cvtepi32_ps(spread));
    __m512 sixths = _mm512_fmadd_ps(x, _mm512_permutexvar_ps(which, signs), _mm512_permutexvar_ps(which, bases));
    /* sixths / 6, correctly rounded */
    __m512 turn = _mm512_mul_ps(sixths, sixth);
    turn = _mm512_fmadd_ps(_mm512_fnmadd_ps(_mm512_set1_ps(6.0f), turn, sixths), sixth, turn);
    __mmask16 below = _mm512_cmp_ps_mask(turn, _mm512_setzero_ps(), _CMP_LT_OQ);
    turn = _mm512_mask_add_ps(turn, below, turn, _mm512_set1_ps(1.0f));
    /* the exact product, cut */
    return _mm512_cvttps_epi32(
        _mm512_mul_round_ps(turn, _mm512_set1_ps(255.0f), _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC));
}

/* largest - round(product * weight), the weight clipped to 0 to 255 */
INLINE __m512i take_weight(__m512i largest, __m512 product, __m512 weight)
{
    weight = _mm512_max_ps(_mm512_setzero_ps(), _mm512_min_ps(_mm512_set1_ps(255.0f), weight));
    return _mm512_sub_epi32(largest, _mm512_cvttps_epi32(_mm512_fmadd_ps(product, weight, _mm512_set1_ps(0.5f))));
}

INLINE void shift_pixels(__m512i shift, uint8_t *at, __mmask64 bytes)
{
    const __m512i one = _mm512_set1_epi32(1), low = _mm512_set1_epi32(255);
    const __m512 last = _mm512_set1_ps(255.0f);
    struct rgb p = split_dwords(load_dwords(at, bytes));
    __m512i largest = _mm512_max_epi32(_mm512_max_epi32(p.r, p.g), p.b);
    __m512i smallest = _mm512_min_epi32(_mm512_min_epi32(p.r, p.g), p.b);
    __m512i spread = _mm512_sub_epi32(largest, smallest);
    __m512i hue = find_hue(p, largest, smallest, _mm512_max_epi32(spread, one));
    hue = _mm512_and_si512(_mm512_add_epi32(hue, shift), low);
    /* V * S / 65025; a quotient that is no integer lies further from one than rounding moves it */
    __m512 share = _mm512_div_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(spread), last),
                                 _mm512_cvtepi32_ps(_mm512_max_epi32(largest, one)));
    __m512 product = _mm512_mul_ps(_mm512_cvtepi32_ps(largest), _mm512_cvtepi32_ps(_mm512_cvttps_epi32(share)));
    product = _mm512_mul_ps(product, _mm512_set1_ps(1.0f / 65025.0f));
    __m512 turn = _mm512_mul_ps(_mm512_cvtepi32_ps(hue), _mm512_set1_ps(6.0f));
    __m512 r = _mm512_sub_ps(_mm512_set1_ps(510.0f), _mm512_abs_ps(_mm512_sub_ps(turn, _mm512_set1_ps(765.0f))));
    __m512 g = _mm512_sub_ps(_mm512_abs_ps(_mm512_sub_ps(turn, _mm512_set1_ps(510.0f))), last);
    __m512 b = _mm512_sub_ps(_mm512_abs_ps(_mm512_sub_ps(turn, _mm512_set1_ps(1020.0f))), last);
    store_pixels(at, bytes, take_weight(largest, product, r), take_weight(largest, product, g),
                 take_weight(largest, product, b));
}

static void shift_hue(const struct mr_hue_shift *shift, uint8_t *pixels, size_t n)
{
    for (size_t i = 0; i < n; i += PIXELS)
        shift_pixels(_mm512_set1_epi32((int)shift->shift), pixels + 3 * i, pixel_bytes(n - i));
}

INLINE __m512i load_words(const uint8_t *from)
{
    return _mm512_cvtepu8_epi16(_mm256_loadu_si256((const void *)from));
}

INLINE void store_bytes(uint8_t *to, __m512i words)
{
    _mm256_storeu_si256((void *)to, _mm512_cvtepi16_epi8(words));
}

INLINE __m512i sum_three(const uint8_t *at, size_t stride)
{
    return _mm512_add_epi16(_mm512_add_epi16(load_words(at - stride), load_words(at)), load_words(at + stride));
}

/* (sum + 6) / 13 is exact as a multiplication up to 3315. */
INLINE void sharpen_values(__m512 factor, uint32_t step, size_t stride, const uint8_t *at, uint8_t *out)
{
    __m512i centre = load_words(at);
    __m512i sum = _mm512_add_epi16(_mm512_add_epi16(sum_three(at - step, stride), sum_three(at, stride)),
                                   _mm512_add_epi16(sum_three(at + step, stride), _mm512_slli_epi16(centre, 2)));
    __m512i smooth = _mm512_mulhi_epu16(_mm512_add_epi16(sum, _mm512_set1_epi16(6)), _mm512_set1_epi16(5042));
    __m512i difference = _mm512_sub_epi16(centre, smooth), zero = _mm512_setzero_si512();
    __m512i low = blend_dwords(factor, _mm512_unpacklo_epi16(smooth, zero),
                               _mm512_srai_epi32(_mm512_unpacklo_epi16(zero, difference), 16));
    __m512i high = blend_dwords(factor, _mm512_unpackhi_epi16(smooth, zero),
                                _mm512_srai_epi32(_mm512_unpackhi_epi16(zero, difference), 16));
    __m512i words = _mm512_max_epi16(_mm512_packs_epi32(low, high), zero);
    _mm256_storeu_si256((void *)out, _mm512_cvtusepi16_epi8(words));
}

static void sharpen(float factor, uint32_t step, size_t len, size_t stride, const uint8_t *row, uint8_t *out)
{
    if (len < 2 * (size_t)step + 32) {
        mr_image_loops_sharpen(factor, step, len, stride, row, out);
        return;
    }
    __m512 factors = _mm512_set1_ps(factor);
    size_t end = len - step - 32; /* the last ones, some of them twice */
    for (size_t i = step; i < end; i += 32)
        sharpen_values(factors, step, stride, row + i, out + i);
    sharpen_values(factors, step, stride, row + end, out + end);
}

/* A box's weights as two halves of 12 bits, in pairs for vpmaddwd. */
struct box_weights {
    __m512i low, high;
};

INLINE struct box_weights split_weights(const struct mr_box_blur *box)
{
    return (struct box_weights){_mm512_set1_epi32((int)((box->whole & 4095) | (box->part & 4095) << 16)),
                                _mm512_set1_epi32((int)((box->whole >> 12) | (box->part >> 12) << 16))};
}

INLINE __m512i weigh_pairs(const struct box_weights *w, __m512i pairs)
{
    __m512i low = _mm512_add_epi32(_mm512_madd_epi16(pairs, w->low), _mm512_set1_epi32(1 << 23));
    __m512i sum = _mm512_add_epi32(_mm512_madd_epi16(pairs, w->high), _mm512_srli_epi32(low, 12));
    return _mm512_srli_epi32(sum, 12);
}

/* (sum * whole + ends * part + 2^23) >> 24; sums are below 2^15. */
INLINE void store_box(const struct box_weights *w, __m512i sum, __m512i ends, uint8_t *to)
{
    __m512i low = weigh_pairs(w, _mm512_unpacklo_epi16(sum, ends));
    __m512i high = weigh_pairs(w, _mm512_unpackhi_epi16(sum, ends));
    store_bytes(to, _mm512_packus_epi32(low, high));
}

/* Sums of all bytes of a box anew for each value: up to here that is faster than plain C's running sums. */
#define MAX_ROW_REACH 12
#define MAX_COLUMN_REACH 63

static void box_row(const struct mr_box_blur *box, uint32_t step, uint32_t n, const uint8_t *row, uint8_t *out)
{
    const uint32_t reach = box->reach, margin = (reach + 1) * step, len = n * step;
    if (reach > MAX_ROW_REACH || len < 2 * margin + 32) {
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
    for (uint32_t i = margin; i < len - margin; i += 32) {
        i = i < len - margin - 32 ? i : len - margin - 32;
        const uint8_t *at = row + i;
        __m512i sum = load_words(at);
        for (uint32_t k = step; k <= reach * step; k += step)
            sum = _mm512_add_epi16(sum, _mm512_add_epi16(load_words(at - k), load_words(at + k)));
        store_box(&w, sum, _mm512_add_epi16(load_words(at - margin), load_words(at + margin)), out + i);
    }
}

/* 32 columns. */
INLINE void box_strip(const struct mr_box_blur *box, int64_t n, const uint8_t *from, size_t from_stride, uint8_t *to,
                      size_t to_stride)
{
    struct box_weights w = split_weights(box);
    const int64_t reach = box->reach, last = n - 1;
    __m512i sum = _mm512_setzero_si512();
    for (int64_t k = -reach; k <= reach; k++)
        sum = _mm512_add_epi16(sum, load_words(from + from_stride * (size_t)(k < 0 ? 0 : k > last ? last : k)));
    for (int64_t i = 0; i < n; i++, to += to_stride) {
        int64_t first = i - reach, next = i + reach + 1;
        __m512i before = load_words(from + from_stride * (size_t)(first > 0 ? first - 1 : 0));
        __m512i leaves = load_words(from + from_stride * (size_t)(first > 0 ? first : 0));
        __m512i enters = load_words(from + from_stride * (size_t)(next < last ? next : last));
        store_box(&w, sum, _mm512_add_epi16(before, enters), to);
        sum = _mm512_add_epi16(sum, _mm512_sub_epi16(enters, leaves));
    }
}

static void box_columns(const struct mr_box_blur *box, uint32_t n, size_t len, const uint8_t *from, size_t from_stride,
                        uint8_t *to, size_t to_stride)
{
    if (box->reach > MAX_COLUMN_REACH || len < 32) {
        mr_image_loops_box_columns(box, n, len, from, from_stride, to, to_stride);
        return;
    }
    for (size_t i = 0; i < len; i += 32) {
        i = i < len - 32 ? i : len - 32;
        box_strip(box, n, from + i, from_stride, to + i, to_stride);
    }
}

INLINE __m512i taps_part(__m512i words, uint16_t weight)
{
    return _mm512_mulhi_epu16(words, _mm512_set1_epi16((short)weight));
}

static void taps_row(const struct mr_taps *taps, uint32_t step, const uint8_t *bytes, uint16_t *words)
{
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i += 32) {
        const uint8_t *at = bytes + i;
        __m512i sum = taps_part(_mm512_slli_epi16(load_words(at), MR_TAPS_POINT), taps->weight[0]);
        sum = _mm512_add_epi16(sum, _mm512_set1_epi16((short)taps->bias));
        for (uint32_t k = 1; k <= taps->reach; k++) {
            __m512i pair = _mm512_add_epi16(load_words(at - (size_t)k * step), load_words(at + (size_t)k * step));
            sum = _mm512_add_epi16(sum, taps_part(_mm512_slli_epi16(pair, MR_TAPS_POINT), taps->weight[k]));
        }
        _mm512_storeu_si512(words + i, sum);
    }
}

static void taps_columns(const struct mr_taps *taps, const uint16_t *const *rows, uint8_t *bytes)
{
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i += 32) {
        __m512i sum = taps_part(_mm512_loadu_si512(rows[0] + i), taps->weight[0]);
        sum = _mm512_add_epi16(sum, _mm512_set1_epi16((short)(taps->bias + (1u << (MR_TAPS_POINT - 1)))));
        for (int32_t k = 1; k <= (int32_t)taps->reach; k++) {
            __m512i pair = _mm512_add_epi16(_mm512_loadu_si512(rows[-k] + i), _mm512_loadu_si512(rows[k] + i));
            sum = _mm512_add_epi16(sum, taps_part(pair, taps->weight[k]));
        }
        store_bytes(bytes + i, _mm512_srli_epi16(sum, MR_TAPS_POINT));
    }
}

const struct mr_image_loops mr_image_loops_avx512 = {.map = mr_image_map_avx512,
                                                     .gray = make_gray,
                                                     .sum_gray = sum_gray,
                                                     .saturate = saturate,
                                                     .shift_hue = shift_hue,
                                                     .sharpen = sharpen,
                                                     .box_row = box_row,
                                                     .box_columns = box_columns,
                                                     .taps_row = taps_row,
                                                     .taps_columns = taps_columns,
                                                     .warp = &mr_warp_loops_avx512};
