/* SPDX-License-Identifier: Apache-2.0 */
/* What mixing draws for a batch: whether, how much, and which box. */
#ifndef TRANSFORMS_MIX_DRAW_H
#define TRANSFORMS_MIX_DRAW_H

#include "base/mix.h"
#include "base/rng.h"
#include "transforms/plan.h"

/* True for operations that mix a batch's rows. They come last. */
bool mr_mix_draw_is_op(uint32_t op_kind);

/* The rule of such an operation. */
enum mr_mix_rule mr_mix_draw_rule(uint32_t op_kind);

/*
 * Draw for one batch. The draws depend only on the arguments: after a resumption the same batch of
 * the same rank is mixed in the same way. width and height are the output's. is_view: the box
 * covers the same part of an output of any size, as all views of a sample need it.
 */
void mr_mix_draw_batch(const struct mr_op *op, bool is_view, uint64_t seed, uint64_t epoch,
                       uint64_t batch, uint32_t rank, uint32_t width, uint32_t height,
                       struct mr_mix *mix_out);

/* Beta(alpha, alpha), alpha from 1e-6 to 1000; from 0 to 1, both included. */
float mr_mix_draw_lambda(struct mr_rng *rng, double alpha);

/*
 * Set the box around (x, y) that lambda leaves to the partner, and the lambda of the box's true
 * area.
 */
void mr_mix_draw_box(enum mr_mix_rule rule, float lambda, uint32_t x, uint32_t y, uint32_t width,
                     uint32_t height, struct mr_mix *mix);

#endif
