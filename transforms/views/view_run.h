/* SPDX-License-Identifier: Apache-2.0 */
/* The pictures of a sample's views, and those of five_crop and ten_crop. */
#ifndef TRANSFORMS_VIEWS_VIEW_RUN_H
#define TRANSFORMS_VIEWS_VIEW_RUN_H

#include "transforms/views/picture_run.h"

/*
 * The box of the source that all pictures of the sample need. Draws on copies of the generators, so
 * that the same draws can be made again.
 */
mr_status mr_view_run_draw(struct mr_plan_runner *runner, uint32_t width, uint32_t height,
                           const struct mr_rng *rng, struct mr_box *need_out, mr_error *error);

/* Make all pictures from run->source, which is set, into runner->outs. */
mr_status mr_view_run(struct mr_plan_runner *runner, struct mr_picture_run *run);

#endif
