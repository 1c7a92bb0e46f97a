/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The public list of operations. Each operation in a list has been checked. Whether the list suits
 * a dataset and a dtype is checked when the plan is compiled.
 *
 * Invariant: a normalize that a short text form implied stays last, except for random_erasing and
 * mixing, and an explicit one replaces it.
 */
#include "transforms/transform.h"

#include "transforms/mixing/mix_draw.h"

#include <assert.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MAX_SIDE 65535

static_assert(sizeof(struct mr_op) == 14 * sizeof(uint32_t) + MR_IMAGE_OP_MAX_ARGS * sizeof(double),
              "no padding");

mr_status mr_transform_create(mr_transform **transform_out, mr_error *error)
{
    *transform_out = calloc(1, sizeof **transform_out);
    return *transform_out ? MR_OK : mr_error_memory(error, sizeof **transform_out);
}

void mr_transform_destroy(mr_transform *transform)
{
    while (transform) {
        mr_transform *next = transform->next;
        free(transform);
        transform = next;
    }
}

uint32_t mr_transform_n_views(const mr_transform *t)
{
    uint32_t n = 1;
    while (t && (t = t->next))
        n++;
    return n;
}

static bool is_crops(const struct mr_op *op)
{
    return op->kind == MR_OP_FIVE_CROP || op->kind == MR_OP_TEN_CROP;
}

static const struct mr_op *find_crops(const mr_transform *t)
{
    for (uint32_t i = 0; t && i < t->n_ops; i++)
        if (is_crops(&t->ops[i]))
            return &t->ops[i];
    return NULL;
}

bool mr_transform_has_pictures(const mr_transform *t)
{
    return t && (t->view[0] || find_crops(t));
}

const char *mr_transform_op_name(const struct mr_op *op)
{
    switch ((enum mr_op_kind)op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP: return "random_resized_crop";
    case MR_OP_RESIZE_SHORT:
    case MR_OP_RESIZE: return "resize";
    case MR_OP_RANDOM_RESIZE: return "random_resize";
    case MR_OP_CENTER_CROP: return "center_crop";
    case MR_OP_PATCH_CROP: return "patch_crop";
    case MR_OP_RANDOM_CROP: return "random_crop";
    case MR_OP_PAD: return "pad";
    case MR_OP_PAD_IF_SMALLER: return "pad_if_smaller";
    case MR_OP_RANDOM_SHORTEST_SIZE: return "random_shortest_size";
    case MR_OP_SCALE_JITTER: return "scale_jitter";
    case MR_OP_FIXED_SIZE_CROP: return "fixed_size_crop";
    case MR_OP_RANDOM_ZOOM_OUT: return "random_zoom_out";
    case MR_OP_LETTERBOX: return "letterbox";
    case MR_OP_FIVE_CROP: return "five_crop";
    case MR_OP_TEN_CROP: return "ten_crop";
    case MR_OP_HFLIP: return "hflip";
    case MR_OP_VFLIP: return "vflip";
    case MR_OP_EXIF: return "exif";
    case MR_OP_NORMALIZE: return "normalize";
    case MR_OP_RGB: return "rgb";
    case MR_OP_RANDOM_IOU_CROP: return "random_iou_crop";
    case MR_OP_MASK: return "mask";
    case MR_OP_SANITIZE: return "sanitize";
    case MR_OP_RANDOM_ERASING: return "random_erasing";
    case MR_OP_MIXUP: return "mixup";
    case MR_OP_CUTMIX: return "cutmix";
    case MR_OP_MIXUP_OR_CUTMIX: return "mixup_or_cutmix";
    case MR_OP_TIMM_MIXUP: return "timm_mixup";
    case MR_OP_IMAGE: return mr_image_ops[op->image_op].name;
    case MR_OP_RANDOM_APPLY: return "random_apply";
    case MR_OP_RANDOM_CHOICE: return "random_choice";
    case MR_OP_RANDOM_ORDER: return "random_order";
    case MR_OP_CHAIN: return "chain";
    }
    return "?";
}

