/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which draws an operation of a view has: those of the picture, those that all views share, or
 * those of another view, inside whose picture this one is.
 */
#ifndef TRANSFORMS_VIEWS_VIEW_DRAWS_H
#define TRANSFORMS_VIEWS_VIEW_DRAWS_H

#include "base/rng.h"
#include "transforms/plan.h"

/* Begin the draws of picture k of the plan's view: of a copy of the sample's draws. */
struct mr_rng mr_view_draws_begin(const struct mr_plan *plan, uint32_t k,
                                  const struct mr_rng *sample);

/*
 * The draws of ops[i]: own, which mr_view_draws_begin() gave, or *other. Called for each node of
 * the list in turn; own is not drawn from before the nodes that have other draws.
 */
struct mr_rng *mr_view_draws_at(const struct mr_plan *plan, uint32_t i, struct mr_rng *own,
                                struct mr_rng *other);

#endif
