/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys the draws of pictures. An operation has the draws of its place in the list, so what views
 * share, or have of one another, is at the same places in all of them: shared operations come
 * first.
 */
#include "transforms/views/view_draws.h"

struct mr_rng mr_view_draws_begin(const struct mr_plan *plan, uint32_t k,
                                  const struct mr_rng *sample)
{
    struct mr_rng draws = *sample;
    mr_rng_set_view(&draws, plan->view.name_hash, plan->view.first + k);
    if (plan->view.n_crops == 0)
        mr_rng_part_pictures(&draws);
    return draws;
}

struct mr_rng *mr_view_draws_at(const struct mr_plan *plan, uint32_t i, struct mr_rng *own,
                                struct mr_rng *other)
{
    const struct mr_view *view = &plan->view;
    bool is_shared = i < view->n_shared;
    if (i >= view->n_shared + view->n_inside)
        return own;
    if (i > 0 && i != view->n_shared)
        return other;
    *other = *own;
    mr_rng_change_view(other, view->name_hash, is_shared ? 0 : view->inside_hash,
                       is_shared ? 0 : view->inside_picture);
    return other;
}
