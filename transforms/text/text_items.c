/* SPDX-License-Identifier: Apache-2.0 */
/* The table of operations and short forms, and the arguments of geometry. */
#include "transforms/text/text_items.h"

#include "transforms/text/erase_text.h"
#include "transforms/text/mix_text.h"
#include "transforms/text/normalize_text.h"
#include "transforms/text/text_args.h"

#include "base/words.h"

#include <string.h>

static mr_status add_random_resized_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height = 0, width = 0;
    double scale[2] = {0.08, 1.0}, ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
    enum mr_interpolation interpolation = MR_BILINEAR;
    mr_status status = mr_text_args_take_size(p, item, "size", &height, &width, NULL);
    if (status == MR_OK)
        status = mr_text_args_take_range(p, item, "scale", scale);
    if (status == MR_OK)
        status = mr_text_args_take_range(p, item, "ratio", ratio);
    if (status == MR_OK)
        status = mr_text_args_take_interpolation(p, item, &interpolation);
    if (status != MR_OK)
        return status;
    return mr_transform_random_resized_crop(p->transform, height, width, scale, ratio,
                                            interpolation, p->error);
}

static mr_status add_resize(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width, max_size = 0;
    bool one;
    enum mr_interpolation interpolation;
    mr_status status = mr_text_args_take_size(p, item, "size", &height, &width, &one);
    if (status == MR_OK && one)
        status = mr_text_args_take_whole(p, mr_text_parser_take_arg(item, "max_size"), &max_size);
    if (status == MR_OK)
        status = mr_text_args_take_interpolation(p, item, &interpolation);
    if (status != MR_OK)
        return status;
    return one ? mr_transform_resize_short(p->transform, height, max_size, interpolation, p->error)
               : mr_transform_resize(p->transform, height, width, interpolation, p->error);
}

static mr_status add_random_resize(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t min_size = 0, max_size = 0;
    enum mr_interpolation interpolation;
    mr_status status =
        mr_text_args_take_whole(p, mr_text_args_take_named_or_next(item, "min_size"), &min_size);
    if (status == MR_OK)
        status = mr_text_args_take_whole(p, mr_text_args_take_named_or_next(item, "max_size"),
                                         &max_size);
    if (status == MR_OK)
        status = mr_text_args_take_interpolation(p, item, &interpolation);
    return status == MR_OK ? mr_transform_random_resize(p->transform, min_size, max_size,
                                                        interpolation, p->error)
                           : status;
}

static mr_status add_center_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width;
    mr_status status = mr_text_args_take_size(p, item, "size", &height, &width, NULL);
    return status == MR_OK ? mr_transform_center_crop(p->transform, height, width, p->error)
                           : status;
}

static mr_status add_patch_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width, patch = 16;
    mr_status status = mr_text_args_take_size(p, item, "size", &height, &width, NULL);
    if (status == MR_OK)
        status = mr_text_args_take_whole(p, mr_text_args_take_named_or_next(item, "patch"), &patch);
    return status == MR_OK ? mr_transform_patch_crop(p->transform, height, width, patch, p->error)
                           : status;
}

static mr_status add_five_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width;
    bool vertical, is_ten = mr_word_is("ten_crop", item->name);
    mr_status status = mr_text_args_take_size(p, item, "size", &height, &width, NULL);
    if (status == MR_OK && is_ten)
        status = mr_text_parser_take_flag(p, item, "vertical_flip", &vertical);
    return status == MR_OK ? mr_transform_five_crop(p->transform, height, width,
                                                    is_ten ? &vertical : NULL, p->error)
                           : status;
}

static mr_status take_padding_mode(struct mr_text_parser *p, struct mr_text_item *item,
                                   enum mr_padding_mode *mode_out)
{
    uint32_t place = MR_PADDING_CONSTANT;
    mr_status status = mr_text_parser_take_choice(
        p, item, mr_text_parser_take_arg(item, "padding_mode"), mr_transform_padding_modes,
        MR_N_PADDING_MODES, "no padding mode has this name", &place);
    *mode_out = (enum mr_padding_mode)place;
    return status;
}

/* fill_out: three values. *n_out: how many of them were given, at least 1. */
static mr_status take_fill(struct mr_text_parser *p, struct mr_text_item *item, double *fill_out,
                           uint32_t *n_out)
{
    struct mr_text_arg *fill = mr_text_args_take_named_or_next(item, "fill");
    if (fill && fill->n_values != 1 && fill->n_values != 3)
        return mr_text_parser_fail_at(p, fill->place, "one value or r:g:b is expected");
    *n_out = fill ? fill->n_values : 1;
    if (fill)
        memcpy(fill_out, fill->values, *n_out * sizeof *fill_out);
    return MR_OK;
}

