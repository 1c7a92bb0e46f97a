/* SPDX-License-Identifier: Apache-2.0 */
/* What the files of the vector sets share: the parts of their tables. */
#ifndef TRANSFORMS_SIMD_KERNELS_SIMD_H
#define TRANSFORMS_SIMD_KERNELS_SIMD_H

#include "transforms/simd/axis_simd.h"
#include "transforms/simd/kernels.h"
#include "transforms/tile.h"

size_t mr_resample_vertical_bytes_avx2(const struct mr_axis *y);
void mr_resample_vertical_make_avx2(struct mr_resample_vertical *vertical);
void mr_resample_vertical_row_avx2(const struct mr_resample_vertical *vertical, uint32_t i,
                                   const uint8_t *const *strips, uint32_t n, uint8_t *out);
size_t mr_resample_vertical_bytes_avx512(const struct mr_axis *y);
void mr_resample_vertical_make_avx512(struct mr_resample_vertical *vertical);
void mr_resample_vertical_row_avx512(const struct mr_resample_vertical *vertical, uint32_t i,
                                     const uint8_t *const *strips, uint32_t n, uint8_t *out);

void mr_tensor_write_planes_avx2(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                                 void *const out[3]);
void mr_tensor_write_values_avx2(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n, uint32_t first,
                                 uint32_t channels, void *out);
void mr_tensor_write_planes_avx512(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                                   void *const out[3]);
void mr_tensor_write_values_avx512(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                                   uint32_t first, uint32_t channels, void *out);

void mr_idct_pair_avx2(const int16_t *first, const int16_t *second, const uint16_t quant[64], uint8_t *const *rows,
                       size_t at);

bool mr_tile_expand_dct_avx2(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first, uint32_t last,
                             int16_t (*out)[64]);
bool mr_tile_expand_dct8_avx2(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first, uint32_t last,
                              int16_t (*out)[64]);
bool mr_tile_expand_dct_avx512(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first, uint32_t last,
                               int16_t (*out)[64]);
bool mr_tile_expand_dct8_avx512(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first, uint32_t last,
                                int16_t (*out)[64]);
size_t mr_tile_encode_dct_avx512(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);
size_t mr_tile_encode_dct8_avx512(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);

#endif
