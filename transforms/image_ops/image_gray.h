/* SPDX-License-Identifier: Apache-2.0 */
/* Gray images. The function is an entry of struct mr_image_call_ops. */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_GRAY_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_GRAY_H

#include "transforms/image_ops/image_call_kind.h"

/*
 * args: channels of the result, 1 or 3. An image with one channel stays as it is; it becomes three
 * equal ones later.
 */
void mr_image_gray_convert(const struct mr_image_call *call, struct mr_image *image,
                           const struct mr_kernel_ops *kernels);

#endif
