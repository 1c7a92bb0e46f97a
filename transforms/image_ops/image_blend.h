/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Calls that blend the image with another one, as Pillow's ImageEnhance does: with black, with its
 * mean gray, with its own gray, with its smoothed self. A factor of 1 changes nothing.
 */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_BLEND_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_BLEND_H

#include "transforms/image_ops/image_call_kind.h"

/* args of all: the factor, 0 or more. The first two fill tables (struct mr_image_call_ops). */
void mr_image_blend_brightness(const struct mr_image_call *call, const struct mr_image *image,
                               const struct mr_kernel_ops *kernels,
                               struct mr_image_table *table_out);
void mr_image_blend_contrast(const struct mr_image_call *call, const struct mr_image *image,
                             const struct mr_kernel_ops *kernels, struct mr_image_table *table_out);
void mr_image_blend_saturation(const struct mr_image_call *call, struct mr_image *image,
                               const struct mr_kernel_ops *kernels);
mr_status mr_image_blend_sharpness(const struct mr_image_call *call, struct mr_image *from,
                                   struct mr_image *to, const struct mr_kernel_ops *kernels,
                                   mr_error *error);

#endif
