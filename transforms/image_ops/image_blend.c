/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Invariant: a blend's product is rounded before its sum, so the two must not be contracted. The factor is rounded to
 * f32 first.
 */
#include "transforms/image_ops/image_blend.h"

#include "transforms/image_ops/image_gray.h"

#include <string.h>

/* Image.blend: from at factor 0, to at factor 1, and beyond them too. */
static inline uint8_t blend(uint8_t from, uint8_t to, float factor)
{
    float value = (float)from + factor * (float)(to - from);
    return value <= 0.0f ? 0 : value >= 255.0f ? 255 : (uint8_t)value;
}

static void fill_table(uint8_t from, double factor, uint32_t n_channels, struct mr_image_table *table_out)
{
    for (uint32_t i = 0; i < 256; i++)
        table_out->bytes[0][i] = blend(from, (uint8_t)i, (float)factor);
    for (uint32_t c = 1; c < n_channels; c++)
        memcpy(table_out->bytes[c], table_out->bytes[0], 256);
}

void mr_image_blend_brightness(const struct mr_image_call *call, const struct mr_image *image,
                               const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    (void)kernels;
    fill_table(0, call->args[0], image->n_channels, table_out);
}

/* int(mean + 0.5) of the gray image */
static uint8_t find_mean(const struct mr_image *image)
{
    uint64_t sum = 0, n = (uint64_t)image->width * image->height;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        for (size_t x = 0; x < image->width; x++)
            sum += image->n_channels == 1 ? row[x] : mr_image_gray_of(row + 3 * x);
    }
    return (uint8_t)((2 * sum + n) / (2 * n));
}

void mr_image_blend_contrast(const struct mr_image_call *call, const struct mr_image *image,
                             const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    (void)kernels;
    fill_table(find_mean(image), call->args[0], image->n_channels, table_out);
}

void mr_image_blend_saturation(const struct mr_image_call *call, struct mr_image *image,
                               const struct mr_kernel_ops *kernels)
{
    (void)kernels;
    if (image->n_channels == 1)
        return;
    float factor = (float)call->args[0];
    for (uint32_t y = 0; y < image->height; y++) {
        uint8_t *pixel = image->pixels + y * image->stride;
        for (uint32_t x = 0; x < image->width; x++, pixel += 3) {
            uint8_t gray = mr_image_gray_of(pixel);
            for (uint32_t c = 0; c < 3; c++)
                pixel[c] = blend(gray, pixel[c], factor);
        }
    }
}

/*
 * A row's len bytes but for the first and the last pixel. The smoothed image is ImageFilter.SMOOTH's: a mean of 3 x 3
 * pixels in which the centre counts five times. Pillow sums in floats; no sum comes near a boundary, so integers give
 * the same.
 */
static void sharpen_row(float factor, uint32_t n_channels, size_t len, size_t stride, const uint8_t *restrict row,
                        uint8_t *restrict out)
{
    const uint8_t *above = row - stride, *below = row + stride;
    for (size_t i = n_channels; i < len - n_channels; i++) {
        size_t left = i - n_channels, right = i + n_channels;
        int sum = above[left] + above[i] + above[right] + row[left] + 5 * row[i] + row[right] + below[left] + below[i] +
                  below[right];
        out[i] = blend((uint8_t)((unsigned)(sum + 6) / 13), row[i], factor);
    }
}

/* The filter copies the outermost pixels, and images that are less than 3 pixels wide or high. */
mr_status mr_image_blend_sharpness(const struct mr_image_call *call, struct mr_image *from, struct mr_image *to,
                                   const struct mr_kernel_ops *kernels, mr_error *error)
{
    (void)kernels;
    (void)error;
    size_t len = (size_t)from->width * from->n_channels;
    for (uint32_t y = 0; y < from->height; y++) {
        const uint8_t *row = from->pixels + y * from->stride;
        uint8_t *out = to->pixels + y * to->stride;
        memcpy(out, row, len);
        if (y > 0 && y + 1 < from->height && from->width >= 3)
            sharpen_row((float)call->args[0], from->n_channels, len, from->stride, row, out);
    }
    return MR_OK;
}
