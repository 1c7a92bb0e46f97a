/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes u8 rows as u8, f32, f16 or bf16, NCHW or NHWC.
 *
 * Invariant: floats are fma(x, scale, bias) on every machine. The exception is a plan that asks for
 * torch's order of operations. Its floats come from a table: plain C reads it, and vectors compute
 * the same values if they can compute all of it.
 */
#include "transforms/tensor_write.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

uint16_t mr_tensor_write_bf16(float value)
{
    return mr_half_bf16(value);
}

uint16_t mr_tensor_write_f16(float value)
{
    return mr_half_f16(value);
}

static bool same_bits(float a, float b)
{
    return memcmp(&a, &b, sizeof a) == 0;
}

/* What a vector computes from one byte. */
static float divide_twice(const struct mr_quotients *quotients, uint32_t c, float x)
{
    float near = x * (1.0f / 255.0f);
    float share = fmaf(fmaf(-near, 255.0f, x), quotients->mend, near);
    float from_mean = share + quotients->minus_mean[c];
    float value = from_mean * quotients->inverse[c];
    return fmaf(fmaf(-value, quotients->std[c], from_mean), quotients->inverse[c], value);
}

/* A std that is tiny or huge has no usable inverse; then only the table is used. */
static void find_quotients(struct mr_plan *plan, const float *mean, const float *std,
                           bool multiplies)
{
    struct mr_quotients *quotients = &plan->quotients;
    quotients->usable = 1;
    quotients->mend = multiplies ? 0.0f : 1.0f / 255.0f;
    for (uint32_t c = 0; c < plan->channels; c++) {
        quotients->inverse[c] = 1.0f / std[c];
        quotients->minus_mean[c] = -mean[c];
        quotients->std[c] = std[c];
        for (int x = 0; x < 256; x++)
            if (!same_bits(divide_twice(quotients, c, (float)x), plan->table[c][x]))
                quotients->usable = 0;
    }
}

/* A step's result in the dtype that torch would compute in. */
static float round_step(const struct mr_plan *plan, enum mr_exact exact, float value)
{
    if (exact != MR_EXACT_V1_HALF && exact != MR_EXACT_V2_HALF)
        return value;
    return plan->dtype == MR_F16    ? mr_half_from_f16(mr_half_f16(value))
           : plan->dtype == MR_BF16 ? mr_half_from_bf16(mr_half_bf16(value))
                                    : value;
}

void mr_tensor_write_tables(struct mr_plan *plan, const double *mean, const double *std,
                            uint32_t n_channels, enum mr_exact exact)
{
    float means[4], stds[4];
    bool multiplies = exact == MR_EXACT_V2 || exact == MR_EXACT_V2_HALF;
    plan->exact = exact != MR_EXACT_NONE;
    for (uint32_t c = 0; c < plan->channels; c++) {
        uint32_t from = n_channels == 1 ? 0 : c;
        double m = n_channels ? mean[from] : 0.0;
        double s = n_channels ? std[from] : 1.0;
        means[c] = round_step(plan, exact, (float)m);
        stds[c] = round_step(plan, exact, (float)s);
        plan->scale[c] = (float)(1.0 / (255.0 * s));
        plan->bias[c] = n_channels ? (float)(-m / s) : 0.0f;
        for (int x = 0; x < 256; x++) {
            float share = multiplies ? (float)x * (float)(1.0 / 255.0) : (float)x / 255.0f;
            float from_mean = round_step(plan, exact, round_step(plan, exact, share) - means[c]);
            float in_torch_order = round_step(plan, exact, from_mean / stds[c]);
            plan->table[c][x] =
                plan->exact ? in_torch_order : fmaf((float)x, plan->scale[c], plan->bias[c]);
        }
    }
    if (plan->exact)
        find_quotients(plan, means, stds, multiplies);
}

