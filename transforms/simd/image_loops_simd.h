/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops of the image operations on vectors of any width; image_loops_avx2.c and
 * image_loops_avx512.c include it. They first define: VEC and FLOATS, vectors; VEC_OP(name), an
 * operation on them; VEC_ZERO(), VEC_AND(), VEC_LOAD(), VEC_STORE(); WORDS, the number of 16-bit
 * values in a VEC; fused(), absolute(); load_words(), which makes words of bytes, and store_bytes()
 * and store_clipped(), which make bytes of words.
 *
 * Invariant: static functions only, as in all headers of the vector files.
 */
#ifndef TRANSFORMS_SIMD_IMAGE_LOOPS_SIMD_H
#define TRANSFORMS_SIMD_IMAGE_LOOPS_SIMD_H

#include "transforms/simd/image_loops.h"

#include <string.h>

/* ---- Pixels as dwords ---- */

struct rgb {
    VEC r, g, b;
};

INLINE struct rgb split_dwords(VEC v)
{
    const VEC low = VEC_OP(set1_epi32)(255);
    return (struct rgb){VEC_AND(v, low), VEC_AND(VEC_OP(srli_epi32)(v, 8), low),
                        VEC_OP(srli_epi32)(v, 16)};
}

/*
 * Red and blue of a dword are multiplied by their weights; green is counted twice with half its
 * weight, because its weight needs 16 bits.
 */
INLINE VEC find_gray(VEC v)
{
    VEC red_blue = VEC_AND(v, VEC_OP(set1_epi32)(0xff00ff));
    VEC green = VEC_AND(VEC_OP(srli_epi32)(v, 7), VEC_OP(set1_epi32)(0x1fe));
    VEC sum = VEC_OP(madd_epi16)(red_blue, VEC_OP(set1_epi32)(7471 << 16 | 19595));
    sum = VEC_OP(add_epi32)(sum, VEC_OP(madd_epi16)(green, VEC_OP(set1_epi32)(38470 / 2)));
    return VEC_OP(srli_epi32)(VEC_OP(add_epi32)(sum, VEC_OP(set1_epi32)(0x8000)), 16);
}

/*
 * from + factor * (to - from), not clipped. Not fused: a fused operation would round once where
 * Pillow rounds twice.
 */
INLINE VEC blend_dwords(FLOATS factor, VEC from, VEC difference)
{
    FLOATS product = VEC_OP(mul_ps)(factor, VEC_OP(cvtepi32_ps)(difference));
    return VEC_OP(cvttps_epi32)(VEC_OP(add_ps)(VEC_OP(cvtepi32_ps)(from), product));
}

INLINE struct rgb saturate_dwords(FLOATS factor, VEC v)
{
    VEC gray = find_gray(v);
    struct rgb p = split_dwords(v);
    return (struct rgb){blend_dwords(factor, gray, VEC_OP(sub_epi32)(p.r, gray)),
                        blend_dwords(factor, gray, VEC_OP(sub_epi32)(p.g, gray)),
                        blend_dwords(factor, gray, VEC_OP(sub_epi32)(p.b, gray))};
}

/* Defined by each set: the hue in bytes; spread is not 0. */
INLINE VEC find_hue(struct rgb p, VEC largest, VEC smallest, VEC spread);

/* largest - round(product * weight), the weight clipped to 0 to 255 */
INLINE VEC take_weight(VEC largest, FLOATS product, FLOATS weight)
{
    weight = VEC_OP(max_ps)(VEC_OP(setzero_ps)(), VEC_OP(min_ps)(VEC_OP(set1_ps)(255.0f), weight));
    return VEC_OP(sub_epi32)(largest,
                             VEC_OP(cvttps_epi32)(fused(product, weight, VEC_OP(set1_ps)(0.5f))));
}

INLINE struct rgb shift_dwords(VEC shift, VEC v)
{
    const VEC one = VEC_OP(set1_epi32)(1), low = VEC_OP(set1_epi32)(255);
    const FLOATS last = VEC_OP(set1_ps)(255.0f);
    struct rgb p = split_dwords(v);
    VEC largest = VEC_OP(max_epi32)(VEC_OP(max_epi32)(p.r, p.g), p.b);
    VEC smallest = VEC_OP(min_epi32)(VEC_OP(min_epi32)(p.r, p.g), p.b);
    VEC spread = VEC_OP(sub_epi32)(largest, smallest);
    VEC hue = find_hue(p, largest, smallest, VEC_OP(max_epi32)(spread, one));
    hue = VEC_AND(VEC_OP(add_epi32)(hue, shift), low);
    /*
     * V * S / 65025. A quotient that is not an integer is further from one than rounding moves it.
     */
    FLOATS share = VEC_OP(div_ps)(VEC_OP(mul_ps)(VEC_OP(cvtepi32_ps)(spread), last),
                                  VEC_OP(cvtepi32_ps)(VEC_OP(max_epi32)(largest, one)));
    FLOATS product = VEC_OP(mul_ps)(VEC_OP(cvtepi32_ps)(largest),
                                    VEC_OP(cvtepi32_ps)(VEC_OP(cvttps_epi32)(share)));
    product = VEC_OP(mul_ps)(product, VEC_OP(set1_ps)(1.0f / 65025.0f));
    FLOATS turn = VEC_OP(mul_ps)(VEC_OP(cvtepi32_ps)(hue), VEC_OP(set1_ps)(6.0f));
    FLOATS r = VEC_OP(sub_ps)(VEC_OP(set1_ps)(510.0f),
                              absolute(VEC_OP(sub_ps)(turn, VEC_OP(set1_ps)(765.0f))));
    FLOATS g = VEC_OP(sub_ps)(absolute(VEC_OP(sub_ps)(turn, VEC_OP(set1_ps)(510.0f))), last);
    FLOATS b = VEC_OP(sub_ps)(absolute(VEC_OP(sub_ps)(turn, VEC_OP(set1_ps)(1020.0f))), last);
    return (struct rgb){take_weight(largest, product, r), take_weight(largest, product, g),
                        take_weight(largest, product, b)};
}