const char *const mr_transform_interpolations[MR_N_INTERPOLATIONS] = {
    [MR_BILINEAR] = "bilinear",    [MR_NEAREST] = "nearest", [MR_BOX] = "box",
    [MR_HAMMING] = "hamming",      [MR_BICUBIC] = "bicubic", [MR_LANCZOS] = "lanczos",
    [MR_RANDOM_FILTER] = "random",
};

const char *const mr_transform_padding_modes[MR_N_PADDING_MODES] = {
    [MR_PADDING_CONSTANT] = "constant",
    [MR_PADDING_EDGE] = "edge",
    [MR_PADDING_REFLECT] = "reflect",
    [MR_PADDING_SYMMETRIC] = "symmetric",
};

const char *const mr_transform_mask_nearests[MR_N_MASK_NEARESTS] = {
    [MR_MASK_NEAREST_TORCH] = "torch",
    [MR_MASK_NEAREST_PIL] = "pil",
};

const char *const mr_transform_exact_words[MR_N_EXACT] = {
    [MR_EXACT_NONE] = "",
    [MR_EXACT_V1] = "exact",
    [MR_EXACT_V2] = "exact_v2",
    [MR_EXACT_V1_HALF] = "exact_half",
    [MR_EXACT_V2_HALF] = "exact_v2_half",
};

uint32_t mr_transform_n_before_implied(const mr_transform *t)
{
    return t->n_ops && t->ops[t->n_ops - 1].implied ? t->n_ops - 1 : t->n_ops;
}

bool mr_transform_mixes(const mr_transform *t)
{
    return t && t->n_ops > 0 && mr_mix_draw_is_op(t->ops[t->n_ops - 1].kind);
}

bool mr_transform_erases(const mr_transform *t)
{
    uint32_t n = t ? t->n_ops - mr_transform_mixes(t) : 0;
    return n > 0 && t->ops[n - 1].kind == MR_OP_RANDOM_ERASING;
}

bool mr_transform_turns(const mr_transform *t)
{
    return t && t->n_ops > 0 && t->ops[0].kind == MR_OP_EXIF;
}

mr_status mr_transform_append_op(mr_transform *t, const struct mr_op *op, mr_error *error)
{
    uint32_t at = mr_transform_n_before_implied(t);
    bool replaces = at < t->n_ops && op->kind == MR_OP_NORMALIZE;
    bool mixes = mr_mix_draw_is_op(op->kind);
    bool is_after = op->kind == MR_OP_RANDOM_ERASING || mixes; /* after normalize */
    at = is_after ? t->n_ops : at;
    if (mr_transform_mixes(t) || (mr_transform_erases(t) && !mixes))
        return mr_error_set(error, MR_ERR_INVALID, "%s is after %s, which must come last",
                            mr_transform_op_name(op), mr_transform_op_name(&t->ops[t->n_ops - 1]));
    if (at > 0 && t->ops[at - 1].kind == MR_OP_NORMALIZE && !is_after)
        return mr_error_set(error, MR_ERR_INVALID, "%s is after normalize, which must come last",
                            mr_transform_op_name(op));
    if (op->kind == MR_OP_EXIF && at > 0)
        return mr_error_set(error, MR_ERR_INVALID, "exif is after %s; it must come first",
                            mr_transform_op_name(&t->ops[at - 1]));
    const struct mr_op *crops = find_crops(t);
    if (crops && op->kind < MR_OP_NORMALIZE)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s is after %s, which must be the last operation of geometry",
                            mr_transform_op_name(op), mr_transform_op_name(crops));
    if (t->n_ops == MR_PLAN_MAX_OPS && !replaces)
        return mr_error_set(error, MR_ERR_INVALID, "%s is operation %d; a transform has at most %d",
                            mr_transform_op_name(op), MR_PLAN_MAX_OPS + 1, MR_PLAN_MAX_OPS);
    if (!replaces) {
        if (at < t->n_ops)
            t->ops[at + 1] = t->ops[at];
        t->n_ops++;
    }
    t->ops[at] = *op;
    return MR_OK;
}