void mr_tensor_write_set_rule(struct mr_tensor_writer *writer, const struct mr_plan *plan)
{
    const struct mr_quotients *quotients = &plan->quotients;
    writer->table = plan->table;
    if (!plan->exact) {
        writer->scale = plan->scale;
        writer->bias = plan->bias;
    } else if (quotients->usable) {
        writer->scale = quotients->inverse;
        writer->bias = quotients->minus_mean;
        writer->std = quotients->std;
        writer->mend = quotients->mend;
    }
}

void mr_tensor_write_half_init(struct mr_tensor_write_half *half, const struct mr_plan *plan)
{
    for (uint32_t c = 0; c < plan->channels; c++)
        for (int x = 0; x < 256; x++) {
            float value = plan->table[c][x];
            half->table[c][x] =
                plan->dtype == MR_BF16 ? mr_tensor_write_bf16(value) : mr_tensor_write_f16(value);
        }
}

/* A lone channel that is spread is stored after the three that are made from it. */
uint32_t mr_tensor_write_row_bytes(const struct mr_plan *plan)
{
    return plan->channels + (plan->channels != plan->work_channels);
}

static bool is_planar(const struct mr_tensor_writer *writer)
{
    return writer->layout == MR_NCHW && writer->channels == 3;
}

bool mr_tensor_write_is_in_place(const struct mr_tensor_writer *writer)
{
    return writer->dtype == MR_U8 && !writer->spread && !is_planar(writer);
}

/* Row y of a plane (planar), or row y. */
static void *find_out(const struct mr_tensor_writer *writer, uint32_t y, uint32_t plane)
{
    size_t row = is_planar(writer) ? writer->width : (size_t)writer->width * writer->channels;
    return writer->out + ((size_t)plane * writer->height + y) * row * mr_dtype_size(writer->dtype);
}

uint8_t *mr_tensor_write_target(const struct mr_tensor_writer *writer, uint32_t y)
{
    if (mr_tensor_write_is_in_place(writer))
        return writer->out + (size_t)y * writer->width * writer->channels;
    return writer->spread ? writer->row + (size_t)writer->channels * writer->width : writer->row;
}

static void put_values(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                       uint32_t first, uint32_t channels, void *out)
{
    if (writer->dtype == MR_U8)
        memcpy(out, row, n);
    else if (writer->scale)
        writer->kernels->values(writer, row, n, first, channels, out);
    else
        mr_kernels_c.values(writer, row, n, first, channels, out);
}

/* Write three equal channels from one. */
static void spread_row(const struct mr_tensor_writer *writer, const uint8_t *one, uint32_t y)
{
    if (is_planar(writer)) {
        for (uint32_t c = 0; c < 3; c++)
            put_values(writer, one, writer->width, c, 1, find_out(writer, y, c));
        return;
    }
    for (size_t x = 0; x < writer->width; x++)
        writer->row[3 * x] = writer->row[3 * x + 1] = writer->row[3 * x + 2] = one[x];
    put_values(writer, writer->row, 3 * writer->width, 0, 3, find_out(writer, y, 0));
}

static inline __attribute__((always_inline)) void put_row(const struct mr_tensor_writer *writer,
                                                          const uint8_t *row, uint32_t y)
{
    if (writer->spread) {
        spread_row(writer, row, y);
    } else if (is_planar(writer)) {
        uint8_t *first = find_out(writer, y, 0);
        size_t plane = (size_t)writer->height * writer->width * mr_dtype_size(writer->dtype);
        void *const out[3] = {first, first + plane, first + 2 * plane};
        const struct mr_kernel_ops *kernels =
            writer->scale || writer->dtype == MR_U8 ? writer->kernels : &mr_kernels_c;
        kernels->planes(writer, row, writer->width, out);
    } else {
        put_values(writer, row, writer->width * writer->channels, 0, writer->channels,
                   find_out(writer, y, 0));
    }
}

void mr_tensor_write_commit(const struct mr_tensor_writer *writer, uint32_t y)
{
    if (!mr_tensor_write_is_in_place(writer))
        put_row(writer, mr_tensor_write_target(writer, y), y);
}

void mr_tensor_write_commit_row(const struct mr_tensor_writer *writer, const uint8_t *row,
                                uint32_t y)
{
    put_row(writer, row, y);
}
