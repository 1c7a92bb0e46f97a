/* SPDX-License-Identifier: Apache-2.0 */
/* Turns the image operations of a list into the calls of one sample. */
#ifndef TRANSFORMS_IMAGE_PARAMS_H
#define TRANSFORMS_IMAGE_PARAMS_H

#include "base/rng.h"
#include "transforms/plan.h"

/* True for an image operation or a structure of them; all other operations are geometric. */
bool mr_image_params_is_image(const struct mr_op *op);

/* The index of the first node after ops[i] and all nodes below it. */
uint32_t mr_image_params_skip(const struct mr_op *ops, uint32_t i);

/*
 * Draw ops[i] for an image of that size, and append its calls. Each node draws from its own place
 * of the generator (base/rng.h), so its draws do not depend on other nodes.
 */
void mr_image_params_node(const struct mr_op *ops, uint32_t i, const struct mr_rng *rng,
                          uint32_t width, uint32_t height, struct mr_image_calls *calls);

#endif
