/* SPDX-License-Identifier: Apache-2.0 */
/*
 * torchvision convolves floats, in an order that depends on the library below it; values here
 * differ from its values by at most 1. The kernel is separable: one pass along the rows, to words
 * with 7 fraction bits, and one down the columns. Both process strips of columns, so the words of
 * the rows that a kernel spans fit on the stack.
 *
 * Weights have 16 bits, and the pixels at equal distance left and right share one multiplication. A
 * product loses its lower half, on average half a step; `bias` restores it.
 */
#include "transforms/image_ops/image_gaussian_blur.h"
#include "transforms/simd/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define STRIP MR_TAPS_STRIP /* bytes of a row */
#define MAX_REACH MR_TAPS_MAX_REACH
#define MAX_SPAN (2 * MAX_REACH + 1)
static_assert(MR_IMAGE_GAUSSIAN_BLUR_MAX_KERNEL == MAX_SPAN, "the largest kernel's taps fit");

/* Taps at the ends that contribute less than this are left out. */
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

/* Where the reflected image has place i: 0 to n - 1. i is less than n outside. */
static int64_t reflect(int64_t i, int64_t n)
{
    return i < 0 ? -i : i >= n ? 2 * (n - 1) - i : i;
}

/*
 * A strip of columns, and beside it the bytes that the taps reach. Some of them are outside the
 * row.
 */
struct strip {
    size_t left; /* bytes outside the row, inside it, and outside again */
    size_t inside;
    size_t right;
    size_t begin;                             /* of the inside ones, in the row */
    uint32_t from[STRIP + 2 * 3 * MAX_REACH]; /* their places in the row, left ones first */
};

/*
 * Where the reflected row has byte i. After the last byte that a tap reaches, any result will do.
 */
static uint32_t reflect_byte(const struct mr_image *image, int64_t i, int64_t margin)
{
    const int64_t step = image->n_channels, len = image->width * step;
    if (i >= len + margin)
        return 0;
    int64_t pixel = i < 0 ? -((step - 1 - i) / step) : i / step;
    return (uint32_t)(reflect(pixel, image->width) * step + i - pixel * step);
}

static struct strip find_strip(const struct mr_image *image, int64_t first, int64_t margin)
{
    const int64_t len = (int64_t)image->width * image->n_channels, begin = first - margin,
                  end = first + STRIP + margin;
    const int64_t from = begin > 0 ? begin : 0, to = end < len ? end : len;
    struct strip strip = {.left = (size_t)(from - begin),
                          .inside = (size_t)(to - from),
                          .right = (size_t)(end - to),
                          .begin = (size_t)from};
    for (int64_t i = begin; i < from; i++)
        strip.from[i - begin] = reflect_byte(image, i, margin);
    for (int64_t i = to; i < end; i++)
        strip.from[i - to + from - begin] = reflect_byte(image, i, margin);
    return strip;
}

static void copy_reflected(const struct strip *strip, const uint8_t *row, uint8_t *out)
{
    const uint32_t *from = strip->from;
    for (size_t i = 0; i < strip->left; i++)
        *out++ = row[*from++];
    memcpy(out, row + strip->begin, strip->inside);
    out += strip->inside;
    for (size_t i = 0; i < strip->right; i++)
        *out++ = row[*from++];
}

/* Make the words of a row for the strip. */
static void make_words(const struct mr_taps *taps, const struct mr_kernel_ops *kernels,
                       const struct strip *strip, const uint8_t *row, uint32_t step, uint16_t *out)
{
    size_t margin = (size_t)taps->reach * step;
    uint8_t bytes[STRIP + 2 * 3 * MAX_REACH];
    if (strip->left + strip->right == 0) {
        kernels->image->taps_row(taps, step, row + strip->begin + margin, out);
        return;
    }
    copy_reflected(strip, row, bytes);
    kernels->image->taps_row(taps, step, bytes + margin, out);
}

/*
 * A ring of words of the rows that a kernel spans. Each pointer is in it twice, so the pointers of
 * a span are contiguous.
 */
struct ring {
    uint16_t words[MAX_SPAN][STRIP];
    const uint16_t *row[2 * MAX_SPAN];
    const uint16_t *reflected[MAX_SPAN];
    uint32_t span;
};

/* Returns row centre - reach, the first of those around `centre`; its neighbours follow it. */
static const uint16_t *const *find_rows(struct ring *ring, int64_t centre, int64_t height)
{
    const int64_t reach = ring->span / 2;
    if (centre >= reach && centre + reach < height)
        return ring->row + (centre - reach) % ring->span;
    for (int64_t k = -reach; k <= reach; k++)
        ring->reflected[reach + k] = ring->row[reflect(centre + k, height) % ring->span];
    return ring->reflected;
}

static void blur_strip(const struct mr_taps *taps, const struct mr_kernel_ops *kernels,
                       const struct mr_image *from, const struct mr_image *to, size_t first,
                       size_t n)
{
    const int64_t height = from->height, reach = taps->reach;
    const struct strip strip = find_strip(from, (int64_t)first, reach * from->n_channels);
    struct ring ring;
    uint8_t out[STRIP];
    ring.span = 2 * taps->reach + 1;
    for (uint32_t i = 0; i < 2 * ring.span; i++)
        ring.row[i] = ring.words[i % ring.span];
    for (int64_t y = 0; y < height + reach; y++) {
        if (y < height)
            make_words(taps, kernels, &strip, from->pixels + (size_t)y * from->stride,
                       from->n_channels, ring.words[y % ring.span]);
        int64_t centre = y - reach;
        if (centre < 0)
            continue;
        uint8_t *row = to->pixels + (size_t)centre * to->stride + first;
        const uint16_t *const *rows = find_rows(&ring, centre, height);
        kernels->image->taps_columns(taps, rows + reach, n == STRIP ? row : out);
        if (n < STRIP)
            memcpy(row, out, n);
    }
}

mr_status mr_image_gaussian_blur_check(const double *args, int64_t width, int64_t height,
                                       mr_error *error)
{
    int64_t size = (int64_t)args[0];
    if (width > size / 2 && height > size / 2)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "gaussian_blur: an image of %lld x %lld is too small for kernel %lld",
                        (long long)width, (long long)height, (long long)size);
}

mr_status mr_image_gaussian_blur_make(const struct mr_image_call *call, struct mr_image *from,
                                      struct mr_image *to, const struct mr_kernel_ops *kernels,
                                      mr_error *error)
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
