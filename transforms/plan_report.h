/* SPDX-License-Identifier: Apache-2.0 */
/* What a run of a plan gives beside pixels, and where the pictures of views go. */
#ifndef TRANSFORMS_PLAN_REPORT_H
#define TRANSFORMS_PLAN_REPORT_H

#include "base/erasing.h"
#include "transforms/plan.h"

#define MR_GEOMETRY_FIELDS 8

struct mr_plan_runner_report {
    int32_t geometry[MR_GEOMETRY_FIELDS]; /* source width, height, crop x, y, width, height,
                                             hflip, vflip */
    uint32_t width;                       /* of the output, if it is a picture */
    uint32_t height;
    uint32_t n_warnings;
    struct mr_erase erase; /* the boxes; already applied, or deferred: see mr_erase_is_deferred() */
    uint64_t decode_ns;    /* 0 unless with_timing */
    uint64_t transform_ns;
};

/* Where the pictures of a view go. */
struct mr_view_out {
    uint8_t *pixels;         /* plan->out_bytes for each picture */
    int32_t *geometry;       /* MR_GEOMETRY_FIELDS for each */
    struct mr_erase *erases; /* for each, if erasing is deferred; otherwise NULL */
    uint8_t *masks;          /* mr_plan_mask_bytes() for each, if the view has masks */
};

#endif
