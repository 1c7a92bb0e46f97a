/* SPDX-License-Identifier: Apache-2.0 */
/* One picture of a sample, and what plan_runner.c and views/ share: a runner, and one call of it.
 */
#ifndef TRANSFORMS_VIEWS_PICTURE_RUN_H
#define TRANSFORMS_VIEWS_PICTURE_RUN_H

#include "base/clock.h"
#include "base/rng.h"
#include "transforms/geometry.h"
#include "transforms/masks/mask_run.h"
#include "transforms/packed.h"
#include "transforms/plan_report.h"
#include "transforms/resample.h"
#include "transforms/row_source.h"
#include "transforms/scratch.h"
#include "transforms/tensor_write.h"

#define MR_PICTURE_EQUAL_SIZES                                                                     \
    "add center_crop(N) or resize(H:W) for equal sizes, or set ragged or pad_batch"

struct mr_plan_runner {
    const struct mr_plan *plan; /* of the view that is made now */
    const struct mr_plan *first_plan;
    const struct mr_plan *more_plans;
    uint32_t n_more;
    bool has_pictures; /* of views or crops */
    const struct mr_view_out *outs;
    struct mr_codec_limits limits;
    bool with_timing;
    struct mr_codec *codec; /* only if samples are encoded */
    struct mr_resample resample;
    struct mr_geometry geometry;
    struct mr_box_list *boxes;      /* of the sample that is run; only with boxes */
    struct mr_geometry_steps steps; /* only with masks */
    struct mr_mask_run mask;
    void *mask_out;
    struct mr_tensor_write_half half[MR_MAX_VIEWS];
    struct mr_scratch upright;  /* an image that EXIF turned, or the box of all views */
    struct mr_scratch image[2]; /* outputs of inner stages, used alternately */
    bool shares;                /* all views begin with the same shared operations: */
    bool shared_is_made;
    struct mr_scratch shared; /* what they have made of the image, in the sample's pictures */
    struct mr_scratch row;    /* one row for the tensor writer */
    struct mr_scratch planes; /* one row of a planar source */
    struct mr_packed_copy packed;
};

/* The state of one call. */
struct mr_picture_run {
    const uint8_t *bytes;
    size_t len;
    const struct mr_packed_image *packed; /* NULL: bytes are a whole file or raw sample */
    uint64_t offset;                      /* where bytes begin in the packed sample */
    struct mr_rng *rng;
    void *out;
    void *mask; /* where the mask goes */
    struct mr_plan_runner_report *report;
    mr_error *error;
    struct mr_row_source source;
    uint32_t width; /* of the image as the operations see it */
    uint32_t height;
    uint32_t channels;   /* of the rows so far */
    uint32_t free_image; /* the next stage's output: an index of mr_plan_runner.image */
    uint32_t view;
};

static inline uint64_t mr_picture_run_clock(const struct mr_plan_runner *runner)
{
    return runner->with_timing ? mr_clock_now_ns() : 0;
}

/* Draw the geometry, move the boxes (or NULL) with it, and check the output's size. */
mr_status mr_picture_run_geometry(struct mr_plan_runner *runner, uint32_t width, uint32_t height,
                                  struct mr_rng *rng, struct mr_box_list *boxes, mr_error *error);

/* Make the tensor of runner->plan from run->source, which is set. */
mr_status mr_picture_run(struct mr_plan_runner *runner, struct mr_picture_run *run);

/* Decode a box; it is then the source. */
mr_status mr_picture_run_decode(struct mr_plan_runner *runner, struct mr_picture_run *run,
                                struct mr_box box);

/* Read the whole source and turn it; the source is then an image in memory. */
mr_status mr_picture_run_turn(struct mr_plan_runner *runner, struct mr_picture_run *run,
                              uint32_t orientation);

#endif
