/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of 256 bytes for each channel. Statistics are Pillow's: autocontrast has the least and the greatest value of a
 * channel, equalize its histogram.
 */
#include "transforms/image_ops/image_table.h"

#include <string.h>

/* Every channel's table is that of the first. */
static void repeat_first(struct mr_image_table *table)
{
    memcpy(table->bytes[1], table->bytes[0], sizeof table->bytes[0]);
    memcpy(table->bytes[2], table->bytes[0], sizeof table->bytes[0]);
}

static void fill_identity(uint8_t table_out[256])
{
    for (uint32_t x = 0; x < 256; x++)
        table_out[x] = (uint8_t)x;
}

void mr_image_table_invert(const struct mr_image_call *call, const struct mr_image *image,
                           const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    (void)call;
    (void)image;
    (void)kernels;
    for (uint32_t x = 0; x < 256; x++)
        table_out->bytes[0][x] = (uint8_t)(255 - x);
    repeat_first(table_out);
}

void mr_image_table_posterize(const struct mr_image_call *call, const struct mr_image *image,
                              const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    (void)image;
    (void)kernels;
    uint32_t mask = 0xffu << (8 - (uint32_t)call->args[0]);
    for (uint32_t x = 0; x < 256; x++)
        table_out->bytes[0][x] = (uint8_t)(x & mask);
    repeat_first(table_out);
}

void mr_image_table_solarize(const struct mr_image_call *call, const struct mr_image *image,
                             const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    (void)image;
    (void)kernels;
    for (uint32_t x = 0; x < 256; x++)
        table_out->bytes[0][x] = (uint8_t)((double)x < call->args[0] ? x : 255 - x);
    repeat_first(table_out);
}

static void find_extremes(const struct mr_image *image, uint32_t channel, uint8_t *least_out, uint8_t *greatest_out)
{
    uint8_t least = 255, greatest = 0;
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride + channel;
        for (size_t x = 0; x < image->width; x++) {
            uint8_t value = row[x * image->n_channels];
            least = value < least ? value : least;
            greatest = value > greatest ? value : greatest;
        }
    }
    *least_out = least;
    *greatest_out = greatest;
}

void mr_image_table_autocontrast(const struct mr_image_call *call, const struct mr_image *image,
                                 const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    (void)call;
    (void)kernels;
    for (uint32_t c = 0; c < image->n_channels; c++) {
        uint8_t least, greatest, *table = table_out->bytes[c];
        find_extremes(image, c, &least, &greatest);
        fill_identity(table);
        if (greatest <= least)
            continue;
        double scale = 255.0 / (greatest - least), offset = -least * scale;
        for (int x = 0; x < 256; x++) {
            int value = (int)(x * scale + offset);
            table[x] = (uint8_t)(value < 0 ? 0 : value > 255 ? 255 : value);
        }
    }
}

static void count_values(const struct mr_image *image, uint32_t histogram_out[3][256])
{
    memset(histogram_out, 0, 3 * sizeof histogram_out[0]);
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        for (size_t x = 0; x < image->width; x++, row += image->n_channels)
            for (uint32_t c = 0; c < image->n_channels; c++)
                histogram_out[c][row[c]]++;
    }
}

/* The greatest value does not count for the step; a channel whose step would be 0 stays. */
static void equalize_channel(const uint32_t histogram[256], uint8_t table_out[256])
{
    uint32_t total = 0, greatest = 0, n_values = 0;
    for (uint32_t x = 0; x < 256; x++) {
        if (histogram[x] == 0)
            continue;
        total += histogram[x];
        greatest = histogram[x];
        n_values++;
    }
    uint32_t step = n_values > 1 ? (total - greatest) / 255 : 0;
    fill_identity(table_out);
    if (step == 0)
        return;
    uint32_t sum = step / 2;
    for (uint32_t x = 0; x < 256; x++) {
        table_out[x] = (uint8_t)(sum / step > 255 ? 255 : sum / step);
        sum += histogram[x];
    }
}

void mr_image_table_equalize(const struct mr_image_call *call, const struct mr_image *image,
                             const struct mr_kernel_ops *kernels, struct mr_image_table *table_out)
{
    uint32_t histogram[3][256];
    (void)call;
    (void)kernels;
    count_values(image, histogram);
    for (uint32_t c = 0; c < image->n_channels; c++)
        equalize_channel(histogram[c], table_out->bytes[c]);
}

void mr_image_table_fold(struct mr_image_table *first, const struct mr_image_table *second, uint32_t n_channels)
{
    for (uint32_t c = 0; c < n_channels; c++)
        for (uint32_t x = 0; x < 256; x++)
            first->bytes[c][x] = second->bytes[c][first->bytes[c][x]];
}

static void map_row(const struct mr_image_table *table, uint8_t *row, uint32_t width, uint32_t n_channels)
{
    for (size_t x = 0; n_channels == 1 && x < width; x++)
        row[x] = table->bytes[0][row[x]];
    for (size_t x = 0; n_channels == 3 && x < width; x++, row += 3) {
        row[0] = table->bytes[0][row[0]];
        row[1] = table->bytes[1][row[1]];
        row[2] = table->bytes[2][row[2]];
    }
}

void mr_image_table_apply(const struct mr_image_table *table, struct mr_image *image)
{
    for (uint32_t y = 0; y < image->height; y++)
        map_row(table, image->pixels + y * image->stride, image->width, image->n_channels);
}
