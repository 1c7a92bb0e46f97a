/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rows to tensors on vectors of any width; tensor_write_avx2.c and tensor_write_avx512.c include
 * it. They first define: FLOATS, a vector; VEC_OP(name), an operation on it; fused() and
 * fused_minus().
 *
 * Invariant: x * scale + bias is rounded once, by a fused instruction. Quotients take the steps of
 * divide_twice() in transforms/tensor_write.c. Static functions only, as in all headers of the
 * vector files.
 */
#ifndef TRANSFORMS_SIMD_TENSOR_WRITE_SIMD_H
#define TRANSFORMS_SIMD_TENSOR_WRITE_SIMD_H

#include "transforms/tensor_write.h"

/* How bytes become floats; only quotients use std and mend. */
struct rule {
    FLOATS scale, bias, std, mend;
};

INLINE FLOATS make_floats(bool divides, FLOATS x, const struct rule *rule)
{
    if (!divides)
        return fused(x, rule->scale, rule->bias);
    FLOATS near = VEC_OP(mul_ps)(x, VEC_OP(set1_ps)(1.0f / 255.0f));
    FLOATS share = fused(fused_minus(near, VEC_OP(set1_ps)(255.0f), x), rule->mend, near);
    FLOATS from_mean = VEC_OP(add_ps)(share, rule->bias),
           value = VEC_OP(mul_ps)(from_mean, rule->scale);
    return fused(fused_minus(value, rule->std, from_mean), rule->scale, value);
}

/*
 * Each set of instructions defines these two. put_pixels() writes the n pixels of a row to three
 * planes; put_values_by() writes the n values of a row as they are, n a multiple of channels.
 */
INLINE void put_pixels(mr_dtype dtype, bool divides, const uint8_t *row, uint32_t n,
                       const struct rule rule[3], void *const out[3]);
INLINE void put_values_by(mr_dtype dtype, bool divides, const struct mr_tensor_writer *writer,
                          const uint8_t *row, uint32_t n, uint32_t first, uint32_t channels,
                          void *out);
/*
 * Each set defines this too: fill three vectors. Vector i holds channels i * lanes,
 * i * lanes + 1, ... modulo `channels` (1 or 3), beginning with first.
 */
INLINE void repeat_channels(const float *of_channel, uint32_t first, uint32_t channels,
                            FLOATS out[3]);

INLINE void put_planes_by(mr_dtype dtype, bool divides, const struct mr_tensor_writer *writer,
                          const uint8_t *row, uint32_t n, void *const out[3])
{
    struct rule rule[3];
    for (int c = 0; c < 3; c++)
        rule[c] = (struct rule){.scale = VEC_OP(set1_ps)(writer->scale[c]),
                                .bias = VEC_OP(set1_ps)(writer->bias[c]),
                                .std = VEC_OP(set1_ps)(divides ? writer->std[c] : 0),
                                .mend = VEC_OP(set1_ps)(writer->mend)};
    put_pixels(dtype, divides, row, n, rule, out);
}

INLINE void put_typed_planes(mr_dtype dtype, const struct mr_tensor_writer *writer,
                             const uint8_t *row, uint32_t n, void *const out[3])
{
    if (writer->std)
        put_planes_by(dtype, true, writer, row, n, out);
    else
        put_planes_by(dtype, false, writer, row, n, out);
}

/* Split a row into planes of floats. Planes of bytes are split by each set itself. */
INLINE void put_planes(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                       void *const out[3])
{
    if (writer->dtype == MR_F32)
        put_typed_planes(MR_F32, writer, row, n, out);
    else if (writer->dtype == MR_F16)
        put_typed_planes(MR_F16, writer, row, n, out);
    else
        put_typed_planes(MR_BF16, writer, row, n, out);
}

INLINE void make_rules(const struct mr_tensor_writer *writer, bool divides, uint32_t first,
                       uint32_t channels, struct rule rule[3])
{
    FLOATS scale[3], bias[3], std[3];
    repeat_channels(writer->scale, first, channels, scale);
    repeat_channels(writer->bias, first, channels, bias);
    repeat_channels(divides ? writer->std : writer->scale, first, channels, std);
    for (int i = 0; i < 3; i++)
        rule[i] = (struct rule){scale[i], bias[i], std[i], VEC_OP(set1_ps)(writer->mend)};
}

INLINE void put_typed_values(mr_dtype dtype, const struct mr_tensor_writer *writer,
                             const uint8_t *row, uint32_t n, uint32_t first, uint32_t channels,
                             void *out)
{
    if (writer->std)
        put_values_by(dtype, true, writer, row, n, first, channels, out);
    else
        put_values_by(dtype, false, writer, row, n, first, channels, out);
}

INLINE void put_values(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                       uint32_t first, uint32_t channels, void *out)
{
    if (writer->dtype == MR_F32)
        put_typed_values(MR_F32, writer, row, n, first, channels, out);
    else if (writer->dtype == MR_F16)
        put_typed_values(MR_F16, writer, row, n, first, channels, out);
    else
        put_typed_values(MR_BF16, writer, row, n, first, channels, out);
}

#endif
