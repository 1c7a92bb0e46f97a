/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pillow's convert("HSV"), an addition to the hue modulo 256, and convert("RGB"), in one step for
 * each pixel. The weights of the channels depend on the hue alone, so the addition is part of their
 * table.
 */
#include "transforms/image_ops/image_hue.h"
#include "transforms/simd/kernels.h"

#include <stdlib.h>

static uint8_t clip_weight(int weight)
{
    return (uint8_t)(weight < 0 ? 0 : weight > 255 ? 255 : weight);
}

static struct mr_hue_shift make_shift(double factor)
{
    /* towards 0, then modulo 256 */
    struct mr_hue_shift shift = {.shift = (uint32_t)(int)(factor * 255) & 255};
    for (uint32_t hue = 0; hue < 256; hue++) {
        int turn = 6 * (int)((hue + shift.shift) & 255); /* 1530 is a full turn */
        shift.weight[hue][0] = clip_weight(510 - abs(turn - 765));
        shift.weight[hue][1] = clip_weight(abs(turn - 510) - 255);
        shift.weight[hue][2] = clip_weight(abs(turn - 1020) - 255);
    }
    return shift;
}

void mr_image_hue_shift(const struct mr_image_call *call, struct mr_image *image,
                        const struct mr_kernel_ops *kernels)
{
    if (image->n_channels == 1)
        return;
    struct mr_hue_shift shift = make_shift(call->args[0]);
    for (uint32_t y = 0; y < image->height; y++)
        kernels->image->shift_hue(&shift, image->pixels + y * image->stride, image->width);
}
