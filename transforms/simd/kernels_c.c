/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The loops in plain C, which are the reference for the other sets.
 *
 * Invariant: Pillow rounds to u8 between the two passes, so neither their order nor the rounding
 * may change. Sums of weights that are not below 0 stay below 2^30 for any usual number of taps,
 * and need no clipping. Other sums (axis->overshoots) stay between -2^31 and 2^31, and are clipped
 * to 0 to 255.
 */
#include "base/checked.h"
#include "base/xxh3.h"
#include "transforms/simd/kernels.h"
#include "transforms/simd/kernels_simd.h"
#include "transforms/simd/mix_loops.h"
#include "transforms/tensor_write.h"
#include "transforms/tile.h"

#include <string.h>

#define HALF (1u << (MR_WEIGHT_BITS - 1))
/*
 * Weights are rounded one by one, so many of them may sum to more than 1. Up to this many, no sum
 * reaches 256.
 */
#define MAX_TAPS_UNCLIPPED 16000

static inline uint8_t clip_sum(uint32_t sum)
{
    uint32_t value = sum >> MR_WEIGHT_BITS;
    return (uint8_t)(value > 255 ? 255 : value);
}

static inline uint8_t clip_both(uint32_t sum)
{
    int32_t value = (int32_t)sum >> MR_WEIGHT_BITS;
    return (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
}

/*
 * The horizontal pass. A strip is four rows of u8, one after the other; the tables are room for a
 * pair of rows.
 */

static size_t horizontal_bytes_c(const struct mr_resample_horizontal *horizontal)
{
    return (size_t)horizontal->row_bytes * sizeof(uint64_t);
}

static void horizontal_make_c(struct mr_resample_horizontal *horizontal)
{
    (void)horizontal;
}

/*
 * Put two rows into the halves of 64-bit words, so that one multiplication serves both. No carry
 * reaches the upper half. If the lower half is below 0 at the end, it has borrowed one from the
 * upper half.
 */
static void pair_rows(const uint8_t *restrict a, const uint8_t *restrict b, uint32_t len,
                      uint64_t *restrict pairs)
{
    for (uint32_t i = 0; i < len; i++)
        pairs[i] = a[i] | (uint64_t)b[i] << 32;
}

/* How a sum becomes a value. */
enum clipping { UNCLIPPED, CLIPPED, CLIPPED_BOTH };

static inline __attribute__((always_inline)) void
filter_pairs(const struct mr_axis *x, uint32_t channels, uint32_t n_taps, enum clipping clipping,
             const uint64_t *restrict pairs, uint8_t *restrict a, uint8_t *restrict b)
{
    const uint32_t *start = x->start;
    const int32_t *weight = x->weight;
    size_t pitch = x->pitch;
    for (uint32_t i = 0; i < x->n; i++, weight++, a += channels, b += channels) {
        const uint64_t *from = pairs + (size_t)start[i] * channels;
        uint64_t sum[4];
        for (uint32_t c = 0; c < channels; c++)
            sum[c] = HALF | (uint64_t)HALF << 32;
        for (uint32_t k = 0; k < n_taps; k++) {
            int32_t w = weight[k * pitch];
            for (uint32_t c = 0; c < channels; c++)
                sum[c] += from[k * channels + c] *
                          (clipping == CLIPPED_BOTH ? (uint64_t)(int64_t)w : (uint32_t)w);
        }
        for (uint32_t c = 0; c < channels; c++) {
            uint32_t low = (uint32_t)sum[c], high = (uint32_t)(sum[c] >> 32);
            if (clipping == CLIPPED_BOTH) {
                a[c] = clip_both(low);
                b[c] = clip_both(high + (low >> 31));
            } else {
                a[c] = clipping == CLIPPED ? clip_sum(low) : (uint8_t)(low >> MR_WEIGHT_BITS);
                b[c] = clipping == CLIPPED ? clip_sum(high) : (uint8_t)(high >> MR_WEIGHT_BITS);
            }
        }
    }
}

/* Common numbers of taps as constants, so that the inner loops are unrolled. */
static inline __attribute__((always_inline)) void filter_by_taps(const struct mr_axis *x,
                                                                 uint32_t channels,
                                                                 const uint64_t *pairs, uint8_t *a,
                                                                 uint8_t *b)
{
    if (x->overshoots) {
        filter_pairs(x, channels, x->max_taps, CLIPPED_BOTH, pairs, a, b);
        return;
    }
    switch (x->max_taps) {
    case 2: filter_pairs(x, channels, 2, UNCLIPPED, pairs, a, b); break;
    case 3: filter_pairs(x, channels, 3, UNCLIPPED, pairs, a, b); break;
    case 4: filter_pairs(x, channels, 4, UNCLIPPED, pairs, a, b); break;
    case 5: filter_pairs(x, channels, 5, UNCLIPPED, pairs, a, b); break;
    default:
        if (x->max_taps > MAX_TAPS_UNCLIPPED)
            filter_pairs(x, channels, x->max_taps, CLIPPED, pairs, a, b);
        else
            filter_pairs(x, channels, x->max_taps, UNCLIPPED, pairs, a, b);
    }
}

static void horizontal_c(const struct mr_resample_horizontal *horizontal,
                         const uint8_t *const rows[MR_STRIP_ROWS], uint8_t *strip)
{
    uint64_t *pairs = (uint64_t *)(void *)horizontal->tables;
    for (uint32_t i = 0; i < MR_STRIP_ROWS; i += 2) {
        uint8_t *a = strip + i * horizontal->stride, *b = a + horizontal->stride;
        pair_rows(rows[i], rows[i + 1], horizontal->row_bytes, pairs);
        switch (horizontal->channels) {
        case 1: filter_by_taps(horizontal->x, 1, pairs, a, b); break;
        case 3: filter_by_taps(horizontal->x, 3, pairs, a, b); break;
        default: filter_by_taps(horizontal->x, 4, pairs, a, b); break;
        }
    }
}

static void put_rows_c(const uint8_t *const rows[MR_STRIP_ROWS], uint32_t n, size_t stride,
                       uint8_t *strip)
{
    for (uint32_t i = 0; i < MR_STRIP_ROWS; i++)
        memcpy(strip + i * stride, rows[i], n);
}

static void take_row_c(const uint8_t *strip, size_t stride, uint32_t i, uint32_t n, uint8_t *out)
{
    memcpy(out, strip + i * stride, n);
}

/* The vertical pass. The tables hold the taps of one output: rows, then weights. */

static size_t vertical_bytes_c(const struct mr_axis *y)
{
    size_t len;
    return mr_checked_mul(y->max_taps, sizeof(uint8_t *) + sizeof(int32_t), &len) ? len : SIZE_MAX;
}

static void vertical_make_c(struct mr_resample_vertical *vertical)
{
    (void)vertical;
}

static inline __attribute__((always_inline)) void sum_rows(const uint8_t *const *rows,
                                                           const int32_t *weight, uint32_t n_taps,
                                                           uint32_t len, uint8_t *restrict out)
{
    for (uint32_t i = 0; i < len; i++) {
        uint32_t sum = HALF;
        for (uint32_t k = 0; k < n_taps; k++)
            sum += (uint32_t)weight[k] * rows[k][i];
        out[i] = (uint8_t)(sum >> MR_WEIGHT_BITS);
    }
}

/* For any number of taps: strips that fit on the stack, one row after the other. */
static void sum_many_rows(const uint8_t *const *rows, const int32_t *weight, uint32_t n_taps,
                          bool overshoots, uint32_t len, uint8_t *restrict out)
{
    enum { STRIP = 512 };
    uint32_t sums[STRIP];
    for (uint32_t at = 0; at < len; at += STRIP) {
        uint32_t n = len - at < STRIP ? len - at : STRIP;
        for (uint32_t i = 0; i < n; i++)
            sums[i] = HALF;
        for (uint32_t k = 0; k < n_taps; k++) {
            const uint8_t *row = rows[k] + at;
            uint32_t w = (uint32_t)weight[k];
            for (uint32_t i = 0; i < n; i++)
                sums[i] += w * row[i];
        }
        for (uint32_t i = 0; i < n; i++)
            out[at + i] = overshoots ? clip_both(sums[i]) : clip_sum(sums[i]);
    }
}

static void vertical_c(const struct mr_resample_vertical *vertical, uint32_t i,
                       const uint8_t *const *strips, uint32_t n, uint8_t *out)
{
    const struct mr_axis *y = vertical->y;
    uint32_t start = y->start[i], count = y->count[i];
    const uint8_t **rows = (const uint8_t **)(void *)vertical->tables;
    int32_t *weight = (int32_t *)(void *)(rows + y->max_taps);
    for (uint32_t k = 0; k < count; k++) {
        uint32_t at = start % MR_STRIP_ROWS + k;
        rows[k] = strips[at / MR_STRIP_ROWS] + at % MR_STRIP_ROWS * vertical->stride;
        weight[k] = y->weight[(size_t)k * y->pitch + i];
    }
    switch (y->overshoots ? 0 : count) {
    case 1: sum_rows(rows, weight, 1, n, out); break;
    case 2: sum_rows(rows, weight, 2, n, out); break;
    case 3: sum_rows(rows, weight, 3, n, out); break;
    case 4: sum_rows(rows, weight, 4, n, out); break;
    default: sum_many_rows(rows, weight, count, y->overshoots, n, out); break;
    }
}

/*
 * To the tensor. By table, so that floats are those of fmaf() on every machine; u8 has only 256
 * values.
 */

static void put_values(const struct mr_tensor_writer *writer, const uint8_t *row, size_t n,
                       size_t step, uint32_t c, void *out, size_t out_step)
{
    const float *floats = writer->dtype == MR_F32 ? writer->table[c] : NULL;
    const uint16_t *halves =
        writer->dtype == MR_F32 || writer->dtype == MR_U8 ? NULL : writer->half[c];
    for (size_t i = 0; i < n; i++) {
        uint8_t value = row[i * step];
        if (floats)
            ((float *)out)[i * out_step] = floats[value];
        else if (halves)
            ((uint16_t *)out)[i * out_step] = halves[value];
        else
            ((uint8_t *)out)[i * out_step] = value;
    }
}

static void planes_c(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                     void *const out[3])
{
    for (uint32_t c = 0; c < 3; c++)
        put_values(writer, row + c, n, 3, c, out[c], 1);
}

static void values_c(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                     uint32_t first, uint32_t channels, void *out)
{
    size_t size = mr_dtype_size(writer->dtype);
    for (uint32_t c = 0; c < channels && c < n; c++)
        put_values(writer, row + c, (n - c + channels - 1) / channels, channels, first + c,
                   (uint8_t *)out + c * size, channels);
}

static void mirror_c(const uint8_t *row, uint32_t n, uint32_t channels, uint8_t *out)
{
    for (size_t i = 0; i < n; i++)
        for (uint32_t c = 0; c < channels; c++)
            out[i * channels + c] = row[(n - 1 - i) * channels + c];
}

const struct mr_kernel_ops mr_kernels_c = {
    .cpu = MR_CPU_C,
    .strip_bytes = MR_STRIP_ROWS,
    .fill = NULL,
    .horizontal_bytes = horizontal_bytes_c,
    .horizontal_make = horizontal_make_c,
    .horizontal = horizontal_c,
    .put_rows = put_rows_c,
    .take_row = take_row_c,
    .vertical_bytes = vertical_bytes_c,
    .vertical_make = vertical_make_c,
    .vertical = vertical_c,
    .planes = planes_c,
    .values = values_c,
    .mirror = mirror_c,
    .mix_floats = mix_floats,
    .mix_bytes = mix_bytes,
    .expand_dct = mr_tile_expand_dct,
    .xxh3 = mr_xxh3,
    .encode_dct = mr_tile_encode_dct,
    .scan_clean = mr_scan_clean_c,
    .scan_store = mr_scan_store_c,
    .scan_skip = mr_scan_skip_c,
    .image = &mr_image_loops_c,
};
