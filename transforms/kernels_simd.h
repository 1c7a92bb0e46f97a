/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the vector sets share: the parts of their tables. */
#ifndef TRANSFORMS_KERNELS_SIMD_H
#define TRANSFORMS_KERNELS_SIMD_H

#include "transforms/axis_simd.h"
#include "transforms/kernels.h"

void mr_store_planes_avx2(const struct mr_store *store, const uint8_t *row, uint32_t n, void *const out[3]);
void mr_store_values_avx2(const struct mr_store *store, const uint8_t *row, uint32_t n, uint32_t first,
                          uint32_t channels, void *out);
void mr_store_planes_avx512(const struct mr_store *store, const uint8_t *row, uint32_t n, void *const out[3]);
void mr_store_values_avx512(const struct mr_store *store, const uint8_t *row, uint32_t n, uint32_t first,
                            uint32_t channels, void *out);

#endif