static mr_status check_size(const struct mr_op *op, mr_error *error)
{
    if (op->height >= 1 && op->height <= MAX_SIDE && op->width >= 1 && op->width <= MAX_SIDE)
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID, "%s: size %u:%u is not from 1 to %d",
                        mr_transform_op_name(op), op->height, op->width, MAX_SIDE);
}

static mr_status append_sized(mr_transform *transform, const struct mr_op *op, mr_error *error)
{
    mr_status status = check_size(op, error);
    return status == MR_OK ? mr_transform_append_op(transform, op, error) : status;
}

static bool is_range(double lo, double hi)
{
    return isfinite(lo) && isfinite(hi) && lo <= hi;
}

mr_status mr_transform_random_resized_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                           const double scale[2], const double ratio[2],
                                           enum mr_interpolation interpolation, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_RANDOM_RESIZED_CROP,
                       .height = height,
                       .width = width,
                       .scale = {scale[0], scale[1]},
                       .ratio = {ratio[0], ratio[1]},
                       .interpolation = interpolation};
    mr_status status = check_size(&op, error);
    if (status != MR_OK)
        return status;
    if (!is_range(scale[0], scale[1]) || scale[0] < 0.0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_resized_crop: scale %g:%g is not a range from 0 up", scale[0],
                            scale[1]);
    if (!is_range(ratio[0], ratio[1]) || !((float)ratio[0] > 0.0f) || !isfinite((float)ratio[1]))
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_resized_crop: ratio %g:%g is not a range above 0", ratio[0],
                            ratio[1]);
    return mr_transform_append_op(transform, &op, error);
}

mr_status mr_transform_resize_short(mr_transform *transform, uint32_t size, uint32_t max_size,
                                    enum mr_interpolation interpolation, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_RESIZE_SHORT,
                       .height = size,
                       .width = size,
                       .interpolation = interpolation,
                       .max_size = max_size};
    if (max_size && max_size <= size)
        return mr_error_set(error, MR_ERR_INVALID, "resize: max_size %u is not above the size %u",
                            max_size, size);
    return append_sized(transform, &op, error);
}

mr_status mr_transform_resize(mr_transform *transform, uint32_t height, uint32_t width,
                              enum mr_interpolation interpolation, mr_error *error)
{
    struct mr_op op = {
        .kind = MR_OP_RESIZE, .height = height, .width = width, .interpolation = interpolation};
    return append_sized(transform, &op, error);
}

mr_status mr_transform_random_resize(mr_transform *transform, uint32_t min_size, uint32_t max_size,
                                     enum mr_interpolation interpolation, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_RANDOM_RESIZE,
                       .height = min_size,
                       .width = max_size,
                       .interpolation = interpolation};
    if (min_size >= max_size)
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_resize: the end %u, which is not drawn, is not above %u",
                            max_size, min_size);
    return append_sized(transform, &op, error);
}

mr_status mr_transform_center_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                   mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_CENTER_CROP, .height = height, .width = width};
    return append_sized(transform, &op, error);
}

mr_status mr_transform_patch_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                  uint32_t patch, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_PATCH_CROP, .height = height, .width = width, .patch = patch};
    if (patch == 0 || patch > MAX_SIDE)
        return mr_error_set(error, MR_ERR_INVALID, "patch_crop: patch %u is not from 1 to %d",
                            patch, MAX_SIDE);
    return append_sized(transform, &op, error);
}

mr_status mr_transform_five_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                 const bool *vertical_flip, mr_error *error)
{
    struct mr_op op = {.kind = vertical_flip ? MR_OP_TEN_CROP : MR_OP_FIVE_CROP,
                       .height = height,
                       .width = width,
                       .vertical = vertical_flip && *vertical_flip};
    return append_sized(transform, &op, error);
}

