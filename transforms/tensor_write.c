/* SPDX-License-Identifier: Apache-2.0 */
/*
 * u8 rows to u8, f32, f16 or bf16, NCHW or NHWC. Easy to get wrong: floats are those of fma(x, scale, bias) on every
 * machine; where a plan asks for torch's order of operations they are not, and are always looked up.
 */
#include "transforms/tensor_write.h"

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

bool mr_store_is_in_place(const struct mr_store *store)
{
    return store->dtype == MR_U8 && !store->spread && !is_planar(store);
}

/* Row y of a plane (planar), or row y. */
static void *find_out(const struct mr_store *store, uint32_t y, uint32_t plane)
{
    size_t row = is_planar(store) ? store->width : (size_t)store->width * store->channels;
    return store->out + ((size_t)plane * store->height + y) * row * mr_dtype_size(store->dtype);
}

uint8_t *mr_store_target(const struct mr_store *store, uint32_t y)
{
    if (mr_store_is_in_place(store))
        return store->out + (size_t)y * store->width * store->channels;
    return store->spread ? store->row + (size_t)store->channels * store->width : store->row;
}

static void put_values(const struct mr_store *s, const uint8_t *row, uint32_t n, uint32_t first, uint32_t channels,
                       void *out)
{
    if (s->dtype == MR_U8)
        memcpy(out, row, n);
    else if (s->scale)
        s->kernels->values(s, row, n, first, channels, out);
    else
        mr_kernels_c.values(s, row, n, first, channels, out);
}

/* Three equal channels of one. */
static void spread_row(const struct mr_store *store, const uint8_t *one, uint32_t y)
{
    if (is_planar(store)) {
        for (uint32_t c = 0; c < 3; c++)
            put_values(store, one, store->width, c, 1, find_out(store, y, c));
        return;
    }
    for (size_t x = 0; x < store->width; x++)
        store->row[3 * x] = store->row[3 * x + 1] = store->row[3 * x + 2] = one[x];
    put_values(store, store->row, 3 * store->width, 0, 3, find_out(store, y, 0));
}

void mr_store_commit(const struct mr_store *store, uint32_t y)
{
    if (mr_store_is_in_place(store))
        return;
    const uint8_t *row = mr_store_target(store, y);
    if (store->spread) {
        spread_row(store, row, y);
    } else if (is_planar(store)) {
        uint8_t *first = find_out(store, y, 0);
        size_t plane = (size_t)store->height * store->width * mr_dtype_size(store->dtype);
        void *const out[3] = {first, first + plane, first + 2 * plane};
        const struct mr_kernels *kernels = store->scale || store->dtype == MR_U8 ? store->kernels : &mr_kernels_c;
        kernels->planes(store, row, store->width, out);
    } else {
        put_values(store, row, store->width * store->channels, 0, store->channels, find_out(store, y, 0));
    }
}
