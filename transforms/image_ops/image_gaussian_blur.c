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
#include "transforms/simd/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define STRIP MR_TAPS_STRIP /* bytes of a row */
#define MAX_REACH MR_TAPS_MAX_REACH
#define MAX_SPAN (2 * MAX_REACH + 1)
static_assert(MR_IMAGE_GAUSSIAN_BLUR_MAX_KERNEL == MAX_SPAN, "the largest kernel's taps have their place");

/* Taps at the ends whose share in a value stays below this are left out. */
#define MIN_SHARE (0.05 / 255)

static struct mr_taps make_taps(uint32_t size, double sigma)
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
    struct mr_taps taps = {.reach = reach, .bias = (reach + 1) / 2};
    uint32_t rest = 65536; /* the centre has what the others leave */
    for (uint32_t i = 1; i <= reach; i++) {
        taps.weight[i] = (uint16_t)(density[i] / sum * 65536 + 0.5);
        rest -= 2u * taps.weight[i];
    }
    taps.weight[0] = (uint16_t)(rest < 65535 ? rest : 65535);
    return taps;
}

/* Where the reflected image has place i, 0 to n - 1; i lies less than n outside. */
static int64_t reflect(int64_t i, int64_t n)
{
    return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
}

/* Bytes begin to begin + n - 1 of a row that is reflected at both ends, at most `margin` bytes far; 0 beyond that. */
static void copy_reflected(const struct mr_image *image, const uint8_t *row, int64_t begin, int64_t n, int64_t margin,
                           uint8_t *out)
{
    const int64_t step = image->n_channels, len = image->width * step, end = begin + n;
    int64_t from = begin > 0 ? begin : 0, to = end < len ? end : len;
    memcpy(out + (from - begin), row + from, (size_t)(to - from));
    if (margin == 0)
        return; /* the image may be 1 pixel wide */
    const uint8_t *pixel = row + step;
    for (int64_t i = -1, c = step - 1; i >= begin; i--) {
        out[i - begin] = pixel[c];
        if (c-- == 0) {
            c = step - 1;
            pixel += step;
        }
    }
    pixel = row + len - 2 * step;
    int64_t i = len;
    for (int64_t c = 0; i < end && i < len + margin; i++) {
        out[i - begin] = pixel[c];
        if (++c == step) {
            c = 0;
            pixel -= step;
        }
    }
    if (i < end)
        memset(out + (i - begin), 0, (size_t)(end - i));
}

/* The words of row y for the strip of columns at `first`. */
static void make_words(const struct mr_taps *taps, const struct mr_kernel_ops *kernels, const struct mr_image *image,
                       int64_t y, int64_t first, uint16_t *out)
{
    const uint8_t *row = image->pixels + (size_t)y * image->stride;
    int64_t margin = (int64_t)taps->reach * image->n_channels, len = (int64_t)image->width * image->n_channels;
    uint8_t bytes[STRIP + 2 * 3 * MAX_REACH];
    if (first >= margin && first + STRIP + margin <= len) {
        kernels->image->taps_row(taps, image->n_channels, row + first, out);
        return;
    }
    copy_reflected(image, row, first - margin, STRIP + 2 * margin, margin, bytes);
    kernels->image->taps_row(taps, image->n_channels, bytes + margin, out);
}

static void blur_strip(const struct mr_taps *taps, const struct mr_kernel_ops *kernels, const struct mr_image *from,
                       const struct mr_image *to, size_t first, size_t n)
{
    uint16_t words[MAX_SPAN][STRIP];
    const uint32_t span = 2 * taps->reach + 1;
    const int64_t height = from->height, reach = taps->reach;
    uint8_t out[STRIP];
    for (int64_t y = 0; y < height + reach; y++) {
        if (y < height)
            make_words(taps, kernels, from, y, (int64_t)first, words[y % span]);
        int64_t centre = y - reach;
        if (centre < 0)
            continue;
        const uint16_t *rows[MAX_SPAN];
        for (int64_t k = -reach; k <= reach; k++)
            rows[reach + k] = words[reflect(centre + k, height) % span];
        kernels->image->taps_columns(taps, rows + reach, out);
        memcpy(to->pixels + (size_t)centre * to->stride + first, out, n);
    }
}

mr_status mr_image_gaussian_blur_check(const double *args, int64_t width, int64_t height, mr_error *error)
{
    int64_t size = (int64_t)args[0];
    if (width > size / 2 && height > size / 2)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED, "gaussian_blur: an image of %lld x %lld is too small for kernel %lld",
                        (long long)width, (long long)height, (long long)size);
}

mr_status mr_image_gaussian_blur_make(const struct mr_image_call *call, struct mr_image *from, struct mr_image *to,
                                      const struct mr_kernel_ops *kernels, mr_error *error)
{
    mr_status status = mr_image_gaussian_blur_check(call->args, from->width, from->height, error);
    if (status != MR_OK)
        return status;
    struct mr_taps taps = make_taps((uint32_t)call->args[0], call->args[1]);
    size_t len = (size_t)from->width * from->n_channels;
    for (size_t i = 0; i < len; i += STRIP)
        blur_strip(&taps, kernels, from, to, i, len - i < STRIP ? len - i : STRIP);
    return MR_OK;
}
