/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resizes whole images with a loader transform's geometry and resampler, for one operation.
 *
 * Invariant: images are resized as stored, before the EXIF orientation turns them. The options name
 * the longest and the shortest side, so a turn changes nothing.
 */
#include "packs/packer_resize.h"

#include <assert.h>
#include <inttypes.h>

#define CHANNELS 3

void mr_packer_resize_fini(struct mr_packer_resize *resize)
{
    mr_resample_fini(&resize->resample);
}

/*
 * value * of / in, rounded to nearest, halves up; at least 1. All are below 2^32, so 64 bits are
 * enough.
 */
static uint32_t scale_side(uint64_t value, uint64_t of, uint64_t in)
{
    uint64_t scaled = (2 * value * of + in) / (2 * in);
    return scaled ? (uint32_t)scaled : 1;
}

static struct mr_op choose_op(uint32_t width, uint32_t height, uint32_t max_side, uint32_t shortest)
{
    uint32_t longest = width > height ? width : height;
    if (shortest != 0)
        return (struct mr_op){.kind = MR_OP_RESIZE_SHORT, .height = shortest, .width = shortest};
    if (max_side == 0 || longest <= max_side)
        return (struct mr_op){.kind = MR_OP_RESIZE, .width = width, .height = height};
    return (struct mr_op){.kind = MR_OP_RESIZE,
                          .width = scale_side(width, max_side, longest),
                          .height = scale_side(height, max_side, longest)};
}

mr_status mr_packer_resize_begin(struct mr_packer_resize *resize, uint32_t width, uint32_t height,
                                 uint32_t max_side, uint32_t shortest, uint64_t max_pixels,
                                 uint32_t *width_out, uint32_t *height_out, mr_error *error)
{
    struct mr_geometry *g = &resize->geometry;
    resize->plan.n_ops = 1;
    resize->plan.ops[0] = choose_op(width, height, max_side, shortest);
    if (mr_geometry_make(&resize->plan, width, height, NULL, g, error) != MR_OK)
        return MR_ERR_UNSUPPORTED;
    assert(g->n_stages == 1);
    const struct mr_box *made = &g->stages[0].window;
    /* Sides are below 2^31, so the product fits. */
    if ((uint64_t)made->width * (uint64_t)made->height > max_pixels)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "resized it has %" PRId64 " x %" PRId64
                            " pixels, above the limit of %" PRIu64,
                            made->width, made->height, max_pixels);
    *width_out = (uint32_t)made->width;
    *height_out = (uint32_t)made->height;
    return MR_OK;
}

mr_status mr_packer_resize_run(struct mr_packer_resize *resize, const uint8_t *pixels,
                               uint32_t width, uint8_t *out, mr_error *error)
{
    const struct mr_stage *stage = &resize->geometry.stages[0];
    struct mr_resample *resample = &resize->resample;
    resample->kernels = mr_kernels_best();
    struct mr_tensor_writer writer = {.kernels = resample->kernels,
                                      .out = out,
                                      .width = (uint32_t)stage->window.width,
                                      .height = (uint32_t)stage->window.height,
                                      .channels = CHANNELS,
                                      .dtype = MR_U8,
                                      .layout = MR_NHWC};
    mr_status status = mr_resample_begin(resample, stage, CHANNELS, &writer, error);
    const struct mr_box *need = &stage->need;
    const uint8_t *rows[MR_STRIP_ROWS];
    for (int64_t y = 0; status == MR_OK && y < need->height;) {
        uint32_t n = 0;
        for (; n < MR_STRIP_ROWS && y < need->height; n++, y++)
            rows[n] = pixels + ((size_t)(need->y + y) * width + (size_t)need->x) * CHANNELS;
        mr_resample_push(resample, rows, n);
    }
    return status;
}
