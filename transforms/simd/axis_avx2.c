/* SPDX-License-Identifier: Apache-2.0 */
/* Starts, counts and weights of four outputs at once. */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/simd_avx2.h"

#define OUTPUTS 4
#define DOUBLES __m256d
#define HALF __m128i
#define HALF_OP(name) _mm_##name
#define HALF_ZERO _mm_setzero_si128
#define COUNTED _mm256_setr_pd(0, 1, 2, 3)

INLINE void store_half(void *to, HALF value)
{
    _mm_storeu_si128((__m128i *)to, value);
}

INLINE __m256d absolute(__m256d x)
{
    return _mm256_andnot_pd(_mm256_set1_pd(-0.0), x);
}

/* value if a < b, else 0 */
INLINE __m256d keep_below(__m256d value, __m256d a, __m256d b)
{
    return _mm256_and_pd(_mm256_cmp_pd(a, b, _CMP_LT_OQ), value);
}

/* value if x > first and x <= last, else 0 */
INLINE __m256d keep_between(__m256d value, __m256d x, __m256d first, __m256d last)
{
    __m256d inside =
        _mm256_and_pd(_mm256_cmp_pd(x, first, _CMP_GT_OQ), _mm256_cmp_pd(x, last, _CMP_LE_OQ));
    return _mm256_and_pd(inside, value);
}

/* near if a < b, else far */
INLINE __m256d choose_below(__m256d a, __m256d b, __m256d near, __m256d far)
{
    return _mm256_blendv_pd(far, near, _mm256_cmp_pd(a, b, _CMP_LT_OQ));
}

#include "transforms/simd/axis_simd.h"

void mr_axis_fill_avx2(struct mr_axis *axis, const struct mr_axis_filter *filter)
{
    fill_axis(axis, filter);
}
