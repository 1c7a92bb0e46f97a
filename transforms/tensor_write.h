/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes finished u8 rows into the tensor: dtype, normalization and layout in one step, each
 * element written once.
 */
#ifndef TRANSFORMS_TENSOR_WRITE_H
#define TRANSFORMS_TENSOR_WRITE_H

#include "transforms/simd/kernels.h"
#include "transforms/plan.h"

/* The 16-bit values of f16 and bf16, for lookup. */
struct mr_tensor_write_half {
    uint16_t table[4][256];
};

struct mr_tensor_writer {
    const struct mr_kernel_ops *kernels;
    uint8_t *out;
    uint32_t width;
    uint32_t height;
    uint32_t channels;
    mr_dtype dtype; /* MR_U8, MR_F32, MR_F16, MR_BF16 */
    mr_layout layout;
    const float (*table)[256];   /* f32 */
    const uint16_t (*half)[256]; /* f16, bf16 */
    const float *scale; /* the tables' values are fma(x, scale[c], bias[c]); NULL: look them up */
    const float *bias;
    const float *std; /* not NULL: their values are those of struct mr_quotients instead, where
                         scale is the inverse and bias is minus the mean */
    float mend;
    bool spread;  /* rows come with one channel, which becomes three equal ones in the output */
    uint8_t *row; /* scratch, mr_tensor_write_row_bytes() for each pixel; rows that stay u8 pixels
                     are written in place instead */
};

/* f32 to f16 and bf16, to nearest, ties to even. */
uint16_t mr_tensor_write_f16(float value);
uint16_t mr_tensor_write_bf16(float value);

/*
 * Fill plan->scale, bias and table from mean and deviation, n_channels (1 or 3) of each; n_channels
 * 0: x / 255.
 */
void mr_tensor_write_tables(struct mr_plan *plan, const double *mean, const double *std,
                            uint32_t n_channels, enum mr_exact exact);

/* The tables of a plan whose dtype is f16 or bf16. */
void mr_tensor_write_half_init(struct mr_tensor_write_half *half, const struct mr_plan *plan);

/* Set how floats are computed: table, scale, bias, std and mend, from the plan. */
void mr_tensor_write_set_rule(struct mr_tensor_writer *writer, const struct mr_plan *plan);

/* Bytes of scratch for each pixel of a row. */
uint32_t mr_tensor_write_row_bytes(const struct mr_plan *plan);

/* True: mr_tensor_write_target() is in the output itself, so nothing has to be committed. */
bool mr_tensor_write_is_in_place(const struct mr_tensor_writer *writer);
/* Where to put output row y, as interleaved pixels ... */
uint8_t *mr_tensor_write_target(const struct mr_tensor_writer *writer, uint32_t y);
/* ... and, after that, write it into the tensor. */
void mr_tensor_write_commit(const struct mr_tensor_writer *writer, uint32_t y);
/* Write output row y directly from `row`, not from the target. Not for a writer in place. */
void mr_tensor_write_commit_row(const struct mr_tensor_writer *writer, const uint8_t *row,
                                uint32_t y);

#endif
