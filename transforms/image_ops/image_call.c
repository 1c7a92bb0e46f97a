/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of calls, and how a list of them runs on one image: tables are collected until a call
 * needs the pixels.
 */
#include "transforms/image_ops/image_call.h"

#include "transforms/image_ops/image_blend.h"
#include "transforms/image_ops/image_box_blur.h"
#include "transforms/image_ops/image_gaussian_blur.h"
#include "transforms/image_ops/image_gray.h"
#include "transforms/image_ops/image_hue.h"
#include "transforms/image_ops/image_jpeg.h"
#include "transforms/image_ops/image_mix.h"
#include "transforms/image_ops/image_swap.h"
#include "transforms/image_ops/image_table.h"
#include "transforms/image_ops/image_tensor.h"
#include "transforms/image_ops/image_warp.h"

/* An argument that changes nothing if it has this value. */
#define FACTOR(keyword, neutral)                                                                   \
    {                                                                                              \
        .name = keyword, .is_neutral = true, .value = neutral                                      \
    }

#define AFFINE(function, has_fill, maker)                                                          \
    {                                                                                              \
        .name = function,                                                                          \
        .args = {FACTOR("angle", 0),                                                               \
                 {.name = "translate", .kind = MR_ARG_INTEGER, .n = 2, .is_neutral = true},        \
                 FACTOR("scale", 1),                                                               \
                 {.name = "shear", .n = 2, .is_neutral = true},                                    \
                 {.name = "interpolation", .kind = MR_ARG_FILTER},                                 \
                 {.name = "fill", .kind = MR_ARG_FILL, .optional = !(has_fill)},                   \
                 {.name = "center", .n = 2, .optional = true}},                                    \
        .make = (maker)                                                                            \
    }

#define ROTATE_ARGS                                                                                \
    FACTOR("angle", 0), {.name = "interpolation", .kind = MR_ARG_FILTER},                          \
        {.name = "fill", .kind = MR_ARG_FILL},                                                     \
    {                                                                                              \
        .name = "center", .n = 2, .optional = true                                                 \
    }

