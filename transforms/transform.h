/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A transform: what its public handle points to, a list of operations. With views each has a list
 * of its own, and the handle points to the first view.
 */
#ifndef TRANSFORMS_TRANSFORM_H
#define TRANSFORMS_TRANSFORM_H

#include "transforms/plan.h"

struct mr_transform {
    struct mr_op ops[MR_PLAN_MAX_OPS];
    uint32_t n_ops;
    char view[MR_VIEW_NAME]; /* the view's name; "": the transform has no views */
    uint32_t n_pictures;     /* as its text has it; 0: not given */
    uint32_t picture;        /* 1 + the number of the only picture; 0: not given */
    uint32_t n_shared;       /* of the operations after exif: shared(...) */
    uint32_t n_inside;       /* of those after them: inside(NAME,...) */
    char inside[MR_VIEW_NAME];
    uint32_t inside_picture; /* as `picture` */
    mr_transform *next;      /* view; NULL */
};

/* Can a sample have more than one picture? Views and crops; NULL: false. */
bool mr_transform_has_pictures(const mr_transform *transform);

/* 1 without views. NULL: 1. */
uint32_t mr_transform_n_views(const mr_transform *transform);

/* The name of an operation in the text form. */
const char *mr_transform_op_name(const struct mr_op *op);

/* How many operations come before an implied normalize. */
uint32_t mr_transform_n_before_implied(const mr_transform *transform);

/*
 * mixes: the list ends with an operation that mixes rows. erases: random_erasing is last, or last
 * before such an operation. NULL: false.
 */
bool mr_transform_mixes(const mr_transform *transform);
bool mr_transform_erases(const mr_transform *transform);

/* Append an operation that has been checked, before an implied normalize. */
mr_status mr_transform_append_op(mr_transform *transform, const struct mr_op *op, mr_error *error);

/* Names of enum mr_interpolation in the text form. */
extern const char *const mr_transform_interpolations[MR_N_INTERPOLATIONS];

/* Names of enum mr_padding_mode in the text form and in torchvision. */
extern const char *const mr_transform_padding_modes[MR_N_PADDING_MODES];

/* Words of enum mr_exact in the text form; "" for MR_EXACT_NONE. */
extern const char *const mr_transform_exact_words[MR_N_EXACT];
extern const char *const mr_transform_mask_nearests[MR_N_MASK_NEARESTS];

/* Make an empty list. */
mr_status mr_transform_create(mr_transform **transform_out, mr_error *error);

/*
 * Check and append an operation; transforms/text/text_items.c gives it the arguments. Flips,
 * exif and rgb need no check.
 */
mr_status mr_transform_random_resized_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                           const double scale[2], const double ratio[2],
                                           enum mr_interpolation interpolation, mr_error *error);
/* max_size: of the longer side; 0: any */
mr_status mr_transform_resize_short(mr_transform *transform, uint32_t size, uint32_t max_size,
                                    enum mr_interpolation interpolation, mr_error *error);
mr_status mr_transform_resize(mr_transform *transform, uint32_t height, uint32_t width,
                              enum mr_interpolation interpolation, mr_error *error);
/* vertical_flip: NULL: five_crop, otherwise ten_crop */
mr_status mr_transform_five_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                 const bool *vertical_flip, mr_error *error);
mr_status mr_transform_center_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                   mr_error *error);
mr_status mr_transform_patch_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                  uint32_t patch, mr_error *error);
/* n_fill: 1 or 3 values */
mr_status mr_transform_random_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                   uint32_t padding, bool pad_if_needed, enum mr_padding_mode mode,
                                   uint32_t n_fill, const double *fill, mr_error *error);
/* border: left, top, right, bottom, at most 65535 each */
mr_status mr_transform_random_resize(mr_transform *transform, uint32_t min_size, uint32_t max_size,
                                     enum mr_interpolation interpolation, mr_error *error);
/* kind: MR_OP_PAD_IF_SMALLER, MR_OP_FIXED_SIZE_CROP or MR_OP_LETTERBOX, which alone interpolates */
mr_status mr_transform_pad_to_size(mr_transform *transform, enum mr_op_kind kind, uint32_t height,
                                   uint32_t width, enum mr_interpolation interpolation,
                                   uint32_t n_fill, const double *fill, mr_error *error);
/* sizes: 1 to MR_IMAGE_OP_MAX_ARGS whole numbers from 1 to 65535. max_size: 0: any */
mr_status mr_transform_random_shortest_size(mr_transform *transform, uint32_t n_sizes,
                                            const double *sizes, uint32_t max_size,
                                            enum mr_interpolation interpolation, mr_error *error);
mr_status mr_transform_scale_jitter(mr_transform *transform, uint32_t height, uint32_t width,
                                    const double scale_range[2],
                                    enum mr_interpolation interpolation, mr_error *error);
/* p: from 0 to 1 */
mr_status mr_transform_random_zoom_out(mr_transform *transform, uint32_t n_fill, const double *fill,
                                       const double side_range[2], double p, mr_error *error);
mr_status mr_transform_mask(mr_transform *transform, mr_dtype dtype, enum mr_mask_nearest nearest,
                            uint32_t fill, mr_error *error);
mr_status mr_transform_random_iou_crop(mr_transform *transform, const double scale[2],
                                       const double ratio[2], uint32_t trials, mr_error *error);
mr_status mr_transform_sanitize(mr_transform *transform, double min_size, double min_area,
                                mr_error *error);
mr_status mr_transform_pad(mr_transform *transform, const uint32_t border[4],
                           enum mr_padding_mode mode, uint32_t n_fill, const double *fill,
                           mr_error *error);

/*
 * n_channels: 1 or 3. implied: it applies only if the dtype is a float, and a later one replaces
 * it.
 */
mr_status mr_transform_normalize(mr_transform *transform, uint32_t n_channels, const double *mean,
                                 const double *std, enum mr_exact exact, bool implied,
                                 mr_error *error);

#endif
