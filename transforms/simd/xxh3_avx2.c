/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of base/xxh3.c, compiled for AVX2: the same numbers. */
#include "transforms/simd/kernels_simd.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t mr_xxh3_avx2(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}
