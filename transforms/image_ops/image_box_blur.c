/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box has 2 * reach + 1 whole pixels and, at both ends, a part of one more; its three passes have the variance that
 * the radius asks for. Every pass ends in bytes, horizontal ones first. Beyond the image its edge continues.
 */
#include "transforms/image_ops/image_box_blur.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define N_PASSES 3
#define ONE (1u << 24)
#define MAX_LANES 64

struct box {
    uint32_t reach;
    uint32_t whole; /* weights, of ONE */
    uint32_t part;
};

/* Floats and doubles as in Pillow's _gaussian_blur_radius(), ImagingBoxBlur() and ImagingLineBoxBlur(). */
static struct box make_box(double radius)
{
    float r = (float)radius;
    float variance = r * r / N_PASSES;
    float length = (float)sqrt(12.0 * (double)variance + 1.0);
    float whole = (float)floor(((double)length - 1.0) / 2.0);
    float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
    part /= 6 * (variance - (whole + 1) * (whole + 1));
    float half = whole + part;

    struct box box = {.reach = (uint32_t)half, .whole = (uint32_t)((float)ONE / (half * 2 + 1))};
    box.part = (ONE - (box.reach * 2 + 1) * box.whole) / 2;
    return box;
}

/*
 * One pass over n groups of `lanes` bytes, which lie from_step and to_step bytes apart: the pixels of a row, or some
 * columns' bytes of all rows.
 */
static inline __attribute__((always_inline)) void blur_groups(const struct box *box, uint32_t n, uint32_t lanes,
                                                              const uint8_t *restrict from, size_t from_step,
                                                              uint8_t *restrict to, size_t to_step)
{
    const int64_t reach = box->reach, last = n - 1;
    uint32_t sum[MAX_LANES] = {0};
    for (int64_t k = -reach; k <= reach; k++) {
        const uint8_t *group = from + from_step * (size_t)(k < 0 ? 0 : k > last ? last : k);
        for (uint32_t c = 0; c < lanes; c++)
            sum[c] += group[c];
    }
    for (int64_t i = 0; i <= last; i++, to += to_step) {
        int64_t first = i - reach, next = i + reach + 1;
        const uint8_t *before = from + from_step * (size_t)(first > 0 ? first - 1 : 0);
        const uint8_t *leaves = from + from_step * (size_t)(first > 0 ? first : 0);
        const uint8_t *enters = from + from_step * (size_t)(next < last ? next : last);
        for (uint32_t c = 0; c < lanes; c++) {
            to[c] = (uint8_t)((sum[c] * box->whole + (uint32_t)(before[c] + enters[c]) * box->part + ONE / 2) >> 24);
            sum[c] += (uint32_t)enters[c] - leaves[c];
        }
    }
}

static void blur_rows(const struct box *box, const struct mr_image *from, const struct mr_image *to)
{
    for (uint32_t y = 0; y < from->height; y++) {
        const uint8_t *row = from->pixels + y * from->stride;
        uint8_t *out = to->pixels + y * to->stride;
        if (from->n_channels == 3)
            blur_groups(box, from->width, 3, row, 3, out, 3);
        else
            blur_groups(box, from->width, 1, row, 1, out, 1);
    }
}

static void blur_columns(const struct box *box, const struct mr_image *from, const struct mr_image *to)
{
    size_t len = (size_t)from->width * from->n_channels, i = 0;
    for (; i + MAX_LANES <= len; i += MAX_LANES)
        blur_groups(box, from->height, MAX_LANES, from->pixels + i, from->stride, to->pixels + i, to->stride);
    if (i < len)
        blur_groups(box, from->height, (uint32_t)(len - i), from->pixels + i, from->stride, to->pixels + i, to->stride);
}

static void copy_image(const struct mr_image *from, const struct mr_image *to)
{
    for (uint32_t y = 0; y < from->height; y++)
        memcpy(to->pixels + y * to->stride, from->pixels + y * from->stride, (size_t)from->width * from->n_channels);
}

mr_status mr_image_box_blur_make(const struct mr_image_call *call, struct mr_image *from, struct mr_image *to,
                                 const struct mr_kernel_ops *kernels, mr_error *error)
{
    (void)kernels;
    (void)error;
    assert(call->args[0] >= 0);
    struct box box = make_box(call->args[0]);
    if (box.whole < ONE) {
        blur_rows(&box, from, to);
        blur_rows(&box, to, from);
        blur_rows(&box, from, to);
        blur_columns(&box, to, from);
        blur_columns(&box, from, to);
        blur_columns(&box, to, from);
    }
    copy_image(from, to);
    return MR_OK;
}