/* Take the padding's fill; op has its mode. */
static mr_status take_fill(struct mr_op *op, const double *fill, mr_error *error)
{
    for (uint32_t c = 0; c < 3; c++) {
        double value = fill[op->n_channels == 3 ? c : 0];
        if (!(value >= 0.0 && value <= 255.0 && value == floor(value)))
            return mr_error_set(error, MR_ERR_INVALID,
                                "%s: fill %g is not a whole number from 0 to 255",
                                mr_transform_op_name(op), value);
        if (value > 0.0 && op->padding_mode != MR_PADDING_CONSTANT)
            return mr_error_set(error, MR_ERR_INVALID, "%s: a padding_mode of %s has no fill",
                                mr_transform_op_name(op),
                                mr_transform_padding_modes[op->padding_mode]);
        op->fill[c] = (uint8_t)value;
    }
    return MR_OK;
}

mr_status mr_transform_random_crop(mr_transform *transform, uint32_t height, uint32_t width,
                                   uint32_t padding, bool pad_if_needed, enum mr_padding_mode mode,
                                   uint32_t n_fill, const double *fill, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_RANDOM_CROP,
                       .height = height,
                       .width = width,
                       .padding = padding,
                       .padding_mode = mode,
                       .n_channels = n_fill,
                       .pad_if_needed = pad_if_needed};
    mr_status status = check_size(&op, error);
    if (status != MR_OK)
        return status;
    if (padding > MAX_SIDE)
        return mr_error_set(error, MR_ERR_INVALID, "random_crop: padding %u is above %d", padding,
                            MAX_SIDE);
    status = take_fill(&op, fill, error);
    return status == MR_OK ? mr_transform_append_op(transform, &op, error) : status;
}

mr_status mr_transform_pad(mr_transform *transform, const uint32_t border[4],
                           enum mr_padding_mode mode, uint32_t n_fill, const double *fill,
                           mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_PAD,
                       .border = {border[0], border[1], border[2], border[3]},
                       .padding_mode = mode,
                       .n_channels = n_fill};
    mr_status status = take_fill(&op, fill, error);
    return status == MR_OK ? mr_transform_append_op(transform, &op, error) : status;
}

mr_status mr_transform_pad_to_size(mr_transform *transform, enum mr_op_kind kind, uint32_t height,
                                   uint32_t width, enum mr_interpolation interpolation,
                                   uint32_t n_fill, const double *fill, mr_error *error)
{
    struct mr_op op = {.kind = kind,
                       .height = height,
                       .width = width,
                       .interpolation = interpolation,
                       .n_channels = n_fill};
    mr_status status = take_fill(&op, fill, error);
    return status == MR_OK ? append_sized(transform, &op, error) : status;
}

mr_status mr_transform_random_shortest_size(mr_transform *transform, uint32_t n_sizes,
                                            const double *sizes, uint32_t max_size,
                                            enum mr_interpolation interpolation, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_RANDOM_SHORTEST_SIZE,
                       .n_sizes = n_sizes,
                       .max_size = max_size,
                       .interpolation = interpolation};
    memcpy(op.sizes, sizes, n_sizes * sizeof *sizes);
    return mr_transform_append_op(transform, &op, error);
}

mr_status mr_transform_scale_jitter(mr_transform *transform, uint32_t height, uint32_t width,
                                    const double scale_range[2],
                                    enum mr_interpolation interpolation, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_SCALE_JITTER,
                       .height = height,
                       .width = width,
                       .scale = {scale_range[0], scale_range[1]},
                       .interpolation = interpolation};
    if (!is_range(op.scale[0], op.scale[1]) || op.scale[0] <= 0.0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "scale_jitter: scale_range %g:%g is not a range above 0", op.scale[0],
                            op.scale[1]);
    return append_sized(transform, &op, error);
}

