/* SPDX-License-Identifier: Apache-2.0 */
/* From the image operations of a list to the calls of one sample. */
#ifndef TRANSFORMS_IMAGE_PARAMS_H
#define TRANSFORMS_IMAGE_PARAMS_H

#include "base/rng.h"
#include "transforms/plan.h"

/* An image operation or a structure of them; all others are geometric. */
bool mr_image_params_is_image(const struct mr_op *op);

/* The node behind ops[i] and all below it. */
uint32_t mr_image_params_skip(const struct mr_op *ops, uint32_t i);

/*
 * Draw ops[i], for an image of that size. Each node has draws of its own by its place (base/rng.h),
 * so they depend on no other node's.
 */
void mr_image_params_node(const struct mr_op *ops, uint32_t i, const struct mr_rng *rng,
                          uint32_t width, uint32_t height, struct mr_image_calls *calls);

#endif