/* ---- Values as words, WORDS at a time ---- */

INLINE VEC sum_three(const uint8_t *at, size_t stride)
{
    return VEC_OP(add_epi16)(VEC_OP(add_epi16)(load_words(at - stride), load_words(at)),
                             load_words(at + stride));
}

/* (sum + 6) / 13 as a multiplication, exact up to 3315. */
INLINE void sharpen_values(FLOATS factor, uint32_t step, size_t stride, const uint8_t *at,
                           uint8_t *out)
{
    VEC centre = load_words(at);
    VEC sum = VEC_OP(add_epi16)(
        VEC_OP(add_epi16)(sum_three(at - step, stride), sum_three(at, stride)),
        VEC_OP(add_epi16)(sum_three(at + step, stride), VEC_OP(slli_epi16)(centre, 2)));
    VEC smooth = VEC_OP(mulhi_epu16)(VEC_OP(add_epi16)(sum, VEC_OP(set1_epi16)(6)),
                                     VEC_OP(set1_epi16)(5042));
    VEC difference = VEC_OP(sub_epi16)(centre, smooth), zero = VEC_ZERO();
    VEC low = blend_dwords(factor, VEC_OP(unpacklo_epi16)(smooth, zero),
                           VEC_OP(srai_epi32)(VEC_OP(unpacklo_epi16)(zero, difference), 16));
    VEC high = blend_dwords(factor, VEC_OP(unpackhi_epi16)(smooth, zero),
                            VEC_OP(srai_epi32)(VEC_OP(unpackhi_epi16)(zero, difference), 16));
    store_clipped(out, VEC_OP(packs_epi32)(low, high));
}

static void sharpen(float factor, uint32_t step, size_t len, size_t stride, const uint8_t *row,
                    uint8_t *out)
{
    if (len < 2 * (size_t)step + WORDS) {
        mr_image_loops_sharpen(factor, step, len, stride, row, out);
        return;
    }
    FLOATS factors = VEC_OP(set1_ps)(factor);
    /* The last step may overlap the one before. */
    size_t end = len - step - WORDS;
    for (size_t i = step; i < end; i += WORDS)
        sharpen_values(factors, step, stride, row + i, out + i);
    sharpen_values(factors, step, stride, row + end, out + end);
}

/* A box's weights as two halves of 12 bits, in pairs for vpmaddwd. */
struct box_weights {
    VEC low, high;
};

INLINE struct box_weights split_weights(const struct mr_box_blur *box)
{
    return (struct box_weights){
        VEC_OP(set1_epi32)((int)((box->whole & 4095) | (box->part & 4095) << 16)),
        VEC_OP(set1_epi32)((int)((box->whole >> 12) | (box->part >> 12) << 16))};
}

INLINE VEC weigh_pairs(const struct box_weights *w, VEC pairs)
{
    VEC low = VEC_OP(add_epi32)(VEC_OP(madd_epi16)(pairs, w->low), VEC_OP(set1_epi32)(1 << 23));
    VEC sum = VEC_OP(add_epi32)(VEC_OP(madd_epi16)(pairs, w->high), VEC_OP(srli_epi32)(low, 12));
    return VEC_OP(srli_epi32)(sum, 12);
}

/* (sum * whole + ends * part + 2^23) >> 24; sums are below 2^15. */
INLINE void store_box(const struct box_weights *w, VEC sum, VEC ends, uint8_t *to)
{
    VEC low = weigh_pairs(w, VEC_OP(unpacklo_epi16)(sum, ends));
    VEC high = weigh_pairs(w, VEC_OP(unpackhi_epi16)(sum, ends));
    store_bytes(to, VEC_OP(packus_epi32)(low, high));
}

/*
 * Sums all bytes of a box again for each value. Up to this reach that is faster than plain C's
 * running sums.
 */
#define MAX_ROW_REACH 12
#define MAX_COLUMN_REACH 63

