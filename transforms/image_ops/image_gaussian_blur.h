/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchvision's gaussian_blur: a convolution with a square kernel. The image is reflected at its
 * edges.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_GAUSSIAN_BLUR_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_GAUSSIAN_BLUR_H

#include "transforms/image_ops/image_call_kind.h"

#define MR_IMAGE_GAUSSIAN_BLUR_MAX_KERNEL 63

/*
 * Is the image large enough to be reflected? kernel_size is the first argument of the operation and
 * of the call. MR_ERR_DAMAGED if a side is not above half the kernel: torchvision cannot reflect
 * such an image.
 */
mr_status mr_image_gaussian_blur_check(const double *args, int64_t width, int64_t height,
                                       mr_error *error);

/*
 * args[0]: kernel_size of both sides, odd, 1 to MR_IMAGE_GAUSSIAN_BLUR_MAX_KERNEL; args[1]: sigma
 * of both, above 0. MR_ERR_DAMAGED as the check.
 */
mr_status mr_image_gaussian_blur_make(const struct mr_image_call *call, struct mr_image *from,
                                      struct mr_image *to, const struct mr_kernel_ops *kernels,
                                      mr_error *error);

#endif
