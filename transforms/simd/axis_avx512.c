/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, counts and weights of eight outputs at once.
 *
 * Invariant: doubles in axis.c's order, with true division and no fused multiply-add. Outputs past the last one repeat
 * it, so that all reads stay inside.
 */
#include "transforms/simd/axis_simd.h"
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"

struct taps {
    __m512d center;
    __m512d start; /* inside the input */
    __m512d end;
};

INLINE struct taps find_taps(const struct mr_axis *axis, const struct mr_axis_filter *f, uint32_t at)
{
    const __m512d half = _mm512_set1_pd(0.5), support = _mm512_set1_pd(f->support);
    __m512d i = _mm512_add_pd(_mm512_set1_pd((double)at), _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7));
    i = _mm512_min_pd(i, _mm512_set1_pd((double)(axis->n - 1)));
    i = _mm512_add_pd(_mm512_set1_pd(f->lo), _mm512_mul_pd(i, _mm512_set1_pd(f->step)));
    __m512d center = _mm512_mul_pd(_mm512_add_pd(i, half), _mm512_set1_pd(f->scale));
    __m256i start = _mm512_cvttpd_epi32(_mm512_add_pd(_mm512_sub_pd(center, support), half));
    __m256i end = _mm512_cvttpd_epi32(_mm512_add_pd(_mm512_add_pd(center, support), half));
    start = _mm256_max_epi32(start, _mm256_setzero_si256());
    end = _mm256_min_epi32(end, _mm256_set1_epi32(f->in));
    __m256i count = _mm256_sub_epi32(end, start);
    _mm256_storeu_si256((__m256i *)(void *)(axis->start + at), _mm256_sub_epi32(start, _mm256_set1_epi32(f->first)));
    _mm256_storeu_si256((__m256i *)(void *)(axis->count + at), count);
    return (struct taps){center, _mm512_cvtepi32_pd(start), _mm512_cvtepi32_pd(end)};
}

/* axis.c's find_share(), for what is_filled_by_sets(). */
INLINE __m512d find_share(enum mr_interpolation interpolation, __m512d x)
{
    const __m512d one = _mm512_set1_pd(1.0);
    __m512d distance = _mm512_abs_pd(x);
    if (interpolation == MR_BOX) {
        __mmask8 inside = _mm512_cmp_pd_mask(x, _mm512_set1_pd(-0.5), _CMP_GT_OQ);
        return _mm512_maskz_mov_pd(_mm512_mask_cmp_pd_mask(inside, x, _mm512_set1_pd(0.5), _CMP_LE_OQ), one);
    }
    if (interpolation == MR_BILINEAR)
        return _mm512_max_pd(_mm512_setzero_pd(), _mm512_sub_pd(one, distance));
    __m512d near = _mm512_sub_pd(_mm512_mul_pd(_mm512_set1_pd(1.5), distance), _mm512_set1_pd(2.5));
    near = _mm512_add_pd(_mm512_mul_pd(_mm512_mul_pd(near, distance), distance), one);
    __m512d far = _mm512_mul_pd(_mm512_sub_pd(distance, _mm512_set1_pd(5.0)), distance);
    far = _mm512_mul_pd(_mm512_add_pd(far, _mm512_set1_pd(8.0)), distance);
    __mmask8 reached = _mm512_cmp_pd_mask(distance, _mm512_set1_pd(2.0), _CMP_LT_OQ);
    far = _mm512_maskz_mul_pd(reached, _mm512_sub_pd(far, _mm512_set1_pd(4.0)), _mm512_set1_pd(-0.5));
    return _mm512_mask_mov_pd(far, _mm512_cmp_pd_mask(distance, one, _CMP_LT_OQ), near);
}

INLINE void fill_weights(struct mr_axis *axis, const struct mr_axis_filter *f, enum mr_interpolation interpolation,
                         uint32_t at, uint32_t most, struct taps taps)
{
    const __m512d half = _mm512_set1_pd(0.5), one = _mm512_set1_pd(1.0), zero = _mm512_setzero_pd();
    const __m512d inverse = _mm512_set1_pd(f->inverse), weight_of_1 = _mm512_set1_pd((double)(1 << MR_WEIGHT_BITS));
    __m512d share[MR_AXIS_MAX_TAPS], sum = zero, position = taps.start;
    for (uint32_t k = 0; k < most; k++) {
        __m512d distance = _mm512_mul_pd(_mm512_add_pd(_mm512_sub_pd(position, taps.center), half), inverse);
        __m512d value = find_share(interpolation, distance);
        share[k] = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(position, taps.end, _CMP_LT_OQ), value);
        sum = _mm512_add_pd(sum, share[k]);
        position = _mm512_add_pd(position, one);
    }
    for (uint32_t k = 0; k < most; k++) {
        __m512d weight = _mm512_mul_pd(_mm512_div_pd(share[k], sum), weight_of_1), away = half;
        if (interpolation == MR_BICUBIC)
            away = _mm512_or_pd(_mm512_and_pd(_mm512_set1_pd(-0.0), weight), half);
        weight = _mm512_add_pd(away, weight);
        _mm256_storeu_si256((__m256i *)(void *)(axis->weight + (size_t)k * axis->pitch + at),
                            _mm512_cvttpd_epi32(weight));
    }
}

INLINE void fill_outputs(struct mr_axis *axis, const struct mr_axis_filter *filter, enum mr_interpolation interpolation)
{
    uint32_t most = mr_axis_most_taps(filter);
    for (uint32_t at = 0; at < axis->pitch; at += 8)
        fill_weights(axis, filter, interpolation, at, most, find_taps(axis, filter, at));
    mr_axis_end_fill(axis, most);
}

void mr_axis_fill_avx512(struct mr_axis *axis, const struct mr_axis_filter *filter)
{
    switch (filter->interpolation) {
    case MR_BOX: fill_outputs(axis, filter, MR_BOX); break;
    case MR_BICUBIC: fill_outputs(axis, filter, MR_BICUBIC); break;
    default: fill_outputs(axis, filter, MR_BILINEAR); break;
    }
}