static void box_row(const struct mr_box_blur *box, uint32_t step, uint32_t n, const uint8_t *row,
                    uint8_t *out)
{
    const uint32_t reach = box->reach, margin = (reach + 1) * step, len = n * step;
    if (reach > MAX_ROW_REACH || len < 2 * margin + WORDS) {
        mr_image_loops_box_row(box, step, n, row, out);
        return;
    }
    /* Both ends of a row are computed as shorter rows. */
    uint8_t ends[3 * (2 * MAX_ROW_REACH + 3)];
    mr_image_loops_box_row(box, step, 2 * reach + 2, row, ends);
    memcpy(out, ends, margin);
    mr_image_loops_box_row(box, step, 2 * reach + 2, row + len - 2 * margin, ends);
    memcpy(out + len - margin, ends + margin, margin);
    struct box_weights w = split_weights(box);
    for (uint32_t i = margin; i < len - margin; i += WORDS) {
        i = i < len - margin - WORDS ? i : len - margin - WORDS;
        const uint8_t *at = row + i;
        VEC sum = load_words(at);
        for (uint32_t k = step; k <= reach * step; k += step)
            sum = VEC_OP(add_epi16)(sum, VEC_OP(add_epi16)(load_words(at - k), load_words(at + k)));
        store_box(&w, sum, VEC_OP(add_epi16)(load_words(at - margin), load_words(at + margin)),
                  out + i);
    }
}

/* Filters WORDS columns. */
INLINE void box_strip(const struct mr_box_blur *box, int64_t n, const uint8_t *from,
                      size_t from_stride, uint8_t *to, size_t to_stride)
{
    struct box_weights w = split_weights(box);
    const int64_t reach = box->reach, last = n - 1;
    VEC sum = VEC_ZERO();
    for (int64_t k = -reach; k <= reach; k++)
        sum = VEC_OP(add_epi16)(sum, load_words(from + from_stride * (size_t)(k < 0      ? 0
                                                                              : k > last ? last
                                                                                         : k)));
    for (int64_t i = 0; i < n; i++, to += to_stride) {
        int64_t first = i - reach, next = i + reach + 1;
        VEC before = load_words(from + from_stride * (size_t)(first > 0 ? first - 1 : 0));
        VEC leaves = load_words(from + from_stride * (size_t)(first > 0 ? first : 0));
        VEC enters = load_words(from + from_stride * (size_t)(next < last ? next : last));
        store_box(&w, sum, VEC_OP(add_epi16)(before, enters), to);
        sum = VEC_OP(add_epi16)(sum, VEC_OP(sub_epi16)(enters, leaves));
    }
}

static void box_columns(const struct mr_box_blur *box, uint32_t n, size_t len, const uint8_t *from,
                        size_t from_stride, uint8_t *to, size_t to_stride)
{
    if (box->reach > MAX_COLUMN_REACH || len < WORDS) {
        mr_image_loops_box_columns(box, n, len, from, from_stride, to, to_stride);
        return;
    }
    for (size_t i = 0; i < len; i += WORDS) {
        i = i < len - WORDS ? i : len - WORDS;
        box_strip(box, n, from + i, from_stride, to + i, to_stride);
    }
}

INLINE VEC taps_part(VEC words, uint16_t weight)
{
    return VEC_OP(mulhi_epu16)(words, VEC_OP(set1_epi16)((short)weight));
}

static void taps_row(const struct mr_taps *taps, uint32_t step, const uint8_t *bytes,
                     uint16_t *words)
{
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i += WORDS) {
        const uint8_t *at = bytes + i;
        VEC sum = taps_part(VEC_OP(slli_epi16)(load_words(at), MR_TAPS_POINT), taps->weight[0]);
        sum = VEC_OP(add_epi16)(sum, VEC_OP(set1_epi16)((short)taps->bias));
        for (uint32_t k = 1; k <= taps->reach; k++) {
            VEC pair = VEC_OP(add_epi16)(load_words(at - (size_t)k * step),
                                         load_words(at + (size_t)k * step));
            sum = VEC_OP(add_epi16)(
                sum, taps_part(VEC_OP(slli_epi16)(pair, MR_TAPS_POINT), taps->weight[k]));
        }
        VEC_STORE(words + i, sum);
    }
}

static void taps_columns(const struct mr_taps *taps, const uint16_t *const *rows, uint8_t *bytes)
{
    for (uint32_t i = 0; i < MR_TAPS_STRIP; i += WORDS) {
        VEC sum = taps_part(VEC_LOAD(rows[0] + i), taps->weight[0]);
        sum = VEC_OP(add_epi16)(
            sum, VEC_OP(set1_epi16)((short)(taps->bias + (1u << (MR_TAPS_POINT - 1)))));
        for (int32_t k = 1; k <= (int32_t)taps->reach; k++) {
            VEC pair = VEC_OP(add_epi16)(VEC_LOAD(rows[-k] + i), VEC_LOAD(rows[k] + i));
            sum = VEC_OP(add_epi16)(sum, taps_part(pair, taps->weight[k]));
        }
        store_bytes(bytes + i, VEC_OP(srli_epi16)(sum, MR_TAPS_POINT));
    }
}

#endif