static mr_status add_random_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width, padding = 0, n_fill = 1;
    bool pad_if_needed = false;
    double fill[3] = {0};
    enum mr_padding_mode mode = MR_PADDING_CONSTANT;
    mr_status status = mr_text_args_take_size(p, item, "size", &height, &width, NULL);
    if (status == MR_OK)
        status = mr_text_parser_take_flag(p, item, "pad_if_needed", &pad_if_needed);
    if (status == MR_OK)
        status =
            mr_text_args_take_whole(p, mr_text_args_take_named_or_next(item, "padding"), &padding);
    if (status == MR_OK)
        status = take_padding_mode(p, item, &mode);
    if (status == MR_OK)
        status = take_fill(p, item, fill, &n_fill);
    if (status != MR_OK)
        return status;
    return mr_transform_random_crop(p->transform, height, width, padding, pad_if_needed, mode,
                                    n_fill, fill, p->error);
}

/* One value for all sides, x:y for the sides of an axis, or left:top:right:bottom. */
static mr_status take_border(struct mr_text_parser *p, struct mr_text_item *item,
                             uint32_t border_out[4])
{
    struct mr_text_arg *arg = mr_text_args_take_named_or_next(item, "padding");
    if (!arg || (arg->n_values != 1 && arg->n_values != 2 && arg->n_values != 4))
        return mr_text_parser_fail_at(p, arg ? arg->place : item->place,
                                      "a padding of one value, x:y or left:top:right:bottom is "
                                      "expected");
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < 4 && status == MR_OK; i++)
        status = mr_text_args_to_integer(p, arg, arg->values[i % arg->n_values], 0, &border_out[i]);
    return status;
}

static mr_status add_pad(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t border[4], n_fill = 1;
    double fill[3] = {0};
    enum mr_padding_mode mode = MR_PADDING_CONSTANT;
    mr_status status = take_border(p, item, border);
    if (status == MR_OK)
        status = take_padding_mode(p, item, &mode);
    if (status == MR_OK)
        status = take_fill(p, item, fill, &n_fill);
    return status == MR_OK ? mr_transform_pad(p->transform, border, mode, n_fill, fill, p->error)
                           : status;
}

/* fill: of one value, if it is not given */
static mr_status add_padded(struct mr_text_parser *p, struct mr_text_item *item,
                            enum mr_op_kind kind, double default_fill)
{
    uint32_t height, width, n_fill = 1;
    double fill[3] = {default_fill};
    enum mr_interpolation interpolation = MR_BILINEAR;
    mr_status status = mr_text_args_take_size(p, item, "size", &height, &width, NULL);
    if (status == MR_OK && kind == MR_OP_LETTERBOX)
        status = mr_text_args_take_interpolation(p, item, &interpolation);
    if (status == MR_OK)
        status = take_fill(p, item, fill, &n_fill);
    return status == MR_OK ? mr_transform_pad_to_size(p->transform, kind, height, width,
                                                      interpolation, n_fill, fill, p->error)
                           : status;
}

static mr_status add_pad_if_smaller(struct mr_text_parser *p, struct mr_text_item *item)
{
    return add_padded(p, item, MR_OP_PAD_IF_SMALLER, 0.0);
}

static mr_status add_fixed_size_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    return add_padded(p, item, MR_OP_FIXED_SIZE_CROP, 0.0);
}

static mr_status add_letterbox(struct mr_text_parser *p, struct mr_text_item *item)
{
    return add_padded(p, item, MR_OP_LETTERBOX, 114.0);
}

static mr_status add_random_shortest_size(struct mr_text_parser *p, struct mr_text_item *item)
{
    struct mr_text_arg *sizes = mr_text_args_take_named_or_next(item, "min_size");
    uint32_t max_size = 0, size;
    enum mr_interpolation interpolation;
    mr_status status = MR_OK;
    if (!sizes || sizes->n_values == 0)
        return mr_text_parser_fail_at(p, sizes ? sizes->place : item->place,
                                      "sizes, as 480:512:544, are expected");
    for (uint32_t i = 0; i < sizes->n_values && status == MR_OK; i++)
        status = mr_text_args_to_integer(p, sizes, sizes->values[i], 1, &size);
    if (status == MR_OK)
        status = mr_text_args_take_whole(p, mr_text_args_take_named_or_next(item, "max_size"),
                                         &max_size);
    if (status == MR_OK)
        status = mr_text_args_take_interpolation(p, item, &interpolation);
    return status == MR_OK
               ? mr_transform_random_shortest_size(p->transform, sizes->n_values, sizes->values,
                                                   max_size, interpolation, p->error)
               : status;
}

