/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the pictures of all views of a sample: all are drawn, what they need together is decoded,
 * then all are drawn again and made.
 */
#include "transforms/views/view_run.h"

#include "transforms/views/view_draws.h"

#include <string.h>

static const struct mr_plan *plan_of(const struct mr_plan_runner *runner, uint32_t view)
{
    return view ? &runner->more_plans[view - 1] : runner->first_plan;
}

static void join_boxes(struct mr_box *all, const struct mr_box *box)
{
    struct mr_box old = *all;
    if (box->width == 0)
        return;
    *all = *box;
    if (old.width == 0)
        return;
    int64_t right = old.x + old.width, bottom = old.y + old.height;
    all->x = old.x < box->x ? old.x : box->x;
    all->y = old.y < box->y ? old.y : box->y;
    all->width = (right > box->x + box->width ? right : box->x + box->width) - all->x;
    all->height = (bottom > box->y + box->height ? bottom : box->y + box->height) - all->y;
}

mr_status mr_view_run_draw(struct mr_plan_runner *runner, uint32_t width, uint32_t height,
                           const struct mr_rng *rng, struct mr_box *need_out, mr_error *error)
{
    struct mr_rng copy = *rng;
    struct mr_mt19937 torch;
    mr_status status = MR_OK;
    if (copy.torch) {
        torch = *copy.torch;
        copy.torch = &torch;
    }
    *need_out = (struct mr_box){0};
    for (uint32_t v = 0; v <= runner->n_more && status == MR_OK; v++) {
        runner->plan = plan_of(runner, v);
        for (uint32_t k = 0; k < runner->plan->view.n_pictures && status == MR_OK; k++) {
            struct mr_rng draws = mr_view_draws_begin(runner->plan, k, &copy);
            status = mr_picture_run_geometry(runner, width, height, &draws, NULL, error);
            if (status == MR_OK)
                join_boxes(need_out, &runner->geometry.stages[0].need);
        }
    }
    runner->plan = runner->first_plan;
    return status;
}

static mr_status run_view(struct mr_plan_runner *runner, const struct mr_picture_run *run,
                          uint32_t v)
{
    const struct mr_view_out *out = &runner->outs[v];
    mr_status status = MR_OK;
    runner->plan = plan_of(runner, v);
    for (uint32_t k = 0; k < runner->plan->view.n_pictures && status == MR_OK; k++) {
        struct mr_rng draws = mr_view_draws_begin(runner->plan, k, run->rng);
        struct mr_picture_run picture = *run;
        picture.rng = &draws;
        picture.out = out->pixels + k * runner->plan->out_bytes;
        picture.mask = out->masks ? out->masks + k * mr_plan_mask_bytes(runner->plan) : NULL;
        picture.view = v;
        status = mr_picture_run(runner, &picture);
        memcpy(out->geometry + (size_t)MR_GEOMETRY_FIELDS * k, run->report->geometry,
               sizeof run->report->geometry);
        if (out->erases)
            out->erases[k] = run->report->erase;
    }
    runner->plan = runner->first_plan;
    return status;
}

/* Do all views begin with the same shared operations? Then these are done once. */
static bool share_operations(const struct mr_plan_runner *runner)
{
    const struct mr_plan *first = runner->first_plan;
    for (uint32_t v = 0; v <= runner->n_more; v++)
        if (plan_of(runner, v)->view.n_shared != first->view.n_shared ||
            memcmp(plan_of(runner, v)->ops, first->ops,
                   first->view.n_shared * sizeof *first->ops) != 0)
            return false;
    return first->view.n_shared > 0;
}

mr_status mr_view_run(struct mr_plan_runner *runner, struct mr_picture_run *run)
{
    struct mr_box need = {0};
    mr_status status = MR_OK;
    bool has_several = runner->n_more > 0 || runner->plan->view.n_pictures > 1;
    runner->shares = has_several && share_operations(runner);
    runner->shared_is_made = false;
    if (has_several && run->source.codec)
        status = mr_view_run_draw(runner, run->width, run->height, run->rng, &need, run->error);
    if (status == MR_OK && need.width > 0)
        status = mr_picture_run_decode(runner, run, need);
    for (uint32_t v = 0; v <= runner->n_more && status == MR_OK; v++)
        status = run_view(runner, run, v);
    return status;
}
