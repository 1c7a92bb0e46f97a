/* SPDX-License-Identifier: Apache-2.0 */
/* Moves bytes within an image. */
#include "transforms/image_ops/image_swap.h"

#include <string.h>

static void swap_bytes(uint8_t *a, uint8_t *b, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t byte = a[i];
        a[i] = b[i];
        b[i] = byte;
    }
}

void mr_image_swap_columns(const struct mr_image_call *call, struct mr_image *image,
                           const struct mr_kernel_ops *kernels)
{
    (void)call;
    (void)kernels;
    size_t n = image->n_channels;
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *row = image->pixels + y * image->stride;
        for (size_t x = 0; x < image->width / 2; x++)
            swap_bytes(row + x * n, row + (image->width - 1 - x) * n, n);
    }
}

void mr_image_swap_rows(const struct mr_image_call *call, struct mr_image *image,
                        const struct mr_kernel_ops *kernels)
{
    (void)call;
    (void)kernels;
    for (size_t y = 0; y < image->height / 2; y++)
        swap_bytes(image->pixels + y * image->stride,
                   image->pixels + (image->height - 1 - y) * image->stride,
                   (size_t)image->width * image->n_channels);
}

void mr_image_swap_channels(const struct mr_image_call *call, struct mr_image *image,
                            const struct mr_kernel_ops *kernels)
{
    (void)kernels;
    if (image->n_channels == 1)
        return;
    const uint32_t from[3] = {(uint32_t)call->args[0], (uint32_t)call->args[1],
                              (uint32_t)call->args[2]};
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, pixel += 3) {
            const uint8_t moved[3] = {pixel[from[0]], pixel[from[1]], pixel[from[2]]};
            memcpy(pixel, moved, sizeof moved);
        }
    }
}
