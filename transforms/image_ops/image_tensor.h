/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls as torchvision computes them on tensors of u8, in f32. Those that are not here have the
 * same bytes on tensors as on images: invert, posterize, solarize, equalize. The last argument of
 * each is 1 for the arithmetic of v2, which differs in single bytes, otherwise 0.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_TENSOR_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_TENSOR_H

#include "transforms/image_ops/image_call_kind.h"

/* args of the first four: the factor, 0 or more; is_v2. Of autocontrast: is_v2. */
void mr_image_tensor_brightness(const struct mr_image_call *call, const struct mr_image *image,
                                const struct mr_kernel_ops *kernels,
                                struct mr_image_table *table_out);
void mr_image_tensor_contrast(const struct mr_image_call *call, const struct mr_image *image,
                              const struct mr_kernel_ops *kernels,
                              struct mr_image_table *table_out);
void mr_image_tensor_saturation(const struct mr_image_call *call, struct mr_image *image,
                                const struct mr_kernel_ops *kernels);
mr_status mr_image_tensor_sharpness(const struct mr_image_call *call, struct mr_image *from,
                                    struct mr_image *to, const struct mr_kernel_ops *kernels,
                                    mr_error *error);
void mr_image_tensor_autocontrast(const struct mr_image_call *call, const struct mr_image *image,
                                  const struct mr_kernel_ops *kernels,
                                  struct mr_image_table *table_out);
/*
 * args: those of mr_image_warp_rotate() without a center, or of mr_image_warp_affine(); is_v2. The
 * interpolation is MR_NEAREST or MR_BILINEAR. A fill of NaN is none: outside are zeros. With a fill
 * of 0 the pixels at the border are darker.
 */
mr_status mr_image_tensor_rotate(const struct mr_image_call *call, struct mr_image *from,
                                 struct mr_image *to, const struct mr_kernel_ops *kernels,
                                 mr_error *error);
mr_status mr_image_tensor_affine(const struct mr_image_call *call, struct mr_image *from,
                                 struct mr_image *to, const struct mr_kernel_ops *kernels,
                                 mr_error *error);
/*
 * What v2 does to a mask where a picture is warped by the call: one of MR_CALL_ROTATE,
 * MR_CALL_ROTATE_EXPAND, MR_CALL_AFFINE, MR_CALL_AFFINE_V2 and MR_CALL_PERSPECTIVE, with nearest
 * and the mask's fill (mr_image_warp_as_nearest()). `to` has room for the picture's size.
 */
mr_status mr_image_tensor_warp_mask(const struct mr_image_call *call, struct mr_image *from,
                                    struct mr_image *to, const struct mr_kernel_ops *kernels,
                                    mr_error *error);

#endif
