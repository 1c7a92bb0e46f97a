/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the mixing of a batch. Boxes and lambdas are computed from their draws as in torchvision's
 * CutMix and timm's Mixup. The draws themselves are millrace's.
 */
#include "transforms/mixing/mix_draw.h"

#include "base/gamma.h"

#include <math.h>

/* Not a place of an operation: those are counted from 1 (transforms/image_params.h). */
enum { MIX_PLACE = 0x4d697800 };

bool mr_mix_draw_is_op(uint32_t op_kind)
{
    return op_kind >= MR_OP_MIXUP && op_kind <= MR_OP_TIMM_MIXUP;
}

enum mr_mix_rule mr_mix_draw_rule(uint32_t op_kind)
{
    return op_kind == MR_OP_TIMM_MIXUP ? MR_MIX_BYTES : MR_MIX_FLOATS;
}

float mr_mix_draw_lambda(struct mr_rng *rng, double alpha)
{
    double x = mr_gamma_draw_log(rng, alpha), y = mr_gamma_draw_log(rng, alpha);
    return (float)(1 / (1 + exp(y - x)));
}

static int32_t clamp(int64_t value, uint32_t most)
{
    return value < 0 ? 0 : value > most ? (int32_t)most : (int32_t)value;
}

static void set_weights(struct mr_mix *mix, double lambda)
{
    mix->lambda = (float)lambda;
    mix->rest = (float)(1.0 - lambda);
}

void mr_mix_draw_box(enum mr_mix_rule rule, float lambda, uint32_t x, uint32_t y, uint32_t width,
                     uint32_t height, struct mr_mix *mix)
{
    double side = sqrt(1.0 - (double)lambda); /* of the image's */
    bool halves = rule == MR_MIX_FLOATS;
    int64_t w = (int64_t)((halves ? 0.5 * side : side) * width);
    int64_t h = (int64_t)((halves ? 0.5 * side : side) * height);
    mix->x1 = clamp((int64_t)x - (halves ? w : w / 2), width);
    mix->y1 = clamp((int64_t)y - (halves ? h : h / 2), height);
    mix->x2 = clamp((int64_t)x + (halves ? w : (w + 1) / 2), width);
    mix->y2 = clamp((int64_t)y + (halves ? h : (h + 1) / 2), height);
    double area = (double)(mix->x2 - mix->x1) * (double)(mix->y2 - mix->y1);
    set_weights(mix, 1.0 - area / ((double)width * (double)height));
}

/* If both are possible, one draw decides. */
static bool is_cut(const struct mr_op *op, struct mr_rng *rng)
{
    if (op->alpha[0] > 0 && op->alpha[1] > 0)
        return mr_rng_chance(rng, op->switch_prob);
    return op->alpha[1] > 0;
}

/* Where the box's center is along a side. */
static uint32_t draw_center(struct mr_rng *rng, bool is_view, uint32_t size)
{
    return is_view ? (uint32_t)((uint64_t)mr_rng_u32(rng) * size >> 32) : mr_rng_below(rng, size);
}

void mr_mix_draw_batch(const struct mr_op *op, bool is_view, uint64_t seed, uint64_t epoch,
                       uint64_t batch, uint32_t rank, uint32_t width, uint32_t height,
                       struct mr_mix *mix_out)
{
    struct mr_rng whole, own;
    *mix_out = (struct mr_mix){
        .kind = MR_MIX_NONE, .rule = mr_mix_draw_rule(op->kind), .lambda = 1, .rest = 0};
    mr_rng_init(&whole, seed, epoch, batch);
    mr_rng_set_occurrence(&whole, rank);
    mr_rng_init_place(&own, &whole, MIX_PLACE);
    if (!mr_rng_chance(&own, op->mix_prob))
        return;
    bool cuts = is_cut(op, &own);
    float lambda = mr_mix_draw_lambda(&own, op->alpha[cuts]);
    mix_out->kind = cuts ? MR_MIX_CUT : MR_MIX_UP;
    if (!cuts) {
        set_weights(mix_out, (double)lambda);
        return;
    }
    uint32_t x = draw_center(&own, is_view, width);
    uint32_t y = draw_center(&own, is_view, height);
    mr_mix_draw_box((enum mr_mix_rule)mix_out->rule, lambda, x, y, width, height, mix_out);
}
