/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of the vector sets' tables. A set's table is in resample_<set>.c, after the horizontal
 * pass; its other entries are in the files named below. All are declared here instead of in one
 * header per file, because only the tables use them and their types are those of struct
 * mr_kernel_ops.
 */
#ifndef TRANSFORMS_SIMD_KERNELS_SIMD_H
#define TRANSFORMS_SIMD_KERNELS_SIMD_H

#include "transforms/simd/kernels.h"
#include "transforms/tile.h"

/* axis_<set>.c */
mr_axis_fill mr_axis_fill_avx2;
mr_axis_fill mr_axis_fill_avx512;

/* resample_vertical_<set>.c */
size_t mr_resample_vertical_bytes_avx2(const struct mr_axis *y);
void mr_resample_vertical_make_avx2(struct mr_resample_vertical *vertical);
void mr_resample_vertical_row_avx2(const struct mr_resample_vertical *vertical, uint32_t i,
                                   const uint8_t *const *strips, uint32_t n, uint8_t *out);
size_t mr_resample_vertical_bytes_avx512(const struct mr_axis *y);
void mr_resample_vertical_make_avx512(struct mr_resample_vertical *vertical);
void mr_resample_vertical_row_avx512(const struct mr_resample_vertical *vertical, uint32_t i,
                                     const uint8_t *const *strips, uint32_t n, uint8_t *out);

/* tensor_write_<set>.c */
void mr_tensor_write_planes_avx2(const struct mr_tensor_writer *writer, const uint8_t *row,
                                 uint32_t n, void *const out[3]);
void mr_tensor_write_values_avx2(const struct mr_tensor_writer *writer, const uint8_t *row,
                                 uint32_t n, uint32_t first, uint32_t channels, void *out);
void mr_tensor_write_mirror_avx2(const uint8_t *row, uint32_t n, uint32_t channels, uint8_t *out);
void mr_tensor_write_planes_avx512(const struct mr_tensor_writer *writer, const uint8_t *row,
                                   uint32_t n, void *const out[3]);
void mr_tensor_write_values_avx512(const struct mr_tensor_writer *writer, const uint8_t *row,
                                   uint32_t n, uint32_t first, uint32_t channels, void *out);
void mr_tensor_write_mirror_avx512(const uint8_t *row, uint32_t n, uint32_t channels, uint8_t *out);

/* mix_<set>.c */
void mr_mix_floats_avx2(const struct mr_mix *mix, const float *own, const float *partner, size_t n,
                        float *out);
void mr_mix_bytes_avx2(const struct mr_mix *mix, const uint8_t *own, const uint8_t *partner,
                       size_t n, uint8_t *out);
void mr_mix_floats_avx512(const struct mr_mix *mix, const float *own, const float *partner,
                          size_t n, float *out);
void mr_mix_bytes_avx512(const struct mr_mix *mix, const uint8_t *own, const uint8_t *partner,
                         size_t n, uint8_t *out);

/* idct_<set>.c */
uint32_t mr_idct_blocks_avx2(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                             uint8_t *const *rows, size_t at);
uint32_t mr_idct_blocks_avx512(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                               uint8_t *const *rows, size_t at);

/* tile_<set>.c */
bool mr_tile_expand_dct_avx2(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                             uint32_t last, int16_t (*out)[64]);
bool mr_tile_expand_dct_avx512(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                               uint32_t last, int16_t (*out)[64]);

/* scan_<set>.c */
size_t mr_scan_clean_c(const uint8_t **from, const uint8_t *end, uint8_t *to, size_t room);
uint32_t mr_scan_store_c(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n,
                         int16_t (*blocks)[64]);
uint32_t mr_scan_skip_c(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n);
uint32_t mr_scan_store_avx2(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu,
                            uint32_t n, int16_t (*blocks)[64]);
uint32_t mr_scan_skip_avx2(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu,
                           uint32_t n);

/* xxh3_avx2.c */
uint64_t mr_xxh3_avx2(const void *bytes, size_t len);

/* tile_encode_avx512.c */
size_t mr_tile_encode_dct_avx512(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);

#endif
