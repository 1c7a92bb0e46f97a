/* SPDX-License-Identifier: Apache-2.0 */
/* What is done to the mask of a picture. */
#ifndef TRANSFORMS_MASKS_MASK_JOB_H
#define TRANSFORMS_MASKS_MASK_JOB_H

#include "transforms/codec_limits.h"
#include "transforms/geometry.h"

struct mr_mask_job {
    const struct mr_mask_rule *rule;
    const struct mr_codec_limits *limits;
    const struct mr_kernel_ops *kernels;
    const struct mr_geometry_steps *steps; /* what the picture's draws became */
    const struct mr_geometry *geometry;    /* and what was made of them */
    uint32_t width;                        /* of the picture */
    uint32_t height;
};

#endif
