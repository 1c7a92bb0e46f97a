/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, counts and weights of OUTPUTS outputs at once, on vectors of any width; axis_avx2.c and
 * axis_avx512.c include it. They first define: DOUBLES and HALF, a vector of OUTPUTS doubles and
 * one of as many integers; VEC_OP(name) and HALF_OP(name), operations on them; HALF_ZERO();
 * COUNTED, the doubles 0, 1, 2 ...; store_half(), absolute(), keep_below(), keep_between() and
 * choose_below().
 *
 * Invariant: doubles are computed in axis.c's order, with true division and no fused multiply-add.
 * Outputs past the last one repeat it, so that all reads stay inside. Static functions only, as in
 * all headers of the vector files.
 */
#ifndef TRANSFORMS_SIMD_AXIS_SIMD_H
#define TRANSFORMS_SIMD_AXIS_SIMD_H

#include "transforms/axis.h"

#include <assert.h>
#include <string.h>

/*
 * No output has more taps: the difference of two positions cut to integers is at most their
 * difference, 2 x support, rounded up.
 */
INLINE uint32_t find_most_taps(const struct mr_axis_filter *filter)
{
    uint32_t most = (uint32_t)(2 * filter->support) + 1;
    return most < filter->most ? most : filter->most;
}

/*
 * After the first `most` taps have their weights: set the largest count, and zero the weights of
 * taps up to a multiple of four.
 */
INLINE void end_fill(struct mr_axis *axis, uint32_t most)
{
    uint32_t longest = 0;
    for (uint32_t i = 0; i < axis->n; i++)
        if (axis->count[i] > longest)
            longest = axis->count[i];
    assert(longest <= most);
    axis->max_taps = longest;
    for (uint32_t k = most; k < ((longest + 3) & ~3u); k++)
        memset(axis->weight + (size_t)k * axis->pitch, 0, axis->pitch * sizeof *axis->weight);
}

struct taps {
    DOUBLES center;
    DOUBLES start; /* inside the input */
    DOUBLES end;
};

INLINE struct taps find_taps(const struct mr_axis *axis, const struct mr_axis_filter *f,
                             uint32_t at)
{
    const DOUBLES half = VEC_OP(set1_pd)(0.5), support = VEC_OP(set1_pd)(f->support);
    DOUBLES i = VEC_OP(add_pd)(VEC_OP(set1_pd)((double)at), COUNTED);
    i = VEC_OP(min_pd)(i, VEC_OP(set1_pd)((double)(axis->n - 1)));
    i = VEC_OP(add_pd)(VEC_OP(set1_pd)(f->lo), VEC_OP(mul_pd)(i, VEC_OP(set1_pd)(f->step)));
    DOUBLES center = VEC_OP(mul_pd)(VEC_OP(add_pd)(i, half), VEC_OP(set1_pd)(f->scale));
    HALF start = VEC_OP(cvttpd_epi32)(VEC_OP(add_pd)(VEC_OP(sub_pd)(center, support), half));
    HALF end = VEC_OP(cvttpd_epi32)(VEC_OP(add_pd)(VEC_OP(add_pd)(center, support), half));
    start = HALF_OP(max_epi32)(start, HALF_ZERO());
    end = HALF_OP(min_epi32)(end, HALF_OP(set1_epi32)(f->in));
    HALF count = HALF_OP(sub_epi32)(end, start);
    store_half(axis->start + at, HALF_OP(sub_epi32)(start, HALF_OP(set1_epi32)(f->first)));
    store_half(axis->count + at, count);
    return (struct taps){center, VEC_OP(cvtepi32_pd)(start), VEC_OP(cvtepi32_pd)(end)};
}

