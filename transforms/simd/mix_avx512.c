/* SPDX-License-Identifier: Apache-2.0 */
/* Mixing of rows, vectorised by the compiler. */
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/mix_loops.h"

void mr_mix_floats_avx512(const struct mr_mix *mix, const float *own, const float *partner,
                          size_t n, float *out)
{
    mix_floats(mix, own, partner, n, out);
}

void mr_mix_bytes_avx512(const struct mr_mix *mix, const uint8_t *own, const uint8_t *partner,
                         size_t n, uint8_t *out)
{
    mix_bytes(mix, own, partner, n, out);
}
