/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws of rotation, affine and perspective (struct mr_image_op). Arguments are in the order of
 * image_op.c's table.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_OP_WARP_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_OP_WARP_H

#include "transforms/image_ops/image_calls.h"

/* The words of `interp`, up to NULL. */
extern const char *const mr_image_op_warp_filters[];
/* The enum mr_interpolation of the word with that index. */
double mr_image_op_warp_filter(double place);

void mr_image_op_warp_rotation(struct mr_image_params_source *draw);
void mr_image_op_warp_affine(struct mr_image_params_source *draw);
void mr_image_op_warp_affine_v2(struct mr_image_params_source *draw);
void mr_image_op_warp_perspective(struct mr_image_params_source *draw);

/*
 * Coefficients of Image.transform(PERSPECTIVE) that move the corners of an image to places in it:
 * x, y from the upper left corner clockwise. False if three of them are on a line, or if no
 * coefficients exist.
 */
bool mr_image_op_warp_solve(uint32_t width, uint32_t height, const double corners[4][2],
                            double coefficients_out[8]);

#endif
