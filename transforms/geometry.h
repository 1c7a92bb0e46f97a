/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pixels a sample is made of, and the calls that change them: a pure function of plan, image
 * size and draws. It knows nothing of bytes and codecs.
 *
 * The operations are folded into as few stages as possible. A stage takes the box `source` of its
 * input, resizes it to resized_width x resized_height, looks at it through `window` (which may
 * stick out: zeros, or what a padding mode shows there), then flips what it sees. Its output is the
 * next stage's input; of that, only what the next stage reads is made. Where calls change the
 * output, it is made as a whole, and a stage follows.
 */
#ifndef TRANSFORMS_GEOMETRY_H
#define TRANSFORMS_GEOMETRY_H

#include "base/rng.h"
#include "transforms/plan.h"

/*
 * Pixels; x and y may be negative where a window sticks out. Wide integers, so that sums need no
 * care.
 */
struct mr_box {
    int64_t x;
    int64_t y;
    int64_t width;
    int64_t height;
};

struct mr_stage {
    struct mr_box source;  /* inside the input, not empty; the edge at which the filter is cut
                              off */
    int64_t resized_width; /* equal to the source's where nothing is resampled */
    int64_t resized_height;
    enum mr_interpolation interpolation; /* one of the filters */
    struct mr_box window;                /* in pixels of the resized source; its size is the
                                            output's */
    struct mr_box live;                  /* the part of window that shows pixels; the rest is
                                            zero. Empty: width 0 */
    bool is_padded;                      /* live may stick out of source, which is not resampled
                                            then: */
    enum mr_padding_mode padding_mode;   /* what it shows there */
    uint8_t fill[3];                     /* of MR_PADDING_CONSTANT */
    struct mr_box need;                  /* pixels of the input that live is computed from; empty
                                            with live */
    bool hflip;                          /* after the window: output column i shows window column
                                            width - 1 - i */
    bool vflip;
    uint32_t first_call; /* on the output */
    uint32_t n_calls;
};

/* An operation adds one stage at most, and the first stage is always there. */
#define MR_MAX_STAGES (MR_PLAN_MAX_OPS + 1)

/* No side of a resized image, seen or not, is longer. */
#define MR_MAX_RESIZED INT32_MAX

struct mr_geometry {
    struct mr_box crop; /* what mr_geometry_report() says */
    uint32_t n_stages;
    struct mr_stage stages[MR_MAX_STAGES];
    struct mr_image_calls calls;
};

/*
 * What an operation of the list became, before it was folded; or the calls of an image operation.
 */
struct mr_geometry_step {
    const struct mr_op *op; /* in the plan */
    int64_t width;          /* of the image ahead of it */
    int64_t height;
    struct mr_box box;     /* of crops, in pixels of that image; may stick out */
    int64_t resized_width; /* of operations that resize */
    int64_t resized_height;
    enum mr_interpolation interpolation;
    bool flips;
    uint32_t first_call;
    uint32_t n_calls;
};

struct mr_geometry_steps {
    uint32_t n;
    struct mr_geometry_step steps[MR_PLAN_MAX_OPS];
};

/*
 * Draw and fold. width x height is the image as the operations see it: upright already where
 * plan->use_exif turns it. Draws are made in the order of torchvision's modules. MR_ERR_DAMAGED
 * where the image cannot be cropped or resized so.
 */
mr_status mr_geometry_make(const struct mr_plan *plan, uint32_t width, uint32_t height,
                           struct mr_rng *rng, struct mr_geometry *geometry_out, mr_error *error);

/* The same, and note each step. */
mr_status mr_geometry_record(const struct mr_plan *plan, uint32_t width, uint32_t height,
                             struct mr_rng *rng, struct mr_geometry *geometry_out,
                             struct mr_geometry_steps *steps_out, mr_error *error);

/*
 * Size of the output for an image of that size; makes no draws, since no size depends on one. Sizes
 * of 0 are unknown: so is the output's then, unless an operation sets it. MR_ERR_DAMAGED where an
 * operation, drawn or not, cannot be applied to an image of its size.
 */
mr_status mr_geometry_size(const struct mr_plan *plan, uint32_t width, uint32_t height,
                           int64_t *width_out, int64_t *height_out, mr_error *error);

/* Of the largest image of a fixed size that image operations change; 0 where there is none. */
uint64_t mr_geometry_most_pixels(const struct mr_plan *plan);

/*
 * What a batch's "geometry" row says: source width, height; crop x, y, width, height; hflip; vflip.
 *
 * The source is the image as the operations see it. The crop is the box of it that the crops ahead
 * of the first resize leave, in pixels of the source before any flip. It depends neither on how
 * operations fold into stages, nor on what a filter reads, nor on what later operations keep of it:
 *   - random_resized_crop: the box drawn, since the crop comes first and the resize second;
 *   - crops only: what the last one shows; it sticks out of the source where padding is seen, x and
 *     y may be negative;
 *   - crop, then resize, then anything: the first crop. A crop after a resize cuts pixels that the
 *     source does not have, so resize(256)+center_crop(224) says the whole source, with flips
 *     before, between and after them too;
 *   - a resize to the size that is there already does nothing and does not count as one.
 * Flips count wherever they stand: 1 where an odd number of them was drawn.
 */
void mr_geometry_report(const struct mr_geometry *geometry, uint32_t width, uint32_t height,
                        int32_t report_out[8]);

#endif
