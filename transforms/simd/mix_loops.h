/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixing of rows in plain C, which each set's file compiles for its instructions. The compiler must
 * not contract a product and a sum.
 */
#ifndef TRANSFORMS_SIMD_MIX_LOOPS_H
#define TRANSFORMS_SIMD_MIX_LOOPS_H

#include "base/mix.h"

#include <stddef.h>

static inline void mix_floats(const struct mr_mix *mix, const float *restrict own,
                              const float *restrict partner, size_t n, float *restrict out)
{
    const struct mr_mix weights = *mix;
    for (size_t k = 0; k < n; k++)
        out[k] = mr_mix_floats(&weights, own[k], partner[k]);
}

static inline void mix_bytes(const struct mr_mix *mix, const uint8_t *restrict own,
                             const uint8_t *restrict partner, size_t n, uint8_t *restrict out)
{
    const struct mr_mix weights = *mix;
    for (size_t k = 0; k < n; k++)
        out[k] = mr_mix_bytes(&weights, own[k], partner[k]);
}

#endif
