/* SPDX-License-Identifier: Apache-2.0 */
/* Pillow's ImageFilter.GaussianBlur, which is three box blurs in each direction. */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_BOX_BLUR_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_BOX_BLUR_H

#include "transforms/image_ops/image_call_kind.h"

/* args[0]: radius, 0 or more. */
mr_status mr_image_box_blur_make(const struct mr_image_call *call, struct mr_image *from,
                                 struct mr_image *to, const struct mr_kernel_ops *kernels,
                                 mr_error *error);

#endif
