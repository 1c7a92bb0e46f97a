/* SPDX-License-Identifier: Apache-2.0 */
/* Hue: torchvision's adjust_hue on an image of Pillow's, by way of HSV in bytes. */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_HUE_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_HUE_H

#include "transforms/image_ops/image_call_kind.h"

/* args[0]: hue_factor, -0.5 to 0.5. */
void mr_image_hue_shift(const struct mr_image_call *call, struct mr_image *image,
                        const struct mr_kernel_ops *kernels);

#endif
