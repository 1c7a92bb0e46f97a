/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pixels a sample is made of, and the calls that change them: a pure function of plan, image
 * size and draws. It knows nothing of bytes and codecs.
 *
 * The operations are folded into as few stages as possible. A stage takes the box `source` of its
 * input, resizes it to resized_width x resized_height, cuts `window` out of the result and flips
 * it. `window` may reach outside the resized source: there it shows a color, or what the padding
 * mode says. The output is the next stage's input, and only what the next stage reads is made. If
 * calls change the output, all of it is made, and a stage follows.
 */
#ifndef TRANSFORMS_GEOMETRY_H
#define TRANSFORMS_GEOMETRY_H

#include "base/box_list.h"
#include "base/rng.h"
#include "transforms/geometry_step.h"

struct mr_stage {
    struct mr_box source;  /* inside the input, not empty; the filter is cut off at its edge */
    int64_t resized_width; /* equal to the source's if nothing is resampled */
    int64_t resized_height;
    enum mr_interpolation interpolation; /* one of the filters */
    struct mr_box window; /* in pixels of the resized source; its size is the output's */
    struct mr_box live;   /* the part that shows pixels; width 0 if empty */
    uint8_t fill[3];      /* the color of the rest */
    bool is_padded;       /* live may reach outside source, which is then not resampled */
    enum mr_padding_mode padding_mode; /* what live shows there; never MR_PADDING_CONSTANT */
    struct mr_box need; /* pixels of the input that live is computed from; empty if live is */
    bool hflip;         /* after the window: output column i shows window column
                           width - 1 - i */
    bool vflip;
    uint32_t first_call; /* the calls on the output */
    uint32_t n_calls;
    int64_t called_width; /* of the output after the calls, if there are any */
    int64_t called_height;
};

/* An operation adds at most one stage, and there is always a first stage. */
#define MR_MAX_STAGES (MR_PLAN_MAX_OPS + 1)

struct mr_geometry {
    struct mr_box crop; /* as mr_geometry_report() reports it */
    uint32_t n_stages;
    struct mr_stage stages[MR_MAX_STAGES];
    struct mr_image_calls calls;
    uint32_t n_shared; /* 1: the first stage has calls, and they are those of shared operations */
};

/*
 * Draw and fold. width x height is the image as the operations see it: already upright if
 * plan->use_exif. Draws are made in the order of torchvision's modules. MR_ERR_DAMAGED if the image
 * cannot be cropped or resized that way.
 */
mr_status mr_geometry_make(const struct mr_plan *plan, uint32_t width, uint32_t height,
                           struct mr_rng *rng, struct mr_geometry *geometry_out, mr_error *error);

/*
 * The same, and record each step, unless steps_out is NULL. boxes: NULL, or those of the image, in
 * its pixels, which are moved with it; random_iou_crop is drawn for them.
 */
mr_status mr_geometry_record(const struct mr_plan *plan, uint32_t width, uint32_t height,
                             struct mr_rng *rng, struct mr_geometry *geometry_out,
                             struct mr_geometry_steps *steps_out, struct mr_box_list *boxes,
                             mr_error *error);

/* Does the size of the image after the operation depend on draws? */
bool mr_geometry_draws_size(const struct mr_op *op);

/*
 * Size of the output for an image of that size. Makes no draws. A size of 0 means unknown, or drawn
 * (random_resize, random_iou_crop): the output's is then 0 too, unless an operation sets it.
 * MR_ERR_DAMAGED if an operation, drawn or not, cannot be applied to the image as it is at that
 * point.
 */
mr_status mr_geometry_size(const struct mr_plan *plan, uint32_t width, uint32_t height,
                           int64_t *width_out, int64_t *height_out, mr_error *error);

/* Pixels of the largest image of a fixed size that image operations change; 0 if there is none. */
uint64_t mr_geometry_most_pixels(const struct mr_plan *plan);

/*
 * The values of a batch's "geometry" row: source width, height; crop x, y, width, height; hflip;
 * vflip.
 *
 * The source is the image as the operations see it. The crop is the box that the crops before the
 * first resize leave of it, in pixels of the source before any flip. It does not depend on how
 * operations fold into stages, on what a filter reads, or on what later operations cut off:
 * - random_resized_crop: the drawn box, because the crop comes first and the resize second;
 * - crops only: what the last one shows. It reaches outside the source if padding is seen, so x and
 *   y may be negative;
 * - crop, then resize, then anything: the first crop. A crop after a resize cuts pixels that the
 *   source does not have, so resize(256)+center_crop(224) reports the whole source, also with flips
 *   before, between and after them;
 * - a resize to the present size does nothing and does not count as a resize.
 *
 * Flips count wherever they are in the list: 1 if an odd number of them was drawn.
 */
void mr_geometry_report(const struct mr_geometry *geometry, uint32_t width, uint32_t height,
                        int32_t report_out[8]);

#endif