const struct mr_image_call_ops mr_image_call_ops[MR_N_CALL_KINDS] = {
    [MR_CALL_INVERT] = {.name = "invert", .table = mr_image_table_invert},
    [MR_CALL_POSTERIZE] =
        {.name = "posterize",
         .args = {{.name = "bits", .kind = MR_ARG_INTEGER, .is_neutral = true, .value = 8}},
         .table = mr_image_table_posterize},
    [MR_CALL_SOLARIZE] = {.name = "solarize",
                          .args = {FACTOR("threshold", 256)},
                          .table = mr_image_table_solarize},
    [MR_CALL_SOLARIZE_ADD] = {.name = "timm.solarize_add",
                              .args = {{.name = "add", .kind = MR_ARG_INTEGER, .is_neutral = true}},
                              .table = mr_image_table_solarize_add},
    [MR_CALL_AUTOCONTRAST] = {.name = "autocontrast",
                              .table = mr_image_table_autocontrast,
                              .looks = true},
    [MR_CALL_EQUALIZE] = {.name = "equalize", .table = mr_image_table_equalize, .looks = true},
    [MR_CALL_GRAYSCALE] = {.name = "rgb_to_grayscale",
                           .args = {{.name = "num_output_channels", .kind = MR_ARG_INTEGER}},
                           .change = mr_image_gray_convert},
    [MR_CALL_BRIGHTNESS] = {.name = "adjust_brightness",
                            .args = {FACTOR("brightness_factor", 1)},
                            .table = mr_image_blend_brightness},
    [MR_CALL_CONTRAST] = {.name = "adjust_contrast",
                          .args = {FACTOR("contrast_factor", 1)},
                          .table = mr_image_blend_contrast,
                          .looks = true},
    [MR_CALL_SATURATION] = {.name = "adjust_saturation",
                            .args = {FACTOR("saturation_factor", 1)},
                            .change = mr_image_blend_saturation},
    /* A shift of 0 is not neutral: the way to HSV and back loses some bits. */
    [MR_CALL_HUE] = {.name = "adjust_hue",
                     .args = {{.name = "hue_factor"}},
                     .change = mr_image_hue_shift},
    [MR_CALL_SHARPNESS] = {.name = "adjust_sharpness",
                           .args = {FACTOR("sharpness_factor", 1)},
                           .make = mr_image_blend_sharpness},
    [MR_CALL_GAUSSIAN_BLUR] = {.name = "gaussian_blur",
                               .args = {{.name = "kernel_size", .kind = MR_ARG_INTEGER},
                                        {.name = "sigma"}},
                               .make = mr_image_gaussian_blur_make},
    [MR_CALL_PIL_GAUSSIAN_BLUR] = {.name = "PIL.GaussianBlur",
                                   .args = {FACTOR("radius", 0)},
                                   .make = mr_image_box_blur_make},
    [MR_CALL_ROTATE] = {.name = "rotate", .args = {ROTATE_ARGS}, .make = mr_image_warp_rotate},
    [MR_CALL_AFFINE] = AFFINE("affine", true, mr_image_warp_affine),
    [MR_CALL_PERSPECTIVE] = {.name = "PIL.transform",
                             .args = {{.name = "size", .kind = MR_ARG_SIZE},
                                      /* PERSPECTIVE */
                                      {.name = "method", .kind = MR_ARG_CONSTANT, .value = 2},
                                      {.name = "data", .n = 8},
                                      {.name = "resample", .kind = MR_ARG_FILTER},
                                      {.name = "fillcolor", .kind = MR_ARG_FILL}},
                             .make = mr_image_warp_perspective},
    [MR_CALL_PIL_AFFINE] = {.name = "PIL.transform",
                            .args = {{.name = "size", .kind = MR_ARG_SIZE},
                                     /* AFFINE */
                                     {.name = "method", .kind = MR_ARG_CONSTANT, .value = 0},
                                     {.name = "data", .n = 6},
                                     {.name = "resample", .kind = MR_ARG_FILTER},
                                     {.name = "fillcolor", .kind = MR_ARG_FILL}},
                            .make = mr_image_warp_pil_affine},
    [MR_CALL_HFLIP] = {.name = "hflip", .change = mr_image_swap_columns},
    [MR_CALL_VFLIP] = {.name = "vflip", .change = mr_image_swap_rows},
    [MR_CALL_PERMUTE_CHANNELS] = {.name = "v2.permute_channels",
                                  .args = {{.name = "permutation", .kind = MR_ARG_INTEGER, .n = 3}},
                                  .change = mr_image_swap_channels},
    [MR_CALL_JPEG] = {.name = "v2.jpeg",
                      .args = {{.name = "quality", .kind = MR_ARG_INTEGER}},
                      .make = mr_image_jpeg_make},
    [MR_CALL_AFFINE_V2] = AFFINE("v2.affine", true, mr_image_warp_affine),
    [MR_CALL_TENSOR_BRIGHTNESS] = {.name = "tensor.adjust_brightness",
                                   .args = {FACTOR("brightness_factor", 1)},
                                   .table = mr_image_tensor_brightness},
    [MR_CALL_TENSOR_CONTRAST] = {.name = "tensor.adjust_contrast",
                                 .args = {FACTOR("contrast_factor", 1)},
                                 .table = mr_image_tensor_contrast,
                                 .looks = true},
    [MR_CALL_TENSOR_SATURATION] = {.name = "tensor.adjust_saturation",
                                   .args = {FACTOR("saturation_factor", 1)},
                                   .change = mr_image_tensor_saturation},
    [MR_CALL_TENSOR_SHARPNESS] = {.name = "tensor.adjust_sharpness",
                                  .args = {FACTOR("sharpness_factor", 1)},
                                  .make = mr_image_tensor_sharpness},
    [MR_CALL_TENSOR_AUTOCONTRAST] = {.name = "tensor.autocontrast",
                                     .table = mr_image_tensor_autocontrast,
                                     .looks = true},
    [MR_CALL_TENSOR_ROTATE] = {.name = "tensor.rotate",
                               .args = {FACTOR("angle", 0),
                                        {.name = "interpolation", .kind = MR_ARG_FILTER},
                                        {.name = "fill", .kind = MR_ARG_FILL, .optional = true}},
                               .make = mr_image_tensor_rotate},
    [MR_CALL_TENSOR_AFFINE] = AFFINE("tensor.affine", false, mr_image_tensor_affine),
    [MR_CALL_MIX_START] = {.name = "augmix", .args = {{.name = "weight"}}, .mixes = true},
    [MR_CALL_MIX_CHAIN] = {.name = "chain", .args = {{.name = "weight"}}, .mixes = true},
    [MR_CALL_MIX_END] = {.name = "sum", .mixes = true},
    [MR_CALL_ROTATE_EXPAND] = {.name = "rotate",
                               .args = {ROTATE_ARGS,
                                        {.name = "expand", .kind = MR_ARG_CONSTANT, .value = 1}},
                               .make = mr_image_warp_rotate},
};

