/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an operation became for one image. geometry.h draws it and folds it into stages; masks/
 * follows it, and explain.c names it.
 */
#ifndef TRANSFORMS_GEOMETRY_STEP_H
#define TRANSFORMS_GEOMETRY_STEP_H

#include "transforms/plan.h"

/* The longest side of a resized image, whether it is shown or not. */
#define MR_MAX_RESIZED INT32_MAX

/*
 * In pixels. x and y may be negative if a window reaches outside. The integers are wide, so sums do
 * not overflow.
 */
struct mr_box {
    int64_t x;
    int64_t y;
    int64_t width;
    int64_t height;
};

/* What an operation of the list became before it was folded, or the calls of an image operation. */
struct mr_geometry_step {
    const struct mr_op *op; /* in the plan */
    int64_t width;          /* of the image before it */
    int64_t height;
    struct mr_box box;     /* of crops, in pixels of that image; may reach outside. Of letterbox,
                              which resizes first, in pixels of the resized image. */
    int64_t resized_width; /* of operations that resize */
    int64_t resized_height;
    enum mr_interpolation interpolation;
    bool flips; /* of flips and random_zoom_out: they were drawn */
    uint32_t first_call;
    uint32_t n_calls;
};

struct mr_geometry_steps {
    uint32_t n;
    struct mr_geometry_step steps[MR_PLAN_MAX_OPS];
};

/* How far random_crop pads one axis of an image on each side. */
static inline int64_t mr_geometry_step_padding(const struct mr_op *op, int64_t size, int64_t crop)
{
    int64_t lacking = crop - size - 2 * (int64_t)op->padding;
    return op->padding + (op->pad_if_needed && lacking > 0 ? lacking : 0);
}

#endif
