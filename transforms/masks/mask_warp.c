/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs the calls of a step that move pixels on a mask, in the arithmetic of the rule: torch's
 * grid_sample, or Pillow's nearest. Indices of 16 bits are the first two of three channels, so the
 * functions for pictures serve.
 */
#include "transforms/masks/mask_warp.h"

#include "transforms/image_ops/image_call.h"
#include "transforms/image_ops/image_tensor.h"
#include "transforms/image_ops/image_warp.h"

bool mr_mask_warp_is_needed(const struct mr_geometry_step *step, const struct mr_image_call *calls)
{
    for (uint32_t i = 0; i < step->n_calls; i++)
        if (mr_image_warp_moves(&calls[step->first_call + i]))
            return true;
    return false;
}

/* Into spare, which then is the image, and the image is spare; or in place. */
static mr_status run_call(const struct mr_mask_job *job, const struct mr_image_call *call,
                          struct mr_image *image, struct mr_scratch *spare, mr_error *error)
{
    const struct mr_mask_rule *rule = job->rule;
    const struct mr_image_call_ops *ops = &mr_image_call_ops[call->kind];
    uint32_t width = image->width, height = image->height, channels = image->n_channels;
    if (ops->change) {
        ops->change(call, image, job->kernels);
        return MR_OK;
    }
    const double high = rule->fill >> 8, low = rule->fill & 255;
    const double fill[3] = {channels == 1 ? low : high, low, 0.0};
    const struct mr_image_call nearest = mr_image_warp_as_nearest(call, fill);
    mr_image_warp_size(call, &width, &height);
    mr_status status = mr_scratch_reserve(spare, (size_t)width * height, channels, error);
    struct mr_image to = *image;
    to.pixels = spare->memory;
    if (status == MR_OK && rule->nearest == MR_MASK_NEAREST_TORCH &&
        call->kind != MR_CALL_PIL_AFFINE)
        status = mr_image_tensor_warp_mask(&nearest, image, &to, job->kernels, error);
    else if (status == MR_OK)
        status = ops->make(&nearest, image, &to, job->kernels, error);
    *image = to;
    return status;
}

mr_status mr_mask_warp_run(const struct mr_mask_job *job, const struct mr_geometry_step *step,
                           struct mr_image *image, struct mr_scratch *spares, mr_error *error)
{
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < step->n_calls && status == MR_OK; i++) {
        const struct mr_image_call *call = &job->geometry->calls.calls[step->first_call + i];
        bool is_first = image->pixels == spares[0].memory;
        if (mr_image_warp_moves(call))
            status = run_call(job, call, image, &spares[is_first], error);
    }
    return status;
}
