/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses transforms given as text: items joined by '+', each a short form (train:224) or an
 * operation with arguments in parentheses. Numbers are read in the C locale, whatever locale the
 * program has set.
 */
#include "transforms/text/erase_text.h"
#include "transforms/text/image_op_text.h"
#include "transforms/text/mix_text.h"
#include "transforms/text/normalize_text.h"
#include "transforms/text/text_parser.h"
#include "transforms/text/transform_recipe.h"

#include "base/words.h"

#include <locale.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static mr_status to_integer(struct mr_text_parser *p, const struct mr_text_arg *arg, double value,
                            uint32_t lo, uint32_t *out)
{
    if (!(value >= lo && value <= 65535) || value != floor(value))
        return mr_text_parser_fail_at(p, arg->place,
                                      lo ? "a size from 1 to 65535 is expected"
                                         : "a number from 0 to 65535 is expected");
    *out = (uint32_t)value;
    return MR_OK;
}

/* Take an argument by name, otherwise by position; NULL if it is not given. */
static struct mr_text_arg *take_named_or_next(struct mr_text_item *item, const char *name)
{
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, name);
    return arg ? arg : mr_text_parser_take_arg(item, "");
}

/* One value, or height:width. *one_out: it was one value. */
static mr_status take_size(struct mr_text_parser *p, struct mr_text_item *item, uint32_t *height,
                           uint32_t *width, bool *one_out)
{
    struct mr_text_arg *arg = take_named_or_next(item, "size");
    if (!arg)
        return mr_text_parser_fail_at(p, p->at, "a size is expected");
    if (arg->n_values < 1 || arg->n_values > 2)
        return mr_text_parser_fail_at(p, arg->place, "a size is one number or height:width");
    if (one_out)
        *one_out = arg->n_values == 1;
    mr_status status = to_integer(p, arg, arg->values[0], 1, height);
    if (status == MR_OK)
        status = to_integer(p, arg, arg->values[arg->n_values - 1], 1, width);
    return status;
}

static mr_status take_range(struct mr_text_parser *p, struct mr_text_item *item, const char *name,
                            double range[2])
{
    struct mr_text_arg *arg = take_named_or_next(item, name);
    if (!arg)
        return MR_OK;
    if (arg->n_values != 2)
        return mr_text_parser_fail_at(p, arg->place, "two values, lo:hi, are expected");
    range[0] = arg->values[0];
    range[1] = arg->values[1];
    return MR_OK;
}

static mr_status take_interpolation(struct mr_text_parser *p, struct mr_text_item *item,
                                    enum mr_interpolation *interpolation_out)
{
    uint32_t place = MR_BILINEAR;
    mr_status status = mr_text_parser_take_choice(p, item, mr_text_parser_take_arg(item, "interp"),
                                                  mr_transform_interpolations, MR_N_INTERPOLATIONS,
                                                  "no interpolation has this name", &place);
    *interpolation_out = (enum mr_interpolation)place;
    return status;
}

static mr_status add_random_resized_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height = 0, width = 0;
    double scale[2] = {0.08, 1.0}, ratio[2] = {3.0 / 4.0, 4.0 / 3.0};
    enum mr_interpolation interpolation = MR_BILINEAR;
    mr_status status = take_size(p, item, &height, &width, NULL);
    if (status == MR_OK)
        status = take_range(p, item, "scale", scale);
    if (status == MR_OK)
        status = take_range(p, item, "ratio", ratio);
    if (status == MR_OK)
        status = take_interpolation(p, item, &interpolation);
    if (status != MR_OK)
        return status;
    return mr_transform_random_resized_crop(p->transform, height, width, scale, ratio,
                                            interpolation, p->error);
}

/* One whole number. *out stays as it is if the argument is not given. */
static mr_status take_whole(struct mr_text_parser *p, struct mr_text_arg *arg, uint32_t *out)
{
    if (!arg)
        return MR_OK;
    if (arg->n_values != 1)
        return mr_text_parser_fail_at(p, arg->place, "one value is expected");
    return to_integer(p, arg, arg->values[0], 0, out);
}

