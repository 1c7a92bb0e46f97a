/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixes row by row of the picture, so data between two steps stays in the first cache: bytes to
 * floats, erasing, mixing, dtype and layout. timm's rule mixes bytes before all of these.
 */
#include "transforms/mixing/mix_store.h"

#include "transforms/erase.h"
#include "transforms/scratch.h"
#include "transforms/tensor_write.h"

#include <stdlib.h>
#include <string.h>

struct mr_mix_store {
    const struct mr_plan *plan;
    struct mr_tensor_write_half half;
    struct mr_tensor_writer writer; /* for a whole tensor; out is set for each */
    size_t n_values;                /* of a row of the picture */
    size_t n_runs;                  /* runs of adjacent values in a row: one for each plane */
    struct mr_scratch floats;       /* three rows, one after the other */
    struct mr_scratch bytes;        /* one row */
};

mr_status mr_mix_store_create(const struct mr_plan *plan, struct mr_mix_store **store_out,
                              mr_error *error)
{
    *store_out = NULL;
    struct mr_mix_store *store = calloc(1, sizeof *store);
    if (!store)
        return mr_error_memory(error, sizeof *store);
    store->plan = plan;
    store->n_values = (size_t)plan->out_width * plan->channels;
    store->n_runs = plan->layout == MR_NCHW ? plan->channels : 1;
    store->writer = (struct mr_tensor_writer){.kernels = mr_kernels_best(),
                                              .width = plan->out_width,
                                              .height = plan->out_height,
                                              .channels = plan->channels,
                                              .dtype = plan->dtype,
                                              .layout = plan->layout,
                                              .half = store->half.table};
    mr_tensor_write_set_rule(&store->writer, plan);
    if (plan->dtype == MR_F16 || plan->dtype == MR_BF16)
        mr_tensor_write_half_init(&store->half, plan);
    mr_status status = mr_scratch_reserve(&store->floats, 3 * store->n_values + MR_KERNELS_ALIGN,
                                          sizeof(float), error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&store->bytes, store->n_values + MR_KERNELS_ALIGN, 1, error);
    if (status == MR_OK)
        *store_out = store;
    else
        mr_mix_store_destroy(store);
    return status;
}

void mr_mix_store_destroy(struct mr_mix_store *store)
{
    if (!store)
        return;
    mr_scratch_fini(&store->floats);
    mr_scratch_fini(&store->bytes);
    free(store);
}

static const uint8_t *get_row(const struct mr_mix_store *store, const struct mr_mix_row *row,
                              uint32_t y)
{
    return row->pixels + y * store->n_values;
}

/* Erase the boxes of row y alone, in a tensor of only this row; its elements keep their numbers. */
static void erase_row(const struct mr_mix_store *store, const struct mr_erase *erase, uint32_t y,
                      float *row)
{
    const struct mr_plan *plan = store->plan;
    bool planes = plan->layout == MR_NCHW;
    const struct mr_erasing_tensor floats = {.data = row,
                                             .dtype = MR_F32,
                                             .height = 1,
                                             .width = plan->out_width,
                                             .channels = plan->channels,
                                             .pixel_stride = planes ? 1 : plan->channels,
                                             .channel_stride = planes ? plan->out_width : 1};
    struct mr_erase moved = *erase;
    for (uint32_t k = 0; k < mr_erasing_count(erase); k++)
        moved.boxes[k].i = (int32_t)((uint32_t)moved.boxes[k].i - y);
    mr_erasing_run(&moved, &floats);
}

static bool is_in_rows(const struct mr_mix *mix, uint32_t y)
{
    return mix->kind == MR_MIX_UP ||
           (mix->kind == MR_MIX_CUT && mr_mix_in_box(mix, mix->x1, (int32_t)y));
}

/* The bytes of row y, mixed by timm's rule; the own row's if nothing is mixed. */
static const uint8_t *mix_byte_row(const struct mr_mix_store *store, const struct mr_mix *mix,
                                   const struct mr_mix_row *own, const struct mr_mix_row *partner,
                                   uint32_t y)
{
    const uint8_t *from = get_row(store, own, y);
    uint8_t *row = store->bytes.memory;
    size_t channels = store->plan->channels;
    if (!is_in_rows(mix, y))
        return from;
    const uint8_t *other = get_row(store, partner, y);
    if (mix->kind == MR_MIX_UP) {
        store->writer.kernels->mix_bytes(mix, from, other, store->n_values, row);
        return row;
    }
    size_t x1 = (size_t)mix->x1 * channels, x2 = (size_t)mix->x2 * channels;
    memcpy(row, from, store->n_values);
    memcpy(row + x1, other + x1, x2 - x1);
    return row;
}

