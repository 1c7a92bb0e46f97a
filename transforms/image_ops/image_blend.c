/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Brightness, contrast, saturation and sharpness: blends of the image with another one. Factors are
 * rounded to f32, as in Pillow.
 */
#include "transforms/image_ops/image_blend.h"

#include "transforms/simd/kernels.h"

#include <string.h>

static void fill_table(uint8_t from, double factor, uint32_t n_channels,
                       struct mr_image_table *table_out)
{
    for (uint32_t i = 0; i < 256; i++)
        table_out->bytes[0][i] = mr_image_loops_blend(from, (uint8_t)i, (float)factor);
    for (uint32_t c = 1; c < n_channels; c++)
        memcpy(table_out->bytes[c], table_out->bytes[0], 256);
}

void mr_image_blend_brightness(const struct mr_image_call *call, const struct mr_image *image,
                               const struct mr_kernel_ops *kernels,
                               struct mr_image_table *table_out)
{
    (void)kernels;
    fill_table(0, call->args[0], image->n_channels, table_out);
}

/* int(mean + 0.5) of the gray image */
static uint8_t find_mean(const struct mr_image *image, const struct mr_kernel_ops *kernels)
{
    uint64_t sum = 0, n = (uint64_t)image->width * image->height;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        if (image->n_channels == 3)
            sum += kernels->image->sum_gray(row, image->width);
        else
            for (uint32_t x = 0; x < image->width; x++)
                sum += row[x];
    }
    return (uint8_t)((2 * sum + n) / (2 * n));
}

void mr_image_blend_contrast(const struct mr_image_call *call, const struct mr_image *image,
                             const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    fill_table(find_mean(image, kernels), call->args[0], image->n_channels, table_out);
}

void mr_image_blend_saturation(const struct mr_image_call *call, struct mr_image *image,
                               const struct mr_kernel_ops *kernels)
{
    if (image->n_channels == 3)
        for (uint32_t y = 0; y < image->height; y++)
            kernels->image->saturate((float)call->args[0], image->pixels + y * image->stride,
                                     image->width);
}

/*
 * The image is blended with ImageFilter.SMOOTH. That filter copies the outermost pixels, and all
 * pixels of images less than 3 pixels wide or high.
 */
mr_status mr_image_blend_sharpness(const struct mr_image_call *call, struct mr_image *from,
                                   struct mr_image *to, const struct mr_kernel_ops *kernels,
                                   mr_error *error)
{
    (void)error;
    size_t len = (size_t)from->width * from->n_channels;
    for (uint32_t y = 0; y < from->height; y++) {
        const uint8_t *row = from->pixels + y * from->stride;
        uint8_t *out = to->pixels + y * to->stride;
        memcpy(out, row, len);
        if (y > 0 && y + 1 < from->height && from->width >= 3)
            kernels->image->sharpen((float)call->args[0], from->n_channels, len, from->stride, row,
                                    out);
    }
    return MR_OK;
}