static mr_status add_resize(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width, max_size = 0;
    bool one;
    enum mr_interpolation interpolation;
    mr_status status = take_size(p, item, &height, &width, &one);
    if (status == MR_OK && one)
        status = take_whole(p, mr_text_parser_take_arg(item, "max_size"), &max_size);
    if (status == MR_OK)
        status = take_interpolation(p, item, &interpolation);
    if (status != MR_OK)
        return status;
    return one ? mr_transform_resize_short(p->transform, height, max_size, interpolation, p->error)
               : mr_transform_resize(p->transform, height, width, interpolation, p->error);
}

static mr_status add_random_resize(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t min_size = 0, max_size = 0;
    enum mr_interpolation interpolation;
    mr_status status = take_whole(p, take_named_or_next(item, "min_size"), &min_size);
    if (status == MR_OK)
        status = take_whole(p, take_named_or_next(item, "max_size"), &max_size);
    if (status == MR_OK)
        status = take_interpolation(p, item, &interpolation);
    return status == MR_OK ? mr_transform_random_resize(p->transform, min_size, max_size,
                                                        interpolation, p->error)
                           : status;
}

static mr_status add_center_crop(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width;
    mr_status status = take_size(p, item, &height, &width, NULL);
    return status == MR_OK ? mr_transform_center_crop(p->transform, height, width, p->error)
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
    struct mr_text_arg *fill = take_named_or_next(item, "fill");
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
    mr_status status = take_size(p, item, &height, &width, NULL);
    if (status == MR_OK)
        status = mr_text_parser_take_flag(p, item, "pad_if_needed", &pad_if_needed);
    if (status == MR_OK)
        status = take_whole(p, take_named_or_next(item, "padding"), &padding);
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
    struct mr_text_arg *arg = take_named_or_next(item, "padding");
    if (!arg || (arg->n_values != 1 && arg->n_values != 2 && arg->n_values != 4))
        return mr_text_parser_fail_at(p, arg ? arg->place : item->place,
                                      "a padding of one value, x:y or left:top:right:bottom is "
                                      "expected");
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < 4 && status == MR_OK; i++)
        status = to_integer(p, arg, arg->values[i % arg->n_values], 0, &border_out[i]);
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

static mr_status add_pad_if_smaller(struct mr_text_parser *p, struct mr_text_item *item)
{
    uint32_t height, width, n_fill = 1;
    double fill[3] = {0};
    mr_status status = take_size(p, item, &height, &width, NULL);
    if (status == MR_OK)
        status = take_fill(p, item, fill, &n_fill);
    return status == MR_OK
               ? mr_transform_pad_if_smaller(p->transform, height, width, n_fill, fill, p->error)
               : status;
}