/* Like find_share() in axis.c, for the interpolations that is_filled_by_sets() names. */
INLINE DOUBLES find_share(enum mr_interpolation interpolation, DOUBLES x)
{
    const DOUBLES one = VEC_OP(set1_pd)(1.0);
    DOUBLES distance = absolute(x);
    if (interpolation == MR_BOX)
        return keep_between(one, x, VEC_OP(set1_pd)(-0.5), VEC_OP(set1_pd)(0.5));
    if (interpolation == MR_BILINEAR)
        return VEC_OP(max_pd)(VEC_OP(setzero_pd)(), VEC_OP(sub_pd)(one, distance));
    DOUBLES near =
        VEC_OP(sub_pd)(VEC_OP(mul_pd)(VEC_OP(set1_pd)(1.5), distance), VEC_OP(set1_pd)(2.5));
    near = VEC_OP(add_pd)(VEC_OP(mul_pd)(VEC_OP(mul_pd)(near, distance), distance), one);
    DOUBLES far = VEC_OP(mul_pd)(VEC_OP(sub_pd)(distance, VEC_OP(set1_pd)(5.0)), distance);
    far = VEC_OP(mul_pd)(VEC_OP(add_pd)(far, VEC_OP(set1_pd)(8.0)), distance);
    far = VEC_OP(mul_pd)(VEC_OP(sub_pd)(far, VEC_OP(set1_pd)(4.0)), VEC_OP(set1_pd)(-0.5));
    far = keep_below(far, distance, VEC_OP(set1_pd)(2.0));
    return choose_below(distance, one, near, far);
}

INLINE void fill_weights(struct mr_axis *axis, const struct mr_axis_filter *f,
                         enum mr_interpolation interpolation, uint32_t at, uint32_t most,
                         struct taps taps)
{
    const DOUBLES half = VEC_OP(set1_pd)(0.5), one = VEC_OP(set1_pd)(1.0),
                  zero = VEC_OP(setzero_pd)();
    const DOUBLES inverse = VEC_OP(set1_pd)(f->inverse),
                  weight_of_1 = VEC_OP(set1_pd)((double)(1 << MR_WEIGHT_BITS));
    DOUBLES share[MR_AXIS_MAX_TAPS], sum = zero, position = taps.start;
    for (uint32_t k = 0; k < most; k++) {
        DOUBLES distance =
            VEC_OP(mul_pd)(VEC_OP(add_pd)(VEC_OP(sub_pd)(position, taps.center), half), inverse);
        DOUBLES value = find_share(interpolation, distance);
        share[k] = keep_below(value, position, taps.end);
        sum = VEC_OP(add_pd)(sum, share[k]);
        position = VEC_OP(add_pd)(position, one);
    }
    for (uint32_t k = 0; k < most; k++) {
        DOUBLES weight = VEC_OP(mul_pd)(VEC_OP(div_pd)(share[k], sum), weight_of_1), away = half;
        if (interpolation == MR_BICUBIC)
            away = VEC_OP(or_pd)(VEC_OP(and_pd)(VEC_OP(set1_pd)(-0.0), weight), half);
        weight = VEC_OP(add_pd)(away, weight);
        store_half(axis->weight + (size_t)k * axis->pitch + at, VEC_OP(cvttpd_epi32)(weight));
    }
}

INLINE void fill_outputs(struct mr_axis *axis, const struct mr_axis_filter *filter,
                         enum mr_interpolation interpolation)
{
    uint32_t most = find_most_taps(filter);
    for (uint32_t at = 0; at < axis->pitch; at += OUTPUTS)
        fill_weights(axis, filter, interpolation, at, most, find_taps(axis, filter, at));
    end_fill(axis, most);
}

INLINE void fill_axis(struct mr_axis *axis, const struct mr_axis_filter *filter)
{
    switch (filter->interpolation) {
    case MR_BOX: fill_outputs(axis, filter, MR_BOX); break;
    case MR_BICUBIC: fill_outputs(axis, filter, MR_BICUBIC); break;
    default: fill_outputs(axis, filter, MR_BILINEAR); break;
    }
}

#endif
