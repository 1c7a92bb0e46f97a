/* SPDX-License-Identifier: Apache-2.0 */
/*
 * How an operation resamples. A stage or an axis uses one of the filters; an operation may draw its
 * filter for each image.
 */
#ifndef TRANSFORMS_INTERPOLATION_H
#define TRANSFORMS_INTERPOLATION_H

#include <stdint.h>

/* Pillow's filters. mr_transform_interpolations (transform.h) has their names. */
enum mr_interpolation {
    MR_BILINEAR, /* the default */
    MR_NEAREST,
    MR_BOX,
    MR_HAMMING,
    MR_BICUBIC,
    MR_LANCZOS,
    MR_N_FILTERS,
    MR_RANDOM_FILTER =
        MR_N_FILTERS, /* bilinear or bicubic, drawn for each image; never in a stage */
    MR_N_INTERPOLATIONS
};

#endif
