/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draws of timm's policies (timm/data/auto_augment.py): RandAugment with its sets of
 * operations, AutoAugment's four tables, 3-Augment. Each operation becomes a call
 * (image_call_kind.h) that does what timm does with Pillow.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_TIMM_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_TIMM_H

#include "transforms/image_ops/image_calls.h"

/* The doubles of a parameter of kind MR_PARAM_POLICY. */
enum {
    MR_TIMM_CALLS,     /* most calls of a sample; n of a rand policy */
    MR_TIMM_FAMILY,    /* enum mr_timm_family */
    MR_TIMM_MAGNITUDE, /* this and those below belong to a rand policy, except MR_TIMM_STD */
    MR_TIMM_CHANCE,
    MR_TIMM_STD,  /* of the magnitude's noise */
    MR_TIMM_MOST, /* the magnitude's upper bound */
    MR_TIMM_SET,  /* enum mr_timm_set */
    MR_TIMM_N_VALUES
};

enum mr_timm_family {
    MR_TIMM_RAND,
    MR_TIMM_ORIGINAL,
    MR_TIMM_ORIGINAL_R,
    MR_TIMM_V0,
    MR_TIMM_V0_R,
    MR_TIMM_3A
};

/* What a rand policy chooses from. */
enum mr_timm_set {
    MR_TIMM_USUAL,
    MR_TIMM_INCREASING,
    MR_TIMM_WEIGHTED,
    MR_TIMM_SET_3A,
    MR_TIMM_SET_3AW
};

/* timm's names of its operations, up to NULL. */
extern const char *const mr_image_timm_names[];

/*
 * The interpolations of an operation that warps, up to NULL. The first one draws bilinear or
 * bicubic each time.
 */
extern const char *const mr_image_timm_filters[];

/* An operation after all draws. */
struct mr_timm_choice {
    uint32_t op;      /* index in mr_image_timm_names */
    double magnitude; /* within its bounds */
    bool negates;     /* of operations whose magnitude has a sign */
    double filter;    /* enum mr_interpolation, of operations that warp */
    double part;      /* 0 to 1: where the radius of GaussianBlurRand is in its range */
};

/* Append the call that timm makes of the choice, for an image of that size. */
void mr_image_timm_add(const struct mr_timm_choice *choice, uint32_t width, uint32_t height,
                       const double fill[3], struct mr_image_calls *calls);

/* Arguments: the policy's values, interp, fill. */
void mr_image_timm_draw(struct mr_image_params_source *draw);
/* True, with the reason, if the arguments do not go together. */
bool mr_image_timm_refuse(const double *args, char why_out[MR_IMAGE_OP_WHY]);

#endif
