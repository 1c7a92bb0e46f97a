/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stage: from finished u8 rows to the tensor. Measures the cost of dtype and layout; the rows are
 * the same for every photograph.
 */
#include "bench/stages.h"

#include "base/clock.h"
#include "transforms/tensor_write.h"

#include <stdlib.h>
#include <string.h>

enum { SIDE = 224, ROW_BYTES = 3 * SIDE };

/* Channel c of pixel (x, y) of the source: arbitrary bytes that differ from row to row. */
static uint8_t source_value(uint32_t y, uint32_t x, uint32_t c)
{
    return (uint8_t)(x * 7 + y * 13 + c * 31);
}

/* Rows as the resampler writes them: interleaved pixels. */
static void make_rows(uint8_t *rows)
{
    for (uint32_t y = 0; y < SIDE; y++)
        for (uint32_t i = 0; i < ROW_BYTES; i++)
            *rows++ = source_value(y, i / 3, i % 3);
}

static bool is_right_at(const struct mr_plan *plan, const void *out, size_t at, uint32_t c,
                        uint8_t value)
{
    if (plan->dtype == MR_U8)
        return ((const uint8_t *)out)[at] == value;
    if (plan->dtype == MR_F32)
        return ((const float *)out)[at] == plan->table[c][value];
    return ((const uint16_t *)out)[at] == mr_tensor_write_f16(plan->table[c][value]);
}

/* Checks the rule for floats, written here a second time; u8 must not change. */
static bool is_right(const struct mr_plan *plan, const void *out)
{
    for (uint32_t y = 0; y < SIDE; y++)
        for (uint32_t x = 0; x < SIDE; x++)
            for (uint32_t c = 0; c < 3; c++)
                if (!is_right_at(plan, out, ((size_t)c * SIDE + y) * SIDE + x, c,
                                 source_value(y, x, c)))
                    return false;
    return true;
}

static void convert_all(const struct mr_tensor_writer *writer, const uint8_t *rows, uint64_t n)
{
    for (uint64_t i = 0; i < n; i++)
        for (uint32_t y = 0; y < SIDE; y++) {
            memcpy(mr_tensor_write_target(writer, y), rows + (size_t)y * ROW_BYTES, ROW_BYTES);
            mr_tensor_write_commit(writer, y);
        }
}

static mr_status run_dtype(const struct mr_photos *photos, mr_dtype dtype, struct mr_run *run,
                           mr_error *error)
{
    static const double mean[3] = {0.485, 0.456, 0.406}, deviation[3] = {0.229, 0.224, 0.225};
    struct mr_plan *plan = malloc(sizeof *plan);
    struct mr_tensor_write_half *half = malloc(sizeof *half);
    uint8_t *rows = malloc((size_t)SIDE * ROW_BYTES), *row = malloc(ROW_BYTES);
    void *out = malloc((size_t)SIDE * ROW_BYTES * sizeof(float));
    mr_status status = MR_OK;
    if (plan && half && rows && row && out) {
        *plan = photos->plan;
        plan->dtype = dtype;
        mr_tensor_write_tables(plan, mean, deviation, 3, false);
        mr_tensor_write_half_init(half, plan);
        struct mr_tensor_writer writer = {.kernels = mr_kernels_best(),
                                          .out = out,
                                          .width = SIDE,
                                          .height = SIDE,
                                          .channels = 3,
                                          .dtype = dtype,
                                          .layout = MR_NCHW,
                                          .table = plan->table,
                                          .half = half->table,
                                          .scale = plan->scale,
                                          .bias = plan->bias,
                                          .row = row};
        make_rows(rows);
        uint64_t start = mr_clock_now_ns();
        convert_all(&writer, rows, photos->n);
        run->seconds = (double)(mr_clock_now_ns() - start) / 1e9;
        run->n_items = photos->n;
        run->n_wrong = is_right(plan, out) ? 0 : photos->n;
    } else {
        status = mr_error_memory(error, (size_t)SIDE * ROW_BYTES * sizeof(float));
    }
    free(out);
    free(row);
    free(rows);
    free(half);
    free(plan);
    return status;
}

static mr_status run_u8(void *user, struct mr_run *run, mr_error *error)
{
    return run_dtype(user, MR_U8, run, error);
}

static mr_status run_f32(void *user, struct mr_run *run, mr_error *error)
{
    return run_dtype(user, MR_F32, run, error);
}

static mr_status run_f16(void *user, struct mr_run *run, mr_error *error)
{
    return run_dtype(user, MR_F16, run, error);
}

void mr_stage_convert_add(struct mr_engine *engine, struct mr_photos *photos)
{
    mr_engine_add(engine, "convert, u8 nchw", run_u8, photos);
    mr_engine_add(engine, "convert, f32 nchw", run_f32, photos);
    mr_engine_add(engine, "convert, f16 nchw", run_f16, photos);
}
