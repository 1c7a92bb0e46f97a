/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchvision convolves floats, in an order that depends on the library beneath; no value here is further than 1 from
 * it. The kernel is separable: a pass along the rows, to words with 7 bits behind the point, and one down the columns.
 * Both go through strips of columns, so that the words of the rows that a kernel spans fit on the stack.
 *
 * Weights have 16 bits, and the pixels at equal distance left and right share one multiplication. A product loses its
 * lower half, on average half a step; `bias` gives that back.
 */
#include "transforms/image_ops/image_gaussian_blur.h"

#include <math.h>
#include <string.h>

#define STRIP 64 /* bytes of a row */
#define MAX_REACH (MR_IMAGE_GAUSSIAN_BLUR_MAX_KERNEL / 2)
#define MAX_SPAN (2 * MAX_REACH + 1)
#define POINT 7
/* Taps at the ends whose share in a value stays below this are left out. */
#define MIN_SHARE (0.05 / 255)

struct kernel {
    uint32_t reach;
    uint32_t bias;
    uint32_t weight[MAX_REACH + 1]; /* by distance, of 65536 */
};

static struct kernel make_kernel(uint32_t size, double sigma)
{
    double density[MAX_REACH + 1], sum = 1, lost = 0;
    uint32_t reach = size / 2;
    density[0] = 1;
    for (uint32_t i = 1; i <= reach; i++) {
        density[i] = exp(-0.5 * (i / sigma) * (i / sigma));
        sum += 2 * density[i];
    }
    while (reach > 0 && lost + 2 * density[reach] / sum < MIN_SHARE)
        lost += 2 * density[reach--] / sum;
    struct kernel kernel = {.reach = reach, .bias = (reach + 1) / 2};
    uint32_t rest = 65536; /* the centre has what the others leave */
    for (uint32_t i = 1; i <= reach; i++) {
        kernel.weight[i] = (uint32_t)(density[i] / sum * 65536 + 0.5);
        rest -= 2 * kernel.weight[i];
    }
    kernel.weight[0] = rest < 65535 ? rest : 65535;
    return kernel;
}

/* Where the reflected image has place i, 0 to n - 1; i lies less than n outside. */
static int64_t reflect(int64_t i, int64_t n)
{
    return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
}

/* Bytes first - margin to first + STRIP + margin - 1 of a row of an image that is reflected; more of them are 0. */
static void copy_reflected(const struct mr_image *image, const uint8_t *row, int64_t first, int64_t margin,
                           uint8_t *out)
{
    int64_t n = image->n_channels, end = first + STRIP + margin;
    for (int64_t i = first - margin; i < end; i++) {
        int64_t x = (i + MAX_REACH * n) / n - MAX_REACH, c = i - x * n;
        if (x < image->width + margin / n)
            *out++ = row[reflect(x, image->width) * n + c];
        else
            *out++ = 0;
    }
}

static void blur_across(const struct kernel *kernel, uint32_t n_channels, const uint8_t *restrict bytes,
                        uint16_t *restrict out)
{
    uint32_t sum[STRIP];
    for (uint32_t i = 0; i < STRIP; i++)
        sum[i] = ((bytes[i] << POINT) * kernel->weight[0] >> 16) + kernel->bias;
    for (uint32_t k = 1; k <= kernel->reach; k++) {
        const uint8_t *left = bytes - k * n_channels, *right = bytes + k * n_channels;
        for (uint32_t i = 0; i < STRIP; i++)
            sum[i] += ((uint32_t)(left[i] + right[i]) << POINT) * kernel->weight[k] >> 16;
    }
    for (uint32_t i = 0; i < STRIP; i++)
        out[i] = (uint16_t)sum[i];
}

/* rows[0] is the centre. */
static void blur_down(const struct kernel *kernel, const uint16_t *const *rows, uint8_t *restrict out)
{
    uint32_t sum[STRIP];
    for (uint32_t i = 0; i < STRIP; i++)
        sum[i] = (rows[0][i] * kernel->weight[0] >> 16) + kernel->bias + (1u << (POINT - 1));
    for (int32_t k = 1; k <= (int32_t)kernel->reach; k++)
        for (uint32_t i = 0; i < STRIP; i++)
            sum[i] += (uint32_t)(rows[-k][i] + rows[k][i]) * kernel->weight[k] >> 16;
    for (uint32_t i = 0; i < STRIP; i++)
        out[i] = (uint8_t)(sum[i] >> POINT);
}

/* The words of row y for the strip of columns at `first`. */
static void make_words(const struct kernel *kernel, const struct mr_image *image, int64_t y, int64_t first,
                       uint16_t *out)
{
    const uint8_t *row = image->pixels + (size_t)y * image->stride;
    int64_t margin = (int64_t)kernel->reach * image->n_channels, len = (int64_t)image->width * image->n_channels;
    uint8_t bytes[STRIP + 2 * 3 * MAX_REACH];
    if (first >= margin && first + STRIP + margin <= len) {
        blur_across(kernel, image->n_channels, row + first, out);
        return;
    }
    copy_reflected(image, row, first, margin, bytes);
    blur_across(kernel, image->n_channels, bytes + margin, out);
}

static void blur_strip(const struct kernel *kernel, const struct mr_image *from, const struct mr_image *to,
                       size_t first, size_t n)
{
    uint16_t words[MAX_SPAN][STRIP];
    const uint32_t span = 2 * kernel->reach + 1;
    const int64_t height = from->height, reach = kernel->reach;
    uint8_t out[STRIP];
    for (int64_t y = 0; y < height + reach; y++) {
        if (y < height)
            make_words(kernel, from, y, (int64_t)first, words[y % span]);
        int64_t centre = y - reach;
        if (centre < 0)
            continue;
        const uint16_t *rows[MAX_SPAN];
        for (int64_t k = -reach; k <= reach; k++)
            rows[reach + k] = words[reflect(centre + k, height) % span];
        blur_down(kernel, rows + reach, out);
        memcpy(to->pixels + (size_t)centre * to->stride + first, out, n);
    }
}

mr_status mr_image_gaussian_blur_make(const struct mr_image_call *call, struct mr_image *from, struct mr_image *to,
                                      const struct mr_kernel_ops *kernels, mr_error *error)
{
    (void)kernels;
    uint32_t size = (uint32_t)call->args[0];
    if (from->width <= size / 2 || from->height <= size / 2)
        return mr_error_set(error, MR_ERR_DAMAGED, "gaussian_blur: an image of %u x %u is too small for kernel %u",
                            from->width, from->height, size);
    struct kernel kernel = make_kernel(size, call->args[1]);
    size_t len = (size_t)from->width * from->n_channels;
    for (size_t i = 0; i < len; i += STRIP)
        blur_strip(&kernel, from, to, i, len - i < STRIP ? len - i : STRIP);
    return MR_OK;
}
