/* SPDX-License-Identifier: Apache-2.0 */
/* The hash of base/xxh3.c compiled for AVX2: the same numbers. */
#include "bench/checksums_avx2.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t mr_checksums_avx2_hash(const void *bytes, size_t len)
{
    return XXH3_64bits(bytes, len);
}
