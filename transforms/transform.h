/* SPDX-License-Identifier: Apache-2.0 */
/* A transform behind its public handle: a list of operations. */
#ifndef TRANSFORMS_TRANSFORM_H
#define TRANSFORMS_TRANSFORM_H

#include "transforms/plan.h"

/* Behind the public handle. */
struct mr_transform {
    struct mr_op ops[MR_PLAN_MAX_OPS];
    uint32_t n_ops;
};

/* Name of an operation as the text form has it. */
const char *mr_transform_op_name(const struct mr_op *op);

/* How many operations stand before a normalise that was only implied. */
uint32_t mr_transform_n_before_implied(const mr_transform *transform);

/*
 * True where the list ends with an operation that mixes rows; where random_erasing is last, or last
 * before it. NULL: false.
 */
bool mr_transform_mixes(const mr_transform *transform);
bool mr_transform_erases(const mr_transform *transform);

/* Append an operation that has been checked, before a normalise that was only implied. */
mr_status mr_transform_append_op(mr_transform *transform, const struct mr_op *op, mr_error *error);

/* Names of enum mr_interpolation as the text form has them. */
extern const char *const mr_transform_interpolations[MR_N_INTERPOLATIONS];

/* Names of enum mr_padding_mode as the text form has them, and torchvision. */
extern const char *const mr_transform_padding_modes[MR_N_PADDING_MODES];

/* mr_transform_random_crop() with a padding mode and a fill; n_fill: 1 or 3 values. */
mr_status mr_transform_random_crop_as(mr_transform *transform, uint32_t height, uint32_t width,
                                      uint32_t padding, enum mr_padding_mode mode, uint32_t n_fill,
                                      const double *fill, mr_error *error);

/* mr_transform_random_resized_crop() with an interpolation. */
mr_status mr_transform_random_resized_crop_as(mr_transform *transform, uint32_t height,
                                              uint32_t width, const double scale[2],
                                              const double ratio[2],
                                              enum mr_interpolation interpolation, mr_error *error);

/* The same for mr_transform_resize_short() and mr_transform_resize(). */
mr_status mr_transform_resize_short_as(mr_transform *transform, uint32_t size,
                                       enum mr_interpolation interpolation, mr_error *error);
mr_status mr_transform_resize_as(mr_transform *transform, uint32_t height, uint32_t width,
                                 enum mr_interpolation interpolation, mr_error *error);

/*
 * mr_transform_normalize(); implied: it applies only when the dtype is a float, and a later one
 * replaces it.
 */
mr_status mr_transform_normalize_as(mr_transform *transform, uint32_t n_channels,
                                    const double *mean, const double *std, enum mr_exact exact,
                                    bool implied, mr_error *error);

#endif
