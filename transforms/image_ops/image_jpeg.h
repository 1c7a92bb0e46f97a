/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG's losses: an image is encoded and decoded again, as Pillow saves and opens it. */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_JPEG_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_JPEG_H

#include "transforms/image_ops/image_call_kind.h"

/*
 * args[0]: quality, 1 to 100. The only call that allocates: MR_ERR_NO_MEMORY. MR_ERR_DAMAGED if a
 * side is above libjpeg's limit of 65500.
 */
mr_status mr_image_jpeg_make(const struct mr_image_call *call, struct mr_image *from,
                             struct mr_image *to, const struct mr_kernel_ops *kernels,
                             mr_error *error);

#endif
