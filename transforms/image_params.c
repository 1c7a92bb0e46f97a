/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a node of the list: a structure chooses among its children, an image operation appends its
 * calls.
 */
#include "transforms/image_params.h"

struct walk {
    const struct mr_op *ops;
    const struct mr_rng *rng; /* the sample's; each node derives its own from it */
    uint32_t width;
    uint32_t height;
    struct mr_image_calls *calls;
};

bool mr_image_params_is_image(const struct mr_op *op)
{
    return op->kind >= MR_OP_IMAGE;
}

uint32_t mr_image_params_skip(const struct mr_op *ops, uint32_t i)
{
    uint32_t next = i + 1;
    for (uint32_t k = 0; k < ops[i].n_children; k++)
        next = mr_image_params_skip(ops, next);
    return next;
}

static void draw_node(const struct walk *walk, uint32_t i);

static void draw_children(const struct walk *walk, uint32_t i)
{
    uint32_t child = i + 1;
    for (uint32_t k = 0; k < walk->ops[i].n_children; k++) {
        draw_node(walk, child);
        child = mr_image_params_skip(walk->ops, child);
    }
}

static void draw_child(const struct walk *walk, uint32_t i, uint32_t which)
{
    uint32_t child = i + 1;
    while (which-- > 0)
        child = mr_image_params_skip(walk->ops, child);
    draw_node(walk, child);
}

/* All orders are equally likely (Fisher and Yates). */
static void draw_shuffled(const struct walk *walk, uint32_t i, struct mr_rng *rng)
{
    uint32_t order[MR_PLAN_MAX_OPS], n = walk->ops[i].n_children;
    for (uint32_t k = 0; k < n; k++)
        order[k] = k;
    for (uint32_t k = 0; k < n; k++) {
        uint32_t other = k + mr_rng_below(rng, n - k), which = order[other];
        order[other] = order[k];
        order[k] = which;
        draw_child(walk, i, which);
    }
}

static void draw_image_op(const struct walk *walk, uint32_t i, struct mr_rng *rng)
{
    const struct mr_op *op = &walk->ops[i];
    struct mr_image_params_source draw = {.args = op->args,
                                          .rng = rng,
                                          .width = walk->width,
                                          .height = walk->height,
                                          .calls = walk->calls};
    mr_image_ops[op->image_op].draw(&draw);
}

static void draw_node(const struct walk *walk, uint32_t i)
{
    const struct mr_op *op = &walk->ops[i];
    struct mr_rng own;
    mr_rng_init_place(&own, walk->rng, i + 1);
    switch ((enum mr_op_kind)op->kind) {
    case MR_OP_IMAGE: draw_image_op(walk, i, &own); break;
    case MR_OP_CHAIN: draw_children(walk, i); break;
    case MR_OP_RANDOM_CHOICE: draw_child(walk, i, mr_rng_below(&own, op->n_children)); break;
    case MR_OP_RANDOM_ORDER: draw_shuffled(walk, i, &own); break;
    case MR_OP_RANDOM_APPLY:
        /* torchvision skips if p < torch.rand(1), an f32. */
        if (mr_rng_uniform(&own, 0.0f, 1.0f) <= (float)op->p)
            draw_children(walk, i);
        break;
    default: break;
    }
}

void mr_image_params_node(const struct mr_op *ops, uint32_t i, const struct mr_rng *rng,
                          uint32_t width, uint32_t height, struct mr_image_calls *calls)
{
    const struct walk walk = {
        .ops = ops, .rng = rng, .width = width, .height = height, .calls = calls};
    draw_node(&walk, i);
}
