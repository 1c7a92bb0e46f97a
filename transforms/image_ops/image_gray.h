/* SPDX-License-Identifier: Apache-2.0 */
/* Gray images, and what is mixed with one. The functions are entries of struct mr_image_call_ops. */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_GRAY_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_GRAY_H

#include "transforms/image_ops/image_call.h"

/* Of three channels. */
static inline uint8_t mr_image_gray_of(const uint8_t *pixel)
{
    return (uint8_t)((pixel[0] * 19595u + pixel[1] * 38470u + pixel[2] * 7471u + 0x8000u) >> 16);
}

/* args: channels of the result, 1 or 3. An image with one channel stays as it is: three equal ones are made later. */
void mr_image_gray_convert(const struct mr_image_call *call, struct mr_image *image,
                           const struct mr_kernel_ops *kernels);

#endif
