/* SPDX-License-Identifier: Apache-2.0 */
/*
 * u8 rows to u8, f32, f16 or bf16, NCHW or NHWC. Easy to get wrong: floats must be those of fma(x, scale, bias) on
 * every machine, so they are looked up in tables that were made by fmaf() once (and u8 has only 256 values).
 */
#include "transforms/store.h"

#include "base/half.h"

#include <math.h>
#include <string.h>

uint16_t mr_store_bf16(float value)
{
    return mr_half_bf16(value);
}

uint16_t mr_store_f16(float value)
{
    return mr_half_f16(value);
}

void mr_store_tables(struct mr_plan *plan, const double *mean, const double *std, uint32_t n_channels, bool exact)
{
    plan->exact = exact;
    for (uint32_t c = 0; c < plan->channels; c++) {
        uint32_t from = n_channels == 1 ? 0 : c;
        double m = n_channels ? mean[from] : 0.0;
        double s = n_channels ? std[from] : 1.0;
        plan->scale[c] = (float)(1.0 / (255.0 * s));
        plan->bias[c] = n_channels ? (float)(-m / s) : 0.0f;
        for (int x = 0; x < 256; x++) {
            float in_torch_order = ((float)x / 255.0f - (float)m) / (float)s;
            plan->table[c][x] = exact ? in_torch_order : fmaf((float)x, plan->scale[c], plan->bias[c]);
        }
    }
}

void mr_store_half_init(struct mr_store_half *half, const struct mr_plan *plan)
{
    for (uint32_t c = 0; c < plan->channels; c++)
        for (int x = 0; x < 256; x++) {
            float value = plan->table[c][x];
            half->table[c][x] = plan->dtype == MR_BF16 ? mr_store_bf16(value) : mr_store_f16(value);
        }
}

/* One channel that is spread lies behind the three that are made of it. */
uint32_t mr_store_row_bytes(const struct mr_plan *plan)
{
    return plan->channels + (plan->channels != plan->work_channels);
}

static bool is_planar(const struct mr_store *store)
{
    return store->layout == MR_NCHW && store->channels == 3;
}

uint32_t mr_store_n_planes(const struct mr_store *store)
{
    return is_planar(store) && !store->spread ? 3 : 1;
}

/* Where a plane of row y has all its channels: in the scratch row, or in the output. */
static uint8_t *find_u8(const struct mr_store *store, uint32_t y, uint32_t plane)
{
    if (store->dtype != MR_U8)
        return store->row + (size_t)plane * store->width;
    if (is_planar(store))
        return store->out + ((size_t)plane * store->height + y) * store->width;
    return store->out + (size_t)y * store->width * store->channels;
}

uint8_t *mr_store_target(struct mr_store *store, uint32_t y, uint32_t plane)
{
    return store->spread ? store->row + (size_t)store->channels * store->width : find_u8(store, y, plane);
}

static void spread_row(struct mr_store *store, uint32_t y)
{
    const uint8_t *one = mr_store_target(store, y, 0);
    for (uint32_t c = 0; c < store->channels; c++) {
        uint8_t *out = is_planar(store) ? find_u8(store, y, c) : find_u8(store, y, 0) + c;
        if (is_planar(store))
            memcpy(out, one, store->width);
        for (size_t x = 0; x < store->width && !is_planar(store); x++)
            out[x * store->channels] = one[x];
    }
}

/* Where channel c of a row is: in the scratch row, in the output (in elements), and the step between pixels in both. */
struct run {
    const uint8_t *from;
    size_t to;
    size_t step;
};

static struct run find_run(const struct mr_store *s, uint32_t y, uint32_t c)
{
    if (is_planar(s))
        return (struct run){s->row + (size_t)c * s->width, ((size_t)c * s->height + y) * s->width, 1};
    return (struct run){s->row + c, (size_t)y * s->width * s->channels + c, s->channels};
}

static void put_f32(const struct mr_store *s, uint32_t y, uint32_t c)
{
    struct run run = find_run(s, y, c);
    float *restrict out = (float *)(void *)s->out + run.to;
    const float *table = s->table[c];
    for (size_t i = 0; i < s->width * run.step; i += run.step)
        out[i] = table[run.from[i]];
}

static void put_half(const struct mr_store *s, uint32_t y, uint32_t c)
{
    struct run run = find_run(s, y, c);
    uint16_t *restrict out = (uint16_t *)(void *)s->out + run.to;
    const uint16_t *table = s->half[c];
    for (size_t i = 0; i < s->width * run.step; i += run.step)
        out[i] = table[run.from[i]];
}

void mr_store_commit(struct mr_store *store, uint32_t y)
{
    if (store->spread)
        spread_row(store, y);
    for (uint32_t c = 0; c < store->channels && store->dtype != MR_U8; c++) {
        if (store->dtype == MR_F32)
            put_f32(store, y, c);
        else
            put_half(store, y, c);
    }
}