static mr_status add_mask(struct mr_text_parser *p, struct mr_text_item *item)
{
    static const char *const words[] = {"u8", "i16", "i64"};
    static const mr_dtype dtypes[] = {MR_U8, MR_I16, MR_I64};
    uint32_t fill = 0, nearest = MR_MASK_NEAREST_TORCH, dtype = 0;
    mr_status status = take_whole(p, mr_text_parser_take_arg(item, "fill"), &fill);
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

static mr_status take_probability(struct mr_text_parser *p, struct mr_text_item *item,
                                  double *probability_out)
{
    *probability_out = 0.5;
    struct mr_text_arg *arg = mr_text_parser_take_arg(item, "");
    if (!arg)
        arg = mr_text_parser_take_arg(item, "p");
    if (!arg)
        return MR_OK;
    if (arg->n_values != 1 || !(arg->values[0] >= 0.0 && arg->values[0] <= 1.0))
        return mr_text_parser_fail_at(p, arg->place, "a probability from 0 to 1 is expected");
    *probability_out = arg->values[0];
    return MR_OK;
}

static mr_status add_kind(struct mr_text_parser *p, enum mr_op_kind kind, double probability)
{
    const struct mr_op op = {.kind = kind, .p = probability};
    return mr_transform_append_op(p->transform, &op, p->error);
}

static mr_status add_hflip(struct mr_text_parser *p, struct mr_text_item *item)
{
    double probability;
    mr_status status = take_probability(p, item, &probability);
    return status == MR_OK ? add_kind(p, MR_OP_HFLIP, probability) : status;
}

static mr_status add_vflip(struct mr_text_parser *p, struct mr_text_item *item)
{
    double probability;
    mr_status status = take_probability(p, item, &probability);
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
    mr_status status = take_size(p, item, &resized, &crop, &one);
    if (status == MR_OK)
        status = take_interpolation(p, item, &interpolation);
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

static const struct {
    const char *name;
    mr_status (*add)(struct mr_text_parser *p, struct mr_text_item *item);
} items[] = {{"train", add_train},
             {"eval", add_eval},
             {"cifar", add_cifar},
             {"none", add_none},
             {"exif", add_exif},
             {"rgb", add_rgb},
             {"random_resized_crop", add_random_resized_crop},
             {"resize", add_resize},
             {"random_resize", add_random_resize},
             {"center_crop", add_center_crop},
             {"random_crop", add_random_crop},
             {"pad", add_pad},
             {"pad_if_smaller", add_pad_if_smaller},
             {"mask", add_mask},
             {"hflip", add_hflip},
             {"vflip", add_vflip},
             {"normalize", mr_normalize_text_add},
             {"random_erasing", mr_erase_text_add},
             {"mixup", mr_mix_text_add},
             {"cutmix", mr_mix_text_add},
             {"mixup_or_cutmix", mr_mix_text_add},
             {"timm_mixup", mr_mix_text_add}};
enum { N_ITEMS = sizeof items / sizeof *items };

/* The builder's messages only name values, so this puts the place in the text before them. */
static mr_status add_place(struct mr_text_parser *p, const struct mr_text_item *item,
                           mr_status status)
{
    if (status != MR_ERR_INVALID || !p->error || strncmp(p->error->text, "transform \"", 11) == 0)
        return status;
    char words[256];
    snprintf(words, sizeof words, "%.255s", p->error->text);
    return mr_text_parser_fail_at(p, item->place, words);
}

static const struct {
    const char *name;
    enum mr_op_kind kind;
} structures[] = {{"random_apply", MR_OP_RANDOM_APPLY},
                  {"random_choice", MR_OP_RANDOM_CHOICE},
                  {"random_order", MR_OP_RANDOM_ORDER}};
enum { N_STRUCTURES = sizeof structures / sizeof *structures, MAX_NAMES = 96 };

static mr_status refuse_name(struct mr_text_parser *p, const struct mr_text_item *item)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (size_t i = 0; i < N_ITEMS; i++)
        names[n++] = items[i].name;
    for (uint32_t i = 0; i < mr_image_op_count; i++)
        names[n++] = mr_image_ops[i].name;
    for (size_t i = 0; i < N_STRUCTURES; i++)
        names[n++] = structures[i].name;
    for (uint32_t i = 0; i < mr_transform_recipe_count && n < MAX_NAMES; i++)
        names[n++] = mr_transform_recipes[i].name;
    return mr_text_parser_refuse_word(p, item->place, "no operation has this name", item->name,
                                      names, n);
}

static mr_status add_image_op(struct mr_text_parser *p, struct mr_text_item *item, uint32_t which)
{
    struct mr_op op = {.kind = MR_OP_IMAGE, .image_op = which};
    mr_status status = mr_image_op_text_read(p, item, which, op.args);
    if (status == MR_OK && p->inside && mr_image_ops[which].sets_channels && op.args[0] != 3.0)
        return mr_text_parser_fail_at(p, item->place,
                                      "inside a structure images keep their channels");
    return status == MR_OK ? add_place(p, item, mr_transform_append_op(p->transform, &op, p->error))
                           : status;
}

/* Structures: an argument that is a transform becomes the structure's children. */

static mr_status parse_item(struct mr_text_parser *p);

/* Items joined by '+'. */
static mr_status parse_chain(struct mr_text_parser *p, uint32_t *n_out)
{
    *n_out = 0;
    mr_text_parser_skip_blanks(p);
    do {
        mr_status status = parse_item(p);
        if (status != MR_OK)
            return status;
        ++*n_out;
    } while (mr_text_parser_take(p, '+'));
    return MR_OK;
}

/* True if a name comes next that is not an argument's. */
static bool starts_transform(const struct mr_text_parser *p)
{
    struct mr_text_parser ahead = *p;
    mr_error unused;
    char name[MR_TEXT_MAX_NAME];
    ahead.error = &unused;
    return mr_text_parser_is_name(*p->at) &&
           !(mr_text_parser_read_name(&ahead, name) == MR_OK && mr_text_parser_take(&ahead, '='));
}

/* Append a node without children. *at_out: its index. */
static mr_status open_node(struct mr_text_parser *p, const struct mr_text_item *item,
                           enum mr_op_kind kind, uint32_t *at_out)
{
    mr_transform *t = p->transform;
    const struct mr_op op = {.kind = kind, .p = kind == MR_OP_RANDOM_APPLY ? 0.5 : 0.0};
    mr_status status = add_place(p, item, mr_transform_append_op(t, &op, p->error));
    *at_out = mr_transform_n_before_implied(t) - 1;
    return status;
}

static mr_status add_child(struct mr_text_parser *p, const struct mr_text_item *item, uint32_t at)
{
    struct mr_op *ops = p->transform->ops;
    if (ops[at].kind == MR_OP_RANDOM_APPLY) {
        if (ops[at].n_children > 0)
            return mr_text_parser_fail_at(p, p->at,
                                          "random_apply has one transform; '+' chains several");
        return parse_chain(p, &ops[at].n_children);
    }
    uint32_t chain;
    mr_status status = open_node(p, item, MR_OP_CHAIN, &chain);
    ops[at].n_children++;
    return status == MR_OK ? parse_chain(p, &ops[chain].n_children) : status;
}

static mr_status parse_children(struct mr_text_parser *p, struct mr_text_item *item, uint32_t at)
{
    if (!mr_text_parser_take(p, '('))
        return mr_text_parser_fail_at(p, p->at, "'(' and a transform are expected");
    if (mr_text_parser_take(p, ')'))
        return MR_OK;
    do {
        mr_status status =
            starts_transform(p) ? add_child(p, item, at) : mr_text_parser_read_arg(p, item);
        if (status != MR_OK)
            return status;
    } while (mr_text_parser_take(p, ','));
    return mr_text_parser_take(p, ')')
               ? MR_OK
               : mr_text_parser_fail_at(p, p->at, "'+', ',' or ')' is expected");
}

static mr_status add_structure(struct mr_text_parser *p, struct mr_text_item *item,
                               enum mr_op_kind kind)
{
    const char *outside = p->inside;
    uint32_t at;
    mr_status status = open_node(p, item, kind, &at);
    if (status != MR_OK)
        return status;
    p->inside = mr_transform_op_name(&p->transform->ops[at]);
    status = parse_children(p, item, at);
    p->inside = outside;
    if (status == MR_OK && p->transform->ops[at].n_children == 0)
        return mr_text_parser_fail_at(p, item->place, "a transform is expected in the parentheses");
    if (status == MR_OK && kind == MR_OP_RANDOM_APPLY)
        status = take_probability(p, item, &p->transform->ops[at].p);
    return status == MR_OK ? mr_text_parser_refuse_unused(p, item, "") : status;
}

static mr_status refuse_inside(struct mr_text_parser *p, const struct mr_text_item *item)
{
    return mr_text_parser_fail_at(p, item->place,
                                  "only image operations and structures can be inside a structure");
}

static mr_status add_item(struct mr_text_parser *p, struct mr_text_item *item, size_t which)
{
    if (p->inside)
        return refuse_inside(p, item);
    mr_status status = mr_text_parser_read_args(p, item);
    if (status == MR_OK)
        status = add_place(p, item, items[which].add(p, item));
    return status == MR_OK ? mr_text_parser_refuse_unused(p, item, "") : status;
}

/* Take the sizes in the text, or the recipe's own. */
static mr_status take_recipe_sizes(struct mr_text_parser *p, struct mr_text_item *item,
                                   const struct mr_transform_recipe *recipe, uint32_t *height,
                                   uint32_t *width, uint32_t *resized)
{
    *height = *width = recipe->size;
    *resized = recipe->resized;
    if (item->n_args == 0)
        return MR_OK;
    const char *place = item->args[0].place;
    bool one;
    mr_status status = take_size(p, item, height, width, &one);
    if (status != MR_OK || !recipe->resized)
        return status;
    if (one)
        return mr_text_parser_fail_at(p, place, "two sizes, RESIZE:CROP, are expected");
    *resized = *height;
    *height = *width;
    return MR_OK;
}

/* Parse the recipe's text in place of its name. */
static mr_status add_recipe(struct mr_text_parser *p, struct mr_text_item *item,
                            const struct mr_transform_recipe *recipe)
{
    char text[MR_TRANSFORM_RECIPE_MAX_TEXT];
    uint32_t height, width, resized, n;
    if (p->inside)
        return refuse_inside(p, item);
    mr_status status = mr_text_parser_read_args(p, item);
    if (status == MR_OK)
        status = take_recipe_sizes(p, item, recipe, &height, &width, &resized);
    if (status == MR_OK)
        status = mr_text_parser_refuse_unused(p, item, "");
    if (status != MR_OK)
        return status;
    mr_transform_recipe_expand(recipe, height, width, resized, text);
    struct mr_text_parser inner = *p;
    inner.text = inner.at = text;
    inner.outer = p;
    inner.outer_item = item;
    return parse_chain(&inner, &n);
}

static mr_status parse_item(struct mr_text_parser *p)
{
    struct mr_text_item item = {.place = p->at};
    mr_status status = mr_text_parser_read_name(p, item.name);
    if (status != MR_OK)
        return status;
    size_t plain = 0;
    uint32_t image_op = 0;
    while (plain < N_ITEMS && !mr_word_is(items[plain].name, item.name))
        plain++;
    while (image_op < mr_image_op_count && !mr_word_is(mr_image_ops[image_op].name, item.name))
        image_op++;
    if (image_op < mr_image_op_count && (p->inside || plain == N_ITEMS))
        return add_image_op(p, &item, image_op);
    if (plain < N_ITEMS)
        return add_item(p, &item, plain);
    for (size_t i = 0; i < N_STRUCTURES; i++)
        if (mr_word_is(structures[i].name, item.name))
            return add_structure(p, &item, structures[i].kind);
    const struct mr_transform_recipe *recipe = mr_transform_recipe_find(item.name);
    if (recipe)
        return add_recipe(p, &item, recipe);
    return refuse_name(p, &item);
}

static mr_status parse_items(struct mr_text_parser *p)
{
    uint32_t n;
    mr_status status = parse_chain(p, &n);
    if (status != MR_OK || *p->at == '\0')
        return status;
    const char *place = p->at;
    bool is_comma = mr_text_parser_take(p, ','),
         is_item = is_comma && mr_text_parser_is_name(*p->at);
    if (is_item && (status = parse_item(p)) != MR_OK)
        return status; /* a wrong name is reported before the wrong joint */
    return mr_text_parser_fail_at(p, place,
                                  is_item    ? "'+' joins operations, not ','"
                                  : is_comma ? "':' joins sizes and '+' joins operations, not ','"
                                             : "'+' or the end is expected");
}

mr_status mr_transform_append(mr_transform *transform, const char *text, mr_error *error)
{
    if (!transform)
        return mr_error_set(error, MR_ERR_INVALID, "transform is NULL");
    if (!text)
        return mr_error_set(error, MR_ERR_INVALID, "the transform's text is NULL");
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        return mr_error_memory(error, sizeof(void *));
    mr_transform longer = *transform;
    struct mr_text_parser p = {.text = text, .at = text, .transform = &longer, .error = error};
    locale_t before = uselocale(c_locale);
    mr_status status = parse_items(&p);
    uselocale(before);
    freelocale(c_locale);
    if (status == MR_OK)
        *transform = longer;
    return status;
}

mr_status mr_transform_parse(const char *text, mr_transform **transform_out, mr_error *error)
{
    if (!transform_out)
        return mr_error_set(error, MR_ERR_INVALID, "transform_out is NULL");
    *transform_out = NULL;
    mr_transform *transform;
    mr_status status = mr_transform_create(&transform, error);
    if (status == MR_OK)
        status = mr_transform_append(transform, text, error);
    if (status == MR_OK)
        *transform_out = transform;
    else
        mr_transform_destroy(transform);
    return status;
}
