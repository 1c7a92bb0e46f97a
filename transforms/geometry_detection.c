/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes as torchvision.transforms.v2 does: in f32 where it has tensors, in double where it has
 * Python's numbers.
 */
#include "transforms/geometry_detection.h"

#include <math.h>

/* torch.rand(1) */
static float draw_unit(struct mr_rng *rng)
{
    return mr_rng_uniform(rng, 0.0f, 1.0f);
}

/* range[0] + torch.rand(1) * (range[1] - range[0]) */
static float draw_factor(const double range[2], struct mr_rng *rng)
{
    return (float)range[0] + draw_unit(rng) * (float)(range[1] - range[0]);
}

static mr_status check_sides(const struct mr_geometry_step *step, double width, double height,
                             const char *name, mr_error *error)
{
    if (width >= 1.0 && height >= 1.0 && width <= (double)MR_MAX_RESIZED &&
        height <= (double)MR_MAX_RESIZED)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED, "image %lldx%lld becomes %.0fx%.0f by %s",
                        (long long)step->width, (long long)step->height, width, height, name);
}

static mr_status set_resized(struct mr_geometry_step *step, double width, double height,
                             const char *name, mr_error *error)
{
    mr_status status = check_sides(step, width, height, name, error);
    if (status != MR_OK)
        return status;
    step->resized_width = (int64_t)width;
    step->resized_height = (int64_t)height;
    return MR_OK;
}

/* RandomShortestSize.make_params */
static mr_status draw_shortest_size(struct mr_geometry_step *step, struct mr_rng *rng,
                                    mr_error *error)
{
    const struct mr_op *op = step->op;
    double width = (double)step->width, height = (double)step->height;
    double ratio = op->sizes[mr_rng_below(rng, op->n_sizes)] / fmin(width, height);
    if (op->max_size)
        ratio = fmin(ratio, op->max_size / fmax(width, height));
    return set_resized(step, trunc(width * ratio), trunc(height * ratio), "random_shortest_size",
                       error);
}

/* ScaleJitter.make_params, which divides the target's width by the image's height */
static mr_status draw_scale_jitter(struct mr_geometry_step *step, struct mr_rng *rng,
                                   mr_error *error)
{
    const struct mr_op *op = step->op;
    float scale = draw_factor(op->scale, rng);
    float ratio = (float)fmin(op->width / (double)step->height, op->height / (double)step->width);
    ratio *= scale;
    return set_resized(step, (double)truncf((float)step->width * ratio),
                       (double)truncf((float)step->height * ratio), "scale_jitter", error);
}

static int64_t lower(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

/* FixedSizeCrop of references/detection: one draw for both axes, then a border at the end. */
static void draw_fixed_size_crop(struct mr_geometry_step *step, struct mr_rng *rng)
{
    int64_t beside = step->width - lower(step->width, step->op->width);
    int64_t below = step->height - lower(step->height, step->op->height);
    step->box = (struct mr_box){.width = step->op->width, .height = step->op->height};
    if (beside == 0 && below == 0)
        return;
    float r = draw_unit(rng);
    step->box.y = (int64_t)((float)below * r);
    step->box.x = (int64_t)((float)beside * r);
}

static int64_t draw_patch(int64_t room, uint32_t patch, struct mr_rng *rng)
{
    uint32_t n = (uint32_t)(room / patch);
    return n ? (int64_t)mr_rng_below(rng, n) * patch : 0;
}

/* DINOv3's local crop in a global one. numpy's randint() excludes the last patch. */
static void draw_patch_crop(struct mr_geometry_step *step, struct mr_rng *rng)
{
    const struct mr_op *op = step->op;
    step->box = (struct mr_box){.width = op->width, .height = op->height};
    step->box.y = draw_patch(step->height - op->height, op->patch, rng);
    step->box.x = draw_patch(step->width - op->width, op->patch, rng);
}

/* RandomZoomOut.make_params */
static mr_status draw_zoom_out(struct mr_geometry_step *step, struct mr_rng *rng, mr_error *error)
{
    const struct mr_op *op = step->op;
    step->box = (struct mr_box){.width = step->width, .height = step->height};
    if (!mr_rng_chance(rng, (double)(float)op->p))
        return MR_OK;
    step->flips = true;
    float ratio = draw_factor(op->scale, rng);
    float width = truncf((float)step->width * ratio), height = truncf((float)step->height * ratio);
    mr_status status = check_sides(step, (double)width, (double)height, "random_zoom_out", error);
    if (status != MR_OK)
        return status;
    /* An f32 has 24 bits, so a longer side might shrink. */
    step->box.width = width < (float)step->width ? step->width : (int64_t)width;
    step->box.height = height < (float)step->height ? step->height : (int64_t)height;
    step->box.x = -(int64_t)((float)(step->box.width - step->width) * draw_unit(rng));
    step->box.y = -(int64_t)((float)(step->box.height - step->height) * draw_unit(rng));
    return MR_OK;
}

/* The sides are rounded as Python's round() does. */
static mr_status find_letterbox(struct mr_geometry_step *step, mr_error *error)
{
    const struct mr_op *op = step->op;
    double width = (double)step->width, height = (double)step->height;
    double ratio = fmin(op->height / height, op->width / width);
    mr_status status =
        set_resized(step, rint(width * ratio), rint(height * ratio), "letterbox", error);
    step->box = (struct mr_box){.x = -((op->width - step->resized_width) / 2),
                                .y = -((op->height - step->resized_height) / 2),
                                .width = op->width,
                                .height = op->height};
    return status;
}

mr_status mr_geometry_detection_draw(struct mr_geometry_step *step, struct mr_rng *rng,
                                     mr_error *error)
{
    switch ((enum mr_op_kind)step->op->kind) {
    case MR_OP_RANDOM_SHORTEST_SIZE: return draw_shortest_size(step, rng, error);
    case MR_OP_SCALE_JITTER: return draw_scale_jitter(step, rng, error);
    case MR_OP_RANDOM_ZOOM_OUT: return draw_zoom_out(step, rng, error);
    case MR_OP_LETTERBOX: return find_letterbox(step, error);
    case MR_OP_PATCH_CROP: draw_patch_crop(step, rng); return MR_OK;
    default: draw_fixed_size_crop(step, rng); return MR_OK;
    }
}
