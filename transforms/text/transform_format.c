/* SPDX-License-Identifier: Apache-2.0 */
/* Writes the long text form of a transform, which parses back to the same operations. */
#include "transforms/text/erase_text.h"
#include "transforms/text/mix_text.h"
#include "transforms/text/timm_text.h"
#include "transforms/transform.h"

#include "base/text_writer.h"

#include <math.h>

static void put_doubles(struct mr_text_writer *w, const char *before, const double *values,
                        uint32_t n)
{
    mr_text_writer_put(w, "%s", before);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            mr_text_writer_put(w, ":");
        mr_text_writer_put_double(w, values[i]);
    }
}

static void put_padding_look(struct mr_text_writer *w, const struct mr_op *op)
{
    const double fill[3] = {op->fill[0], op->fill[1], op->fill[2]};
    if (op->padding_mode != MR_PADDING_CONSTANT)
        mr_text_writer_put(w, ",padding_mode=%s", mr_transform_padding_modes[op->padding_mode]);
    if (op->n_channels == 3 || fill[0] > 0.0 || fill[1] > 0.0 || fill[2] > 0.0)
        put_doubles(w, ",fill=", fill, op->n_channels);
}

static void put_size(struct mr_text_writer *w, const struct mr_op *op)
{
    if (op->height == op->width)
        mr_text_writer_put(w, "%u", op->height);
    else
        mr_text_writer_put(w, "%u:%u", op->height, op->width);
}

static void put_interpolation(struct mr_text_writer *w, const struct mr_op *op)
{
    if (op->interpolation != MR_BILINEAR)
        mr_text_writer_put(w, ",interp=%s", mr_transform_interpolations[op->interpolation]);
}

/*
 * The values of a parameter that the text needs: none if it is not given, one if that stands for
 * all.
 */
static uint32_t count_values(const struct mr_image_param *param, const double *args)
{
    if (isnan(args[0]))
        return 0;
    if (param->kind == MR_PARAM_COLOR && args[0] == args[1] && args[1] == args[2])
        return 1;
    if (param->kind == MR_PARAM_RANGES && isnan(args[2]))
        return 2;
    return mr_image_op_width(param);
}

/* Arguments by position; but words, colors and optional ones by name. */
static void put_image_arguments(struct mr_text_writer *w, const struct mr_op *op)
{
    const struct mr_image_param *params = mr_image_ops[op->image_op].params;
    const double *args = op->args;
    for (uint32_t i = 0; i < MR_IMAGE_OP_MAX_PARAMS && params[i].name; i++) {
        uint32_t n = count_values(&params[i], args);
        bool is_named = params[i].kind == MR_PARAM_WORD || params[i].kind == MR_PARAM_COLOR ||
                        params[i].optional;
        if (n > 0)
            mr_text_writer_put(w, "%s%s%s", i ? "," : "", is_named ? params[i].name : "",
                               is_named ? "=" : "");
        if (params[i].kind == MR_PARAM_WORD)
            mr_text_writer_put(w, "%s", params[i].words[(size_t)args[0]]);
        else if (params[i].kind == MR_PARAM_POLICY)
            mr_timm_text_put(w, args);
        else
            put_doubles(w, "", args, n);
        args += mr_image_op_width(&params[i]);
    }
}

