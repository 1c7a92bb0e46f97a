/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rotations, affine maps and perspectives, as torchvision does them with Pillow. An interpolation
 * is MR_NEAREST, MR_BILINEAR or MR_BICUBIC. A fill is one value for each channel, 0 to 255; an
 * image with one channel uses the first. A center is x and y in pixels; NaN means the middle.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_WARP_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_WARP_H

#include "transforms/image_ops/image_call_kind.h"

/* Does a call move pixels? Mixtures of several images do not count. */
bool mr_image_warp_moves(const struct mr_image_call *call);
/*
 * A call that warps and is none of image_tensor.h, with the interpolation MR_NEAREST and this fill.
 */
struct mr_image_call mr_image_warp_as_nearest(const struct mr_image_call *call,
                                              const double fill[3]);
/* The size of an image after a call: only MR_CALL_ROTATE_EXPAND changes it. */
void mr_image_warp_size(const struct mr_image_call *call, uint32_t *width, uint32_t *height);
/*
 * args: angle (degrees, counter-clockwise), interpolation, fill[3], center[2]. Sets the size of
 * `to`, which has room for it.
 */
mr_status mr_image_warp_rotate(const struct mr_image_call *call, struct mr_image *from,
                               struct mr_image *to, const struct mr_kernel_ops *kernels,
                               mr_error *error);
/*
 * args: angle (degrees, clockwise), translate[2] (whole pixels), scale (above 0), shear[2]
 * (degrees), interpolation, fill[3], center[2].
 */
mr_status mr_image_warp_affine(const struct mr_image_call *call, struct mr_image *from,
                               struct mr_image *to, const struct mr_kernel_ops *kernels,
                               mr_error *error);
/* Python's degrees % 360. */
double mr_image_warp_wrap(double degrees);
/*
 * torchvision's _get_inverse_affine_matrix(). args: angle, translate[2], scale, shear[2]. x, y: the
 * center. v1 and v2 round in different places.
 */
void mr_image_warp_invert(const double *args, double x, double y, bool is_v2, double a_out[6]);
/* The matrix that v2 moves boxes with: the same map from the image to the result. */
void mr_image_warp_forward(const double *args, double x, double y, double a_out[6]);
/* args: coefficients[8] of Image.transform(PERSPECTIVE), interpolation, fill[3]. */
mr_status mr_image_warp_perspective(const struct mr_image_call *call, struct mr_image *from,
                                    struct mr_image *to, const struct mr_kernel_ops *kernels,
                                    mr_error *error);
/* args: coefficients[6] of Image.transform(AFFINE), interpolation, fill[3]. */
mr_status mr_image_warp_pil_affine(const struct mr_image_call *call, struct mr_image *from,
                                   struct mr_image *to, const struct mr_kernel_ops *kernels,
                                   mr_error *error);

#endif
