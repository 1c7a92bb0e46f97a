/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, counts and weights of eight outputs at once. */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx512.h"

#define OUTPUTS 8
#define DOUBLES __m512d
#define HALF __m256i
#define HALF_OP(name) _mm256_##name
#define HALF_ZERO _mm256_setzero_si256
#define COUNTED _mm512_setr_pd(0, 1, 2, 3, 4, 5, 6, 7)

INLINE void store_half(void *to, HALF value)
{
    _mm256_storeu_si256((__m256i *)to, value);
}

INLINE __m512d absolute(__m512d x)
{
    return _mm512_abs_pd(x);
}

/* value if a < b, else 0 */
INLINE __m512d keep_below(__m512d value, __m512d a, __m512d b)
{
    return _mm512_maskz_mov_pd(_mm512_cmp_pd_mask(a, b, _CMP_LT_OQ), value);
}

/* value if x > first and x <= last, else 0 */
INLINE __m512d keep_between(__m512d value, __m512d x, __m512d first, __m512d last)
{
    __mmask8 inside = _mm512_cmp_pd_mask(x, first, _CMP_GT_OQ);
    return _mm512_maskz_mov_pd(_mm512_mask_cmp_pd_mask(inside, x, last, _CMP_LE_OQ), value);
}

/* near if a < b, else far */
INLINE __m512d choose_below(__m512d a, __m512d b, __m512d near, __m512d far)
{
    return _mm512_mask_mov_pd(far, _mm512_cmp_pd_mask(a, b, _CMP_LT_OQ), near);
}

#include "transforms/simd/axis_simd.h"

void mr_axis_fill_avx512(struct mr_axis *axis, const struct mr_axis_filter *filter)
{
    fill_axis(axis, filter);
}
