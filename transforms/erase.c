/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws boxes in the order of torchvision's RandomErasing, and the values that fill them. Each box
 * has its own place for normal numbers, besides the operation's place. So the values can be made
 * from the box alone, wherever floats are made.
 */
#include "transforms/erase.h"

#include <math.h>

enum { MAX_ATTEMPTS = 10 };

/* random_erasing is the last of the list, after the operations in plan->ops. */
static uint32_t find_place(const struct mr_plan *plan)
{
    return plan->n_ops + 1;
}

/* RandomErasing.get_params; f32 where torch has f32 tensors, double where Python computes. */
static bool draw_box(const struct mr_op *op, uint32_t n_boxes, uint32_t width, uint32_t height,
                     struct mr_rng *rng, struct mr_erase_box *box_out)
{
    float log_lo = (float)log((double)(float)op->ratio[0]);
    float log_hi = (float)log((double)(float)op->ratio[1]);
    double area = (double)width * (double)height;
    for (int attempt = 0; attempt < MAX_ATTEMPTS; attempt++) {
        double target =
            area * (double)mr_rng_uniform(rng, (float)op->scale[0], (float)op->scale[1]) / n_boxes;
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

/* Set each channel's value if it is the same in the whole box: a constant or `rand`. */
static void set_values(const struct mr_plan *plan, const struct mr_rng *rng, struct mr_erase *erase,
                       uint32_t k)
{
    const struct mr_op *op = &plan->erase;
    struct mr_rng normals;
    mr_rng_init_place(&normals, rng, erase->place + k);
    for (uint32_t c = 0; c < plan->channels; c++)
        erase->boxes[k].values[c] = op->erase_mode == MR_ERASE_RAND
                                        ? mr_normal_of(mr_normal_nodes, mr_rng_u32(&normals))
                                        : (float)op->mean[op->n_channels == 1 ? 0 : c];
}

void mr_erase_draw(const struct mr_plan *plan, uint32_t width, uint32_t height,
                   const struct mr_rng *rng, struct mr_erase *erase_out)
{
    const struct mr_op *op = &plan->erase;
    struct mr_rng own;
    *erase_out = (struct mr_erase){.key = {rng->key[0], rng->key[1]},
                                   .index = rng->counter[0],
                                   .occurrence = rng->counter[3],
                                   .place = find_place(plan) + 1,
                                   .is_random = op->erase_mode == MR_ERASE_RANDOM};
    if (op->kind != MR_OP_RANDOM_ERASING)
        return;
    mr_rng_init_place(&own, rng, find_place(plan));
    if (!mr_rng_chance(&own, (double)(float)op->p))
        return;
    uint32_t n = op->count > 1 ? 1 + mr_rng_below(&own, op->count) : 1;
    for (uint32_t k = 0; k < n; k++)
        erase_out->n += draw_box(op, n, width, height, &own, &erase_out->boxes[erase_out->n]);
    for (uint32_t k = 0; k < erase_out->n && !erase_out->is_random; k++)
        set_values(plan, rng, erase_out, k);
}

bool mr_erase_is_deferred(const struct mr_plan *plan)
{
    return plan->erase.kind == MR_OP_RANDOM_ERASING && plan->dtype == MR_U8;
}

void mr_erase_run(const struct mr_plan *plan, const struct mr_erase *erase, void *tensor)
{
    bool planes = plan->layout == MR_NCHW;
    const struct mr_erasing_tensor floats = {
        .data = tensor,
        .dtype = plan->dtype,
        .height = plan->out_height,
        .width = plan->out_width,
        .channels = plan->channels,
        .pixel_stride = planes ? 1 : plan->channels,
        .channel_stride = planes ? (size_t)plan->out_height * plan->out_width : 1};
    mr_erasing_run(erase, &floats);
}

void mr_erase_sample(const struct mr_plan *plan, struct mr_rng *rng, void *out,
                     struct mr_erase *erase_out)
{
    mr_erase_draw(plan, plan->out_width, plan->out_height, rng, erase_out);
    if (!mr_erase_is_deferred(plan))
        mr_erase_run(plan, erase_out, out);
}