mr_status mr_transform_random_zoom_out(mr_transform *transform, uint32_t n_fill, const double *fill,
                                       const double side_range[2], double p, mr_error *error)
{
    struct mr_op op = {.kind = MR_OP_RANDOM_ZOOM_OUT,
                       .scale = {side_range[0], side_range[1]},
                       .p = p,
                       .n_channels = n_fill};
    if (!is_range(op.scale[0], op.scale[1]) || op.scale[0] < 1.0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_zoom_out: side_range %g:%g is not a range from 1 up",
                            op.scale[0], op.scale[1]);
    mr_status status = take_fill(&op, fill, error);
    return status == MR_OK ? mr_transform_append_op(transform, &op, error) : status;
}

mr_status mr_transform_mask(mr_transform *transform, mr_dtype dtype, enum mr_mask_nearest nearest,
                            uint32_t fill, mr_error *error)
{
    const struct mr_op op = {
        .kind = MR_OP_MASK, .mask_dtype = dtype, .interpolation = nearest, .padding = fill};
    for (uint32_t i = 0; i < transform->n_ops; i++)
        if (transform->ops[i].kind == MR_OP_MASK)
            return mr_error_set(error, MR_ERR_INVALID, "mask is there twice");
    if (dtype == MR_U8 && fill > UINT8_MAX)
        return mr_error_set(error, MR_ERR_INVALID, "mask: u8 cannot hold the fill %u", fill);
    return mr_transform_append_op(transform, &op, error);
}

mr_status mr_transform_random_iou_crop(mr_transform *transform, const double scale[2],
                                       const double ratio[2], uint32_t trials, mr_error *error)
{
    const struct mr_op op = {.kind = MR_OP_RANDOM_IOU_CROP,
                             .scale = {scale[0], scale[1]},
                             .ratio = {ratio[0], ratio[1]},
                             .count = trials};
    if (!(scale[0] > 0.0 && scale[0] <= scale[1] && scale[1] <= 1.0))
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_iou_crop: scale %g:%g is not a range above 0, up to 1",
                            scale[0], scale[1]);
    if (!(ratio[0] > 0.0 && ratio[0] <= ratio[1] && isfinite(ratio[1])))
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_iou_crop: ratio %g:%g is not a range above 0", ratio[0],
                            ratio[1]);
    if (trials < 1 || trials > 1000)
        return mr_error_set(error, MR_ERR_INVALID, "random_iou_crop: trials %u is not 1 to 1000",
                            trials);
    return mr_transform_append_op(transform, &op, error);
}

mr_status mr_transform_sanitize(mr_transform *transform, double min_size, double min_area,
                                mr_error *error)
{
    const struct mr_op op = {.kind = MR_OP_SANITIZE, .min_size = min_size, .min_area = min_area};
    if (!(min_size >= 1.0 && isfinite(min_size) && min_area >= 1.0 && isfinite(min_area)))
        return mr_error_set(error, MR_ERR_INVALID,
                            "sanitize: min_size %g and min_area %g are not both 1 or more",
                            min_size, min_area);
    return mr_transform_append_op(transform, &op, error);
}

mr_status mr_transform_normalize(mr_transform *transform, uint32_t n_channels, const double *mean,
                                 const double *std, enum mr_exact exact, bool implied,
                                 mr_error *error)
{
    struct mr_op op = {
        .kind = MR_OP_NORMALIZE, .n_channels = n_channels, .exact = exact, .implied = implied};
    for (uint32_t c = 0; c < n_channels; c++) {
        if (!isfinite((float)mean[c]))
            return mr_error_set(error, MR_ERR_INVALID,
                                "normalize: mean %g of channel %u is not a finite f32", mean[c], c);
        if (!isfinite((float)std[c]) || !isnormal((float)std[c]) ||
            !isfinite((float)(mean[c] / std[c])) || !isfinite((float)(1.0 / std[c])))
            return mr_error_set(error, MR_ERR_INVALID,
                                "normalize: std %g of channel %u is not a usable divisor", std[c],
                                c);
        op.mean[c] = mean[c];
        op.std[c] = std[c];
    }
    return mr_transform_append_op(transform, &op, error);
}
