/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts, counts and weights of four outputs at once.
 *
 * Invariant: doubles in axis.c's order, with true division and no fused multiply-add. Outputs past the last one repeat
 * it, so that all reads stay inside.
 */
#include "transforms/simd/axis_simd.h"
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx2.h"

struct taps {
    __m256d center;
    __m256d start; /* inside the input */
    __m256d end;
};

INLINE struct taps find_taps(const struct mr_axis *axis, const struct mr_axis_filter *f, uint32_t at)
{
    const __m256d half = _mm256_set1_pd(0.5), support = _mm256_set1_pd(f->support);
    __m256d i = _mm256_add_pd(_mm256_set1_pd((double)at), _mm256_setr_pd(0, 1, 2, 3));
    i = _mm256_min_pd(i, _mm256_set1_pd((double)(axis->n - 1)));
    i = _mm256_add_pd(_mm256_set1_pd(f->lo), _mm256_mul_pd(i, _mm256_set1_pd(f->step)));
    __m256d center = _mm256_mul_pd(_mm256_add_pd(i, half), _mm256_set1_pd(f->scale));
    __m128i start = _mm256_cvttpd_epi32(_mm256_add_pd(_mm256_sub_pd(center, support), half));
    __m128i end = _mm256_cvttpd_epi32(_mm256_add_pd(_mm256_add_pd(center, support), half));
    start = _mm_max_epi32(start, _mm_setzero_si128());
    end = _mm_min_epi32(end, _mm_set1_epi32(f->in));
    __m128i count = _mm_sub_epi32(end, start);
    _mm_storeu_si128((__m128i *)(void *)(axis->start + at), _mm_sub_epi32(start, _mm_set1_epi32(f->first)));
    _mm_storeu_si128((__m128i *)(void *)(axis->count + at), count);
    return (struct taps){center, _mm256_cvtepi32_pd(start), _mm256_cvtepi32_pd(end)};
}

/* axis.c's find_share(), for what is_filled_by_sets(). */
INLINE __m256d find_share(enum mr_interpolation interpolation, __m256d x)
{
    const __m256d one = _mm256_set1_pd(1.0), half = _mm256_set1_pd(0.5);
    __m256d distance = _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
    if (interpolation == MR_BOX) {
        __m256d inside =
            _mm256_and_pd(_mm256_cmp_pd(x, _mm256_set1_pd(-0.5), _CMP_GT_OQ), _mm256_cmp_pd(x, half, _CMP_LE_OQ));
        return _mm256_and_pd(inside, one);
    }
    if (interpolation == MR_BILINEAR)
        return _mm256_max_pd(_mm256_setzero_pd(), _mm256_sub_pd(one, distance));
    __m256d near = _mm256_sub_pd(_mm256_mul_pd(_mm256_set1_pd(1.5), distance), _mm256_set1_pd(2.5));
    near = _mm256_add_pd(_mm256_mul_pd(_mm256_mul_pd(near, distance), distance), one);
    __m256d far = _mm256_mul_pd(_mm256_sub_pd(distance, _mm256_set1_pd(5.0)), distance);
    far = _mm256_mul_pd(_mm256_add_pd(far, _mm256_set1_pd(8.0)), distance);
    far = _mm256_mul_pd(_mm256_sub_pd(far, _mm256_set1_pd(4.0)), _mm256_set1_pd(-0.5));
    far = _mm256_and_pd(_mm256_cmp_pd(distance, _mm256_set1_pd(2.0), _CMP_LT_OQ), far);
    return _mm256_blendv_pd(far, near, _mm256_cmp_pd(distance, one, _CMP_LT_OQ));
}

INLINE void fill_weights(struct mr_axis *axis, const struct mr_axis_filter *f, enum mr_interpolation interpolation,
                         uint32_t at, uint32_t most, struct taps taps)
{
    const __m256d half = _mm256_set1_pd(0.5), one = _mm256_set1_pd(1.0), zero = _mm256_setzero_pd();
    const __m256d sign = _mm256_set1_pd(-0.0), inverse = _mm256_set1_pd(f->inverse);
    const __m256d weight_of_1 = _mm256_set1_pd((double)(1 << MR_WEIGHT_BITS));
    __m256d share[MR_AXIS_MAX_TAPS], sum = zero, position = taps.start;
    for (uint32_t k = 0; k < most; k++) {
        __m256d distance = _mm256_mul_pd(_mm256_add_pd(_mm256_sub_pd(position, taps.center), half), inverse);
        __m256d value = find_share(interpolation, distance);
        share[k] = _mm256_and_pd(_mm256_cmp_pd(position, taps.end, _CMP_LT_OQ), value);
        sum = _mm256_add_pd(sum, share[k]);
        position = _mm256_add_pd(position, one);
    }
    for (uint32_t k = 0; k < most; k++) {
        __m256d weight = _mm256_mul_pd(_mm256_div_pd(share[k], sum), weight_of_1), away = half;
        if (interpolation == MR_BICUBIC)
            away = _mm256_or_pd(_mm256_and_pd(sign, weight), half);
        weight = _mm256_add_pd(away, weight);
        _mm_storeu_si128((__m128i *)(void *)(axis->weight + (size_t)k * axis->pitch + at), _mm256_cvttpd_epi32(weight));
    }
}

INLINE void fill_outputs(struct mr_axis *axis, const struct mr_axis_filter *filter, enum mr_interpolation interpolation)
{
    uint32_t most = mr_axis_most_taps(filter);
    for (uint32_t at = 0; at < axis->pitch; at += 4)
        fill_weights(axis, filter, interpolation, at, most, find_taps(axis, filter, at));
    mr_axis_end_fill(axis, most);
}

void mr_axis_fill_avx2(struct mr_axis *axis, const struct mr_axis_filter *filter)
{
    switch (filter->interpolation) {
    case MR_BOX: fill_outputs(axis, filter, MR_BOX); break;
    case MR_BICUBIC: fill_outputs(axis, filter, MR_BICUBIC); break;
    default: fill_outputs(axis, filter, MR_BILINEAR); break;
    }
}
