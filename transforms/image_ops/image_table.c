/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tables of 256 bytes for each channel. Statistics are Pillow's: autocontrast uses the least and
 * the greatest value of a channel, equalize its histogram.
 */
#include "transforms/image_ops/image_table.h"

#include "transforms/simd/kernels.h"

#include <string.h>

/* Copy the first channel's table to the others. */
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

void mr_image_table_solarize_add(const struct mr_image_call *call, const struct mr_image *image,
                                 const struct mr_kernel_ops *kernels,
                                 struct mr_image_table *table_out)
{
    (void)image;
    (void)kernels;
    const uint32_t add = (uint32_t)call->args[0];
    for (uint32_t x = 0; x < 256; x++)
        table_out->bytes[0][x] = (uint8_t)(x >= 128 ? x : x + add > 255 ? 255 : x + add);
    repeat_first(table_out);
}

/* How many values of a row are compared at once: a multiple of the channels, 1 or 3. */
#define LANES 192

struct extremes {
    uint8_t least[LANES];
    uint8_t greatest[LANES];
};

static void widen_extremes(struct extremes *extremes, const uint8_t *restrict values, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint8_t least = extremes->least[i], greatest = extremes->greatest[i];
        extremes->least[i] = values[i] < least ? values[i] : least;
        extremes->greatest[i] = values[i] > greatest ? values[i] : greatest;
    }
}

/* Lane i belongs to channel i modulo n_channels. */
static void find_extremes(const struct mr_image *image, struct extremes *extremes_out)
{
    size_t len = (size_t)image->width * image->n_channels;
    memset(extremes_out->least, 255, LANES);
    memset(extremes_out->greatest, 0, LANES);
    for (uint32_t y = 0; y < image->height; y++) {
        const uint8_t *row = image->pixels + y * image->stride;
        size_t i = 0;
        for (; i + LANES <= len; i += LANES)
            widen_extremes(extremes_out, row + i, LANES);
        widen_extremes(extremes_out, row + i, len - i);
    }
    for (uint32_t i = image->n_channels; i < LANES; i++) {
        uint32_t c = i % image->n_channels;
        if (extremes_out->least[i] < extremes_out->least[c])
            extremes_out->least[c] = extremes_out->least[i];
        if (extremes_out->greatest[i] > extremes_out->greatest[c])
            extremes_out->greatest[c] = extremes_out->greatest[i];
    }
}

void mr_image_table_autocontrast(const struct mr_image_call *call, const struct mr_image *image,
                                 const struct mr_kernel_ops *kernels,
                                 struct mr_image_table *table_out)
{
    (void)call;
    (void)kernels;
    struct extremes extremes;
    find_extremes(image, &extremes);
    for (uint32_t c = 0; c < image->n_channels; c++) {
        uint8_t least = extremes.least[c], greatest = extremes.greatest[c],
                *table = table_out->bytes[c];
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

/*
 * Neighbouring pixels are counted in different tables. They often have the same value, and in one
 * table the second count would wait until the first is stored.
 */
#define TURNS 4

struct counts {
    uint32_t n[TURNS][3][256];
};

static void count_row(struct counts *counts, const uint8_t *row, size_t width, uint32_t n_channels)
{
    size_t x = 0;
    for (; n_channels == 3 && x + TURNS <= width; x += TURNS, row += (size_t)3 * TURNS)
        for (uint32_t turn = 0; turn < TURNS; turn++)
            for (uint32_t c = 0; c < 3; c++)
                counts->n[turn][c][row[3 * turn + c]]++;
    for (; n_channels == 1 && x + TURNS <= width; x += TURNS, row += TURNS)
        for (uint32_t turn = 0; turn < TURNS; turn++)
            counts->n[turn][0][row[turn]]++;
    for (; x < width; x++, row += n_channels)
        for (uint32_t c = 0; c < n_channels; c++)
            counts->n[0][c][row[c]]++;
}

/* The tables of the first turn become the histograms. */
static void count_values(const struct mr_image *image, struct counts *counts_out)
{
    memset(counts_out, 0, sizeof *counts_out);
    for (uint32_t y = 0; y < image->height; y++)
        count_row(counts_out, image->pixels + y * image->stride, image->width, image->n_channels);
    for (uint32_t turn = 1; turn < TURNS; turn++)
        for (uint32_t c = 0; c < image->n_channels; c++)
            for (uint32_t x = 0; x < 256; x++)
                counts_out->n[0][c][x] += counts_out->n[turn][c][x];
}

/*
 * The greatest value does not count for the step. A channel whose step would be 0 stays as it is.
 */
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
    struct counts counts;
    (void)call;
    (void)kernels;
    count_values(image, &counts);
    for (uint32_t c = 0; c < image->n_channels; c++)
        equalize_channel(counts.n[0][c], table_out->bytes[c]);
}

void mr_image_table_fold(struct mr_image_table *first, const struct mr_image_table *second,
                         uint32_t n_channels)
{
    for (uint32_t c = 0; c < n_channels; c++)
        for (uint32_t x = 0; x < 256; x++)
            first->bytes[c][x] = second->bytes[c][first->bytes[c][x]];
}

/* Three equal tables are used as one, and rows without a gap as one row. */
void mr_image_table_apply(const struct mr_image_table *table, struct mr_image *image,
                          const struct mr_kernel_ops *kernels)
{
    size_t len = (size_t)image->width * image->n_channels;
    bool are_equal =
        image->n_channels == 1 || (memcmp(table->bytes[0], table->bytes[1], 256) == 0 &&
                                   memcmp(table->bytes[0], table->bytes[2], 256) == 0);
    uint32_t step = are_equal ? 1 : 3, n_rows = image->stride == len ? 1 : image->height;
    if (n_rows == 1)
        len *= image->height;
    for (uint32_t y = 0; y < n_rows; y++)
        kernels->image->map(table->bytes, step, image->pixels + y * image->stride, len);
}
