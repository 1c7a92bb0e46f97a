/* SPDX-License-Identifier: Apache-2.0 */
/* Gray is Pillow's convert("L"): integer weights of 16 bits, rounded. */
#include "transforms/image_ops/image_gray.h"

#include "transforms/simd/kernels.h"

void mr_image_gray_convert(const struct mr_image_call *call, struct mr_image *image,
                           const struct mr_kernel_ops *kernels)
{
    if (image->n_channels == 1)
        return;
    uint32_t n = (uint32_t)call->args[0];
    size_t stride = n == 1 ? image->width : image->stride;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *from = image->pixels + y * image->stride;
        uint8_t *to = image->pixels + y * stride; /* never ahead of from */
        kernels->image->gray(n, from, image->width, to);
    }
    image->n_channels = n;
    image->stride = stride;
}