/* The own row (already mixed with timm's rule), normalized and erased. */
static void store_bytes(const struct mr_mix_store *store, const struct mr_mix *mix,
                        const struct mr_mix_row *own, const struct mr_mix_row *partner, void *out)
{
    struct mr_tensor_writer writer = store->writer;
    writer.out = out;
    for (uint32_t y = 0; y < writer.height; y++)
        mr_tensor_write_commit_row(&writer, mix_byte_row(store, mix, own, partner, y), y);
    if (own->erase)
        mr_erase_run(store->plan, own->erase, out);
}

/* Make a row of f32 in the plan's layout, erased. */
static void make_floats(const struct mr_mix_store *store, const struct mr_mix_row *from, uint32_t y,
                        float *row)
{
    struct mr_tensor_writer writer = store->writer;
    writer.out = (uint8_t *)(void *)row;
    writer.dtype = MR_F32;
    writer.height = 1;
    mr_tensor_write_commit_row(&writer, get_row(store, from, y), 0);
    if (from->erase && from->erase->n > 0)
        erase_row(store, from->erase, y, row);
}

static void put_values(mr_dtype dtype, const float *values, size_t n, uint8_t *out)
{
    uint16_t *halves = (uint16_t *)(void *)out;
    if (dtype == MR_F32)
        memcpy(out, values, n * sizeof *values);
    for (size_t k = 0; dtype == MR_BF16 && k < n; k++)
        halves[k] = mr_half_bf16(values[k]);
    for (size_t k = 0; dtype == MR_F16 && k < n; k++)
        halves[k] = mr_half_f16(values[k]);
}

/* Where value `first` of run c of row y is in the tensor. */
static uint8_t *find_run(const struct mr_mix_store *store, uint8_t *out, size_t c, uint32_t y,
                         size_t first)
{
    size_t n = store->n_values / store->n_runs;
    return out +
           ((c * store->plan->out_height + y) * n + first) * mr_dtype_size(store->plan->dtype);
}

static void store_blended(const struct mr_mix_store *store, const struct mr_mix *mix,
                          const struct mr_mix_row *own, const struct mr_mix_row *partner, void *out)
{
    const struct mr_plan *plan = store->plan;
    float *row = (float *)(void *)mr_scratch_align(&store->floats, MR_KERNELS_ALIGN);
    float *other = row + store->n_values, *blend = other + store->n_values;
    size_t n = store->n_values / store->n_runs;
    for (uint32_t y = 0; y < plan->out_height; y++) {
        make_floats(store, own, y, row);
        make_floats(store, partner, y, other);
        for (size_t c = 0; c < store->n_runs; c++) {
            uint8_t *to = find_run(store, out, c, y, 0);
            float *made = plan->dtype == MR_F32 ? (float *)(void *)to : blend;
            store->writer.kernels->mix_floats(mix, row + c * n, other + c * n, n, made);
            if (plan->dtype != MR_F32)
                put_values(plan->dtype, blend, n, to);
        }
    }
}

/* Store the own row with the partner's box over it. */
static void store_cut(const struct mr_mix_store *store, const struct mr_mix *mix,
                      const struct mr_mix_row *own, const struct mr_mix_row *partner, void *out)
{
    const struct mr_mix none = {.kind = MR_MIX_NONE};
    float *other = (float *)(void *)mr_scratch_align(&store->floats, MR_KERNELS_ALIGN);
    size_t n = store->n_values / store->n_runs, step = store->plan->channels / store->n_runs;
    size_t x1 = (size_t)mix->x1 * step, x2 = (size_t)mix->x2 * step;
    store_bytes(store, &none, own, partner, out);
    for (uint32_t y = (uint32_t)mix->y1; x1 < x2 && y < (uint32_t)mix->y2; y++) {
        make_floats(store, partner, y, other);
        for (size_t c = 0; c < store->n_runs; c++)
            put_values(store->plan->dtype, other + c * n + x1, x2 - x1,
                       find_run(store, out, c, y, x1));
    }
}

void mr_mix_store_run(struct mr_mix_store *store, const struct mr_mix *mix,
                      const struct mr_mix_row *own, const struct mr_mix_row *partner, void *out)
{
    if (mix->rule == MR_MIX_BYTES || mix->kind == MR_MIX_NONE)
        store_bytes(store, mix, own, partner, out);
    else if (mix->kind == MR_MIX_UP)
        store_blended(store, mix, own, partner, out);
    else
        store_cut(store, mix, own, partner, out);
}

void mr_mix_store_label(const struct mr_mix *mix, double smoothing, int64_t own, int64_t partner,
                        uint32_t n, float *out)
{
    double share = smoothing / n;
    float off = (float)share, on = (float)(1.0 - smoothing + share);
    for (uint32_t c = 0; c < n; c++)
        out[c] = mr_mix_floats(mix, c == own ? on : off, c == partner ? on : off);
}