/* An image and the tables that have not been applied to it yet. */
struct pending {
    struct mr_image *image;
    const struct mr_kernel_ops *kernels;
    struct mr_image_table table;
    bool has_table;
};

static void apply_pending(struct pending *p)
{
    if (p->has_table)
        mr_image_table_apply(&p->table, p->image, p->kernels);
    p->has_table = false;
}

static void add_table(struct pending *p, const struct mr_image_call *call,
                      const struct mr_image_call_ops *ops)
{
    struct mr_image_table table;
    if (ops->looks)
        apply_pending(p);
    ops->table(call, p->image, p->kernels, p->has_table ? &table : &p->table);
    if (p->has_table)
        mr_image_table_fold(&p->table, &table, p->image->n_channels);
    p->has_table = true;
}

static mr_status make_into_spare(struct pending *p, const struct mr_image_call *call,
                                 const struct mr_image_call_ops *ops, uint8_t **spare_pixels,
                                 mr_error *error)
{
    struct mr_image to = *p->image;
    to.pixels = *spare_pixels;
    mr_status status = ops->make(call, p->image, &to, p->kernels, error);
    if (status != MR_OK)
        return status;
    *spare_pixels = p->image->pixels;
    *p->image = to;
    return MR_OK;
}

uint32_t mr_image_call_count_spares(const struct mr_image_call *calls, uint32_t n_calls)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < n_calls; i++) {
        if (mr_image_call_ops[calls[i].kind].mixes)
            return MR_IMAGE_MIX_SPARES;
        n |= mr_image_call_ops[calls[i].kind].make != NULL;
    }
    return n;
}

uint32_t mr_image_call_count_walks(const struct mr_image_call *calls, uint32_t n_calls)
{
    uint32_t n = 0;
    bool has_table = false;
    for (uint32_t i = 0; i < n_calls; i++) {
        const struct mr_image_call_ops *ops = &mr_image_call_ops[calls[i].kind];
        if (!ops->table || ops->looks) {
            n += has_table ? 2 : 1;
            has_table = false;
        }
        has_table |= ops->table != NULL;
    }
    return n + has_table;
}

mr_status mr_image_call_run(const struct mr_image_call *calls, uint32_t n_calls,
                            struct mr_image *image, uint8_t *spare_pixels,
                            const struct mr_kernel_ops *kernels, mr_error *error)
{
    struct pending p = {.image = image, .kernels = kernels};
    struct mr_image_mix mix = {.spares = spare_pixels};
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < n_calls && status == MR_OK; i++) {
        const struct mr_image_call_ops *ops = &mr_image_call_ops[calls[i].kind];
        if (ops->table) {
            add_table(&p, &calls[i], ops);
            continue;
        }
        apply_pending(&p);
        if (ops->mixes)
            mr_image_mix_run(&mix, &calls[i], image);
        else if (ops->change)
            ops->change(&calls[i], image, kernels);
        else
            status = make_into_spare(&p, &calls[i], ops, &spare_pixels, error);
    }
    apply_pending(&p);
    return status;
}
