/* SPDX-License-Identifier: Apache-2.0 */
/* XXH3 by AVX2's loops, where the machine has them; elsewhere by those that the compiler takes. */
#ifndef BENCH_CHECKSUMS_AVX2_H
#define BENCH_CHECKSUMS_AVX2_H

#include <stddef.h>
#include <stdint.h>

uint64_t mr_checksums_avx2_hash(const void *bytes, size_t len);

#endif