static mr_status add_scale_jitter(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width;
    double scale_range[2] = {0.1, 2.0};
    enum mr_interpolation interpolation;
    mr_status status = mr_text_args_take_size(p, item, "target_size", &height, &width, NULL);
    if (status == MR_OK)
        status = mr_text_args_take_range(p, item, "scale_range", scale_range);
    if (status == MR_OK)
        status = mr_text_args_take_interpolation(p, item, &interpolation);
    return status == MR_OK ? mr_transform_scale_jitter(p->transform, height, width, scale_range,
                                                       interpolation, p->error)
                           : status;
}

static mr_status add_random_zoom_out(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t n_fill = 1;
    double fill[3] = {0}, side_range[2] = {1.0, 4.0}, probability;
    mr_status status = take_fill(p, item, fill, &n_fill);
    if (status == MR_OK)
        status = mr_text_args_take_range(p, item, "side_range", side_range);
    if (status == MR_OK)
        status = mr_text_args_take_probability(p, item, &probability);
    return status == MR_OK ? mr_transform_random_zoom_out(p->transform, n_fill, fill, side_range,
                                                          probability, p->error)
                           : status;
}

static mr_status add_mask(struct mr_text_parser *p, struct mr_text_item *item)
{
    static const char *const words[] = {"u8", "i16", "i64"};
    static const mr_dtype dtypes[] = {MR_U8, MR_I16, MR_I64};
    uint32_t fill = 0, nearest = MR_MASK_NEAREST_TORCH, dtype = 0;
    mr_status status = mr_text_args_take_whole(p, mr_text_parser_take_arg(item, "fill"), &fill);
    if (status == MR_OK)
        status = mr_text_parser_take_choice(p, item, mr_text_parser_take_arg(item, "nearest"),
                                            mr_transform_mask_nearests, MR_N_MASK_NEARESTS,
                                            "no rule has this name", &nearest);
    if (status == MR_OK)
        status = mr_text_parser_take_choice(p, item, mr_text_parser_take_arg(item, "dtype"), words,
                                            3, "masks have none of these dtypes", &dtype);
    return status == MR_OK ? mr_transform_mask(p->transform, dtypes[dtype],
                                               (enum mr_mask_nearest)nearest, fill, p->error)
                           : status;
}

static mr_status add_random_iou_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    double scale[2] = {0.3, 1.0}, ratio[2] = {0.5, 2.0};
    uint32_t trials = 40;
    mr_status status = mr_text_args_take_range(p, item, "scale", scale);
    if (status == MR_OK)
        status = mr_text_args_take_range(p, item, "ratio", ratio);
    if (status == MR_OK)
        status =
            mr_text_args_take_whole(p, mr_text_args_take_named_or_next(item, "trials"), &trials);
    return status == MR_OK
               ? mr_transform_random_iou_crop(p->transform, scale, ratio, trials, p->error)
               : status;
}

/* One number. */
static mr_status take_number(struct mr_text_parser *p, struct mr_text_item *item, const char *name,
                             double *out)
{
    struct mr_text_arg *arg = mr_text_args_take_named_or_next(item, name);
    if (arg && arg->n_values != 1)
        return mr_text_parser_fail_at(p, arg->place, "one value is expected");
    *out = arg ? arg->values[0] : *out;
    return MR_OK;
}

static mr_status add_sanitize(struct mr_text_parser *p, struct mr_text_item *item)
{
    double min_size = 1.0, min_area = 1.0;
    mr_status status = take_number(p, item, "min_size", &min_size);
    if (status == MR_OK)
        status = take_number(p, item, "min_area", &min_area);
    return status == MR_OK ? mr_transform_sanitize(p->transform, min_size, min_area, p->error)
                           : status;
}

static mr_status add_kind(struct mr_text_parser *p, enum mr_op_kind kind, double probability)
{
    const struct mr_op op = {.kind = kind, .p = probability};
    return mr_transform_append_op(p->transform, &op, p->error);
}

