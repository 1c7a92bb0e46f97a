/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box has 2 * reach + 1 whole pixels and, at both ends, a part of one more. Its three passes have
 * the variance that the radius asks for. Every pass ends in bytes; horizontal passes come first.
 * Outside the image its edge continues.
 */
#include "transforms/image_ops/image_box_blur.h"
#include "transforms/simd/kernels.h"

#include <assert.h>
#include <math.h>
#include <string.h>

#define N_PASSES 3
#define ONE (1u << 24)

/*
 * Floats and doubles are used as in Pillow's _gaussian_blur_radius(), ImagingBoxBlur() and
 * ImagingLineBoxBlur().
 */
static struct mr_box_blur make_box(double radius)
{
    float r = (float)radius;
    float variance = r * r / N_PASSES;
    float length = (float)sqrt(12.0 * (double)variance + 1.0);
    float whole = (float)floor(((double)length - 1.0) / 2.0);
    float part = (2 * whole + 1) * (whole * (whole + 1) - 3 * variance);
    part /= 6 * (variance - (whole + 1) * (whole + 1));
    float half = whole + part;

    struct mr_box_blur box = {.reach = (uint32_t)half,
                              .whole = (uint32_t)((float)ONE / (half * 2 + 1))};
    box.part = (ONE - (box.reach * 2 + 1) * box.whole) / 2;
    return box;
}

/* One pass. */
static void blur_rows(const struct mr_box_blur *box, const struct mr_image *from,
                      const struct mr_image *to, const struct mr_kernel_ops *kernels)
{
    for (uint32_t y = 0; y < from->height; y++)
        kernels->image->box_row(box, from->n_channels, from->width, from->pixels + y * from->stride,
                                to->pixels + y * to->stride);
}

static void blur_columns(const struct mr_box_blur *box, const struct mr_image *from,
                         const struct mr_image *to, const struct mr_kernel_ops *kernels)
{
    kernels->image->box_columns(box, from->height, (size_t)from->width * from->n_channels,
                                from->pixels, from->stride, to->pixels, to->stride);
}

static void copy_image(const struct mr_image *from, const struct mr_image *to)
{
    for (uint32_t y = 0; y < from->height; y++)
        memcpy(to->pixels + y * to->stride, from->pixels + y * from->stride,
               (size_t)from->width * from->n_channels);
}

mr_status mr_image_box_blur_make(const struct mr_image_call *call, struct mr_image *from,
                                 struct mr_image *to, const struct mr_kernel_ops *kernels,
                                 mr_error *error)
{
    (void)error;
    assert(call->args[0] >= 0);
    struct mr_box_blur box = make_box(call->args[0]);
    if (box.whole < ONE) {
        blur_rows(&box, from, to, kernels);
        blur_rows(&box, to, from, kernels);
        blur_rows(&box, from, to, kernels);
        blur_columns(&box, to, from, kernels);
        blur_columns(&box, from, to, kernels);
        blur_columns(&box, to, from, kernels);
    }
    copy_image(from, to);
    return MR_OK;
}
