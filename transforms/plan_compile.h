/* SPDX-License-Identifier: Apache-2.0 */
/* Compiles a transform into a plan: once, before any sample, with all checks. */
#ifndef TRANSFORMS_PLAN_COMPILE_H
#define TRANSFORMS_PLAN_COMPILE_H

#include "transforms/plan.h"

/*
 * transform NULL means "train:224" for encoded samples, and none otherwise. dtype MR_DTYPE_DEFAULT
 * means u8 for pictures, and the record's own type otherwise. MR_ERR_INVALID names the operation
 * that cannot be applied.
 */
mr_status mr_plan_compile(const mr_transform *transform, const struct mr_sample_kind *kind,
                          mr_dtype dtype, mr_layout layout, struct mr_plan *plan_out,
                          mr_error *error);

/*
 * If out_known is 0, set the output's size from the first image; later images with another output
 * size are damaged. The source size is that of the image as the operations see it: already upright
 * if use_exif.
 */
mr_status mr_plan_compile_fix_size(struct mr_plan *plan, uint32_t source_width,
                                   uint32_t source_height, mr_error *error);

/*
 * Instead: let each picture have the size that its operations give it. A picture of more than
 * max_bytes is damaged; or, if max_side is not 0, one with a larger side. MR_ERR_INVALID names what
 * is only possible for pictures of one size.
 */
mr_status mr_plan_compile_keep_size(struct mr_plan *plan, uint64_t max_bytes, uint32_t max_side,
                                    mr_error *error);

#endif
