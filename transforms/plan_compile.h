/* SPDX-License-Identifier: Apache-2.0 */
/* From a transform to a plan: checked and compiled once, before any sample. */
#ifndef TRANSFORMS_PLAN_COMPILE_H
#define TRANSFORMS_PLAN_COMPILE_H

#include "transforms/plan.h"

/*
 * transform NULL means "train:224" for encoded samples and none otherwise; dtype MR_DTYPE_DEFAULT
 * means u8 for pictures and the record's own type otherwise. MR_ERR_INVALID names the operation
 * that cannot be applied.
 */
mr_status mr_plan_compile(const mr_transform *transform, const struct mr_sample_kind *kind,
                          mr_dtype dtype, mr_layout layout, struct mr_plan *plan_out,
                          mr_error *error);

/*
 * Set the output's size from the first image, where out_known is 0; other images that come out
 * differently are damaged. The size is that of the image as the operations see it: upright already
 * where use_exif turns it.
 */
mr_status mr_plan_compile_fix_size(struct mr_plan *plan, uint32_t source_width,
                                   uint32_t source_height, mr_error *error);

#endif