static void put_arguments(struct mr_text_writer *w, const struct mr_op *op)
{
    switch ((enum mr_op_kind)op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP:
        put_size(w, op);
        put_doubles(w, ",scale=", op->scale, 2);
        put_doubles(w, ",ratio=", op->ratio, 2);
        put_interpolation(w, op);
        break;
    case MR_OP_RESIZE_SHORT:
        mr_text_writer_put(w, "%u", op->height);
        if (op->max_size)
            mr_text_writer_put(w, ",max_size=%u", op->max_size);
        put_interpolation(w, op);
        break;
    case MR_OP_RESIZE:
        mr_text_writer_put(w, "%u:%u", op->height, op->width);
        put_interpolation(w, op);
        break;
    case MR_OP_RANDOM_RESIZE:
        mr_text_writer_put(w, "%u,%u", op->height, op->width);
        put_interpolation(w, op);
        break;
    case MR_OP_FIVE_CROP:
    case MR_OP_CENTER_CROP: put_size(w, op); break;
    case MR_OP_PATCH_CROP:
        put_size(w, op);
        mr_text_writer_put(w, ",%u", op->patch);
        break;
    case MR_OP_TEN_CROP:
        put_size(w, op);
        mr_text_writer_put(w, "%s", op->vertical ? ",vertical_flip" : "");
        break;
    case MR_OP_RANDOM_CROP:
        put_size(w, op);
        mr_text_writer_put(w, ",padding=%u%s", op->padding,
                           op->pad_if_needed ? ",pad_if_needed" : "");
        put_padding_look(w, op);
        break;
    case MR_OP_PAD:
        put_doubles(w, "", op->border, 4);
        put_padding_look(w, op);
        break;
    case MR_OP_PAD_IF_SMALLER:
    case MR_OP_FIXED_SIZE_CROP:
        put_size(w, op);
        put_padding_look(w, op);
        break;
    case MR_OP_LETTERBOX:
        put_size(w, op);
        put_doubles(w, ",fill=", (const double[]){op->fill[0], op->fill[1], op->fill[2]},
                    op->n_channels);
        put_interpolation(w, op);
        break;
    case MR_OP_RANDOM_SHORTEST_SIZE:
        put_doubles(w, "", op->sizes, op->n_sizes);
        if (op->max_size)
            mr_text_writer_put(w, ",max_size=%u", op->max_size);
        put_interpolation(w, op);
        break;
    case MR_OP_SCALE_JITTER:
        put_size(w, op);
        put_doubles(w, ",scale_range=", op->scale, 2);
        put_interpolation(w, op);
        break;
    case MR_OP_RANDOM_ZOOM_OUT:
        put_doubles(w, "side_range=", op->scale, 2);
        put_doubles(w, ",p=", &op->p, 1);
        put_padding_look(w, op);
        break;
    case MR_OP_RANDOM_IOU_CROP:
        put_doubles(w, "scale=", op->scale, 2);
        put_doubles(w, ",ratio=", op->ratio, 2);
        mr_text_writer_put(w, ",trials=%u", op->count);
        break;
    case MR_OP_SANITIZE:
        put_doubles(w, "min_size=", &op->min_size, 1);
        put_doubles(w, ",min_area=", &op->min_area, 1);
        break;
    case MR_OP_MASK:
        mr_text_writer_put(w, "nearest=%s,fill=%u,dtype=%s",
                           mr_transform_mask_nearests[op->interpolation], op->padding,
                           mr_dtype_name((mr_dtype)op->mask_dtype));
        break;
    case MR_OP_HFLIP:
    case MR_OP_VFLIP: mr_text_writer_put_double(w, op->p); break;
    case MR_OP_NORMALIZE:
        put_doubles(w, "mean=", op->mean, op->n_channels);
        put_doubles(w, ",std=", op->std, op->n_channels);
        mr_text_writer_put(w, "%s%s%s", op->exact ? "," : "", mr_transform_exact_words[op->exact],
                           op->implied ? ",if_float" : "");
        break;
    case MR_OP_RANDOM_ERASING: mr_erase_text_put(w, op); break;
    case MR_OP_MIXUP:
    case MR_OP_CUTMIX:
    case MR_OP_MIXUP_OR_CUTMIX:
    case MR_OP_TIMM_MIXUP: mr_mix_text_put(w, op); break;
    case MR_OP_IMAGE: put_image_arguments(w, op); break;
    default: break;
    }
}

static bool has_arguments(const struct mr_op *op)
{
    return op->kind != MR_OP_EXIF && op->kind != MR_OP_RGB &&
           !(op->kind == MR_OP_IMAGE && !mr_image_ops[op->image_op].params[0].name);
}

/* Write ops[i] and all below it. Returns the node after them. */
static uint32_t put_node(struct mr_text_writer *w, const struct mr_op *ops, uint32_t i)
{
    const struct mr_op *op = &ops[i];
    bool is_chain = op->kind == MR_OP_CHAIN;
    const char *between = is_chain || op->kind == MR_OP_RANDOM_APPLY ? "+" : ",";
    uint32_t next = i + 1;
    mr_text_writer_put(w, "%s%s", is_chain ? "" : mr_transform_op_name(op),
                       !is_chain && has_arguments(op) ? "(" : "");
    for (uint32_t k = 0; k < op->n_children; k++) {
        mr_text_writer_put(w, "%s", k ? between : "");
        next = put_node(w, ops, next);
    }
    if (op->kind == MR_OP_RANDOM_APPLY)
        put_doubles(w, ",", &op->p, 1);
    put_arguments(w, op);
    mr_text_writer_put(w, "%s", !is_chain && has_arguments(op) ? ")" : "");
    return next;
}

static void put_list(struct mr_text_writer *w, const mr_transform *transform)
{
    if (transform->n_ops == 0)
        mr_text_writer_put(w, "none");
    uint32_t first = mr_transform_turns(transform), inside = first + transform->n_shared,
             own = inside + transform->n_inside;
    for (uint32_t i = 0; i < transform->n_ops;) {
        mr_text_writer_put(w, "%s", i ? "+" : "");
        if (i == first && first < inside)
            mr_text_writer_put(w, "shared(");
        if (i == inside && inside < own)
            mr_text_writer_put(w, "inside(%s", transform->inside);
        if (i == inside && inside < own && transform->inside_picture)
            mr_text_writer_put(w, "#%u", transform->inside_picture - 1);
        mr_text_writer_put(w, "%s", i == inside && inside < own ? "," : "");
        i = put_node(w, transform->ops, i);
        if ((i == inside && first < inside) || (i == own && inside < own))
            mr_text_writer_put(w, ")");
    }
}

static void put_transform(struct mr_text_writer *w, const mr_transform *transform)
{
    if (!transform->view[0]) {
        put_list(w, transform);
        return;
    }
    for (const mr_transform *view = transform; view; view = view->next) {
        mr_text_writer_put(w, "%sview(%s", view == transform ? "" : "|", view->view);
        if (view->picture)
            mr_text_writer_put(w, "#%u", view->picture - 1);
        if (view->n_pictures)
            mr_text_writer_put(w, ",%u", view->n_pictures);
        mr_text_writer_put(w, ",");
        put_list(w, view);
        mr_text_writer_put(w, ")");
    }
}

size_t mr_transform_format(const mr_transform *transform, char *text_out, size_t size)
{
    struct mr_text_writer w;
    mr_text_writer_begin(&w, text_out, size);
    if (transform)
        put_transform(&w, transform);
    mr_text_writer_end(&w);
    return w.len;
}
