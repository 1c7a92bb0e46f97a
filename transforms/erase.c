/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws boxes in the order of torchvision's RandomErasing, and overwrites them. Normal numbers have places of their own
 * beside the operation's, one for each box, so whoever makes floats can make them from the box alone.
 */
#include "transforms/erase.h"

#include "base/half.h"
#include "transforms/normal.h"

#include <math.h>

enum { MAX_ATTEMPTS = 10 };

/* The operation is the last of the list, behind those that the plan has kept. */
static uint32_t own_place(const struct mr_plan *plan)
{
    return plan->n_ops + 1;
}

/* RandomErasing.get_params; f32 where torch has f32 tensors, double where Python computes. */
static bool draw_box(const struct mr_op *op, uint32_t n_boxes, uint32_t width, uint32_t height, struct mr_rng *rng,
                     struct mr_erase_box *box_out)
{
    float log_lo = (float)log((double)(float)op->ratio[0]);
    float log_hi = (float)log((double)(float)op->ratio[1]);
    double area = (double)width * (double)height;
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        double target = area * (double)mr_rng_uniform(rng, (float)op->scale[0], (float)op->scale[1]) / n_boxes;
        double aspect = (double)(float)exp((double)mr_rng_uniform(rng, log_lo, log_hi));
        double h = rint(sqrt(target * aspect));
        double w = rint(sqrt(target / aspect));
        if (!(h < height && w < width))
            continue;
        box_out->h = (int32_t)h;
        box_out->w = (int32_t)w;
        box_out->i = (int32_t)mr_rng_below(rng, height - (uint32_t)h + 1);
        box_out->j = (int32_t)mr_rng_below(rng, width - (uint32_t)w + 1);
        return true;
    }
    return false;
}

void mr_erase_draw(const struct mr_plan *plan, uint32_t width, uint32_t height, const struct mr_rng *rng,
                   struct mr_erase *erase_out)
{
    const struct mr_op *op = &plan->erase;
    struct mr_rng own;
    erase_out->n = 0;
    if (op->kind != MR_OP_RANDOM_ERASING)
        return;
    mr_rng_init_place(&own, rng, own_place(plan));
    if (!mr_rng_chance(&own, (double)(float)op->p))
        return;
    uint32_t n = op->count > 1 ? 1 + mr_rng_below(&own, op->count) : 1;
    for (uint32_t k = 0; k < n; k++)
        erase_out->n += draw_box(op, n, width, height, &own, &erase_out->boxes[erase_out->n]);
}

static struct mr_rng normals_of(const struct mr_plan *plan, const struct mr_rng *rng, uint32_t k)
{
    struct mr_rng own;
    mr_rng_init_place(&own, rng, own_place(plan) + 1 + k);
    return own;
}

void mr_erase_values(const struct mr_plan *plan, const struct mr_rng *rng, uint32_t k, float values_out[4])
{
    const struct mr_op *op = &plan->erase;
    struct mr_rng normals = normals_of(plan, rng, k);
    for (uint32_t c = 0; c < plan->channels; c++)
        values_out[c] = op->erase_mode == MR_ERASE_RAND ? mr_normal_of(mr_rng_u32(&normals))
                                                        : (float)op->mean[op->n_channels == 1 ? 0 : c];
}

static void put_value(const struct mr_plan *plan, void *tensor, size_t at, float value)
{
    if (plan->dtype == MR_F32)
        ((float *)tensor)[at] = value;
    else
        ((uint16_t *)tensor)[at] = plan->dtype == MR_BF16 ? mr_half_bf16(value) : mr_half_f16(value);
}

/* Elements come in torch's order: channel, row, column. */
static void run_box(const struct mr_plan *plan, const struct mr_erase_box *box, uint32_t k, const struct mr_rng *rng,
                    void *tensor)
{
    bool planes = plan->layout == MR_NCHW, is_random = plan->erase.erase_mode == MR_ERASE_RANDOM;
    size_t row = (size_t)plan->out_width * (planes ? 1 : plan->channels), step = planes ? 1 : plan->channels;
    struct mr_rng normals = normals_of(plan, rng, k);
    float values[4];
    if (!is_random)
        mr_erase_values(plan, rng, k, values);
    for (uint32_t c = 0; c < plan->channels; c++) {
        size_t first = planes ? (size_t)c * plan->out_height * plan->out_width : c;
        for (int32_t y = 0; y < box->h; y++) {
            size_t at = first + (size_t)(box->i + y) * row + (size_t)box->j * step;
            for (int32_t x = 0; x < box->w; x++, at += step)
                put_value(plan, tensor, at, is_random ? mr_normal_of(mr_rng_u32(&normals)) : values[c]);
        }
    }
}

void mr_erase_run(const struct mr_plan *plan, const struct mr_erase *erase, const struct mr_rng *rng, void *tensor)
{
    for (uint32_t k = 0; k < erase->n; k++)
        run_box(plan, &erase->boxes[k], k, rng, tensor);
}
