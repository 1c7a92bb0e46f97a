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

INLINE void fill_weights(struct mr_axis *axis, const struct mr_axis_filter *f, uint32_t at, uint32_t most,
                         struct taps taps)
{
    const __m512d half = _mm512_set1_pd(0.5), one = _mm512_set1_pd(1.0), zero = _mm512_setzero_pd();
    const __m512d inverse = _mm512_set1_pd(f->inverse), weight_of_1 = _mm512_set1_pd((double)(1 << MR_WEIGHT_BITS));
    __m512d share[MR_AXIS_MAX_TAPS], sum = zero, position = taps.start;
    for (uint32_t k = 0; k < most; k++) {
        __m512d distance = _mm512_mul_pd(_mm512_add_pd(_mm512_sub_pd(position, taps.center), half), inverse);
        __m512d value = _mm512_max_pd(zero, _mm512_sub_pd(one, _mm512_abs_pd(distance)));
        share[k] = _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(position, taps.end, _CMP_LT_OQ), value);
        sum = _mm512_add_pd(sum, share[k]);
        position = _mm512_add_pd(position, one);
    }
    for (uint32_t k = 0; k < most; k++) {
        __m512d weight = _mm512_add_pd(half, _mm512_mul_pd(_mm512_div_pd(share[k], sum), weight_of_1));
        _mm256_storeu_si256((__m256i *)(void *)(axis->weight + (size_t)k * axis->pitch + at),
                            _mm512_cvttpd_epi32(weight));
    }
}

void mr_axis_fill_avx512(struct mr_axis *axis, const struct mr_axis_filter *filter)
{
    uint32_t most = mr_axis_most_taps(filter);
    for (uint32_t at = 0; at < axis->pitch; at += 8)
        fill_weights(axis, filter, at, most, find_taps(axis, filter, at));
    mr_axis_end_fill(axis, most);
}