static mr_status add_hflip(struct mr_text_parser *p, struct mr_text_item *item)
{
    double probability;
    mr_status status = mr_text_args_take_probability(p, item, &probability);
    return status == MR_OK ? add_kind(p, MR_OP_HFLIP, probability) : status;
}

static mr_status add_vflip(struct mr_text_parser *p, struct mr_text_item *item)
{
    double probability;
    mr_status status = mr_text_args_take_probability(p, item, &probability);
    return status == MR_OK ? add_kind(p, MR_OP_VFLIP, probability) : status;
}

static mr_status add_exif(struct mr_text_parser *p, struct mr_text_item *item)
{
    (void)item;
    return add_kind(p, MR_OP_EXIF, 0);
}

static mr_status add_rgb(struct mr_text_parser *p, struct mr_text_item *item)
{
    (void)item;
    return add_kind(p, MR_OP_RGB, 0);
}

static mr_status imply_imagenet(struct mr_text_parser *p)
{
    const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
    return mr_transform_normalize(p->transform, 3, mean, std, MR_EXACT_NONE, true, p->error);
}

static mr_status add_train(struct mr_text_parser *p, struct mr_text_item *item)
{
    mr_status status = add_random_resized_crop(p, item);
    if (status == MR_OK)
        status = add_kind(p, MR_OP_HFLIP, 0.5);
    return status == MR_OK ? imply_imagenet(p) : status;
}

static mr_status add_eval(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t resized, crop;
    bool one;
    enum mr_interpolation interpolation;
    mr_status status = mr_text_args_take_size(p, item, "size", &resized, &crop, &one);
    if (status == MR_OK)
        status = mr_text_args_take_interpolation(p, item, &interpolation);
    if (status != MR_OK)
        return status;
    if (one)
        return mr_text_parser_fail_at(p, p->at, "two sizes, eval:RESIZE:CROP, are expected");
    status = mr_transform_resize_short(p->transform, resized, 0, interpolation, p->error);
    if (status == MR_OK)
        status = mr_transform_center_crop(p->transform, crop, crop, p->error);
    return status == MR_OK ? imply_imagenet(p) : status;
}

static mr_status add_cifar(struct mr_text_parser *p, struct mr_text_item *item)
{
    const double mean[3] = {0.4914, 0.4822, 0.4465}, std[3] = {0.2470, 0.2435, 0.2616};
    (void)item;
    mr_status status = mr_transform_random_crop(p->transform, 32, 32, 4, false, MR_PADDING_CONSTANT,
                                                1, &(double){0.0}, p->error);
    if (status == MR_OK)
        status = add_kind(p, MR_OP_HFLIP, 0.5);
    return status == MR_OK
               ? mr_transform_normalize(p->transform, 3, mean, std, MR_EXACT_NONE, true, p->error)
               : status;
}

static mr_status add_none(struct mr_text_parser *p, struct mr_text_item *item)
{
    (void)p;
    (void)item;
    return MR_OK;
}

const struct mr_text_operation mr_text_items[] = {
    {"train", add_train},
    {"eval", add_eval},
    {"cifar", add_cifar},
    {"none", add_none},
    {"exif", add_exif},
    {"rgb", add_rgb},
    {"random_resized_crop", add_random_resized_crop},
    {"resize", add_resize},
    {"random_resize", add_random_resize},
    {"center_crop", add_center_crop},
    {"patch_crop", add_patch_crop},
    {"five_crop", add_five_crop},
    {"ten_crop", add_five_crop},
    {"random_crop", add_random_crop},
    {"pad", add_pad},
    {"pad_if_smaller", add_pad_if_smaller},
    {"random_shortest_size", add_random_shortest_size},
    {"scale_jitter", add_scale_jitter},
    {"fixed_size_crop", add_fixed_size_crop},
    {"random_zoom_out", add_random_zoom_out},
    {"letterbox", add_letterbox},
    {"random_iou_crop", add_random_iou_crop},
    {"mask", add_mask},
    {"sanitize", add_sanitize},
    {"hflip", add_hflip},
    {"vflip", add_vflip},
    {"normalize", mr_normalize_text_add},
    {"random_erasing", mr_erase_text_add},
    {"mixup", mr_mix_text_add},
    {"cutmix", mr_mix_text_add},
    {"mixup_or_cutmix", mr_mix_text_add},
    {"timm_mixup", mr_mix_text_add}};
const uint32_t mr_text_item_count = sizeof mr_text_items / sizeof *mr_text_items;
