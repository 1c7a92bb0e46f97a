/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes the long text form of a transform, which parses back to the same operations. Doubles have as many digits as
 * bring the same bits back, and are written in the C locale.
 */
#include "transforms/transform.h"

#include <locale.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

struct writer {
    char *text;
    size_t size;
    size_t len; /* that the whole text needs */
};

static void put_text(struct writer *w, const char *format, ...) MR_PRINTF(2, 3);

static void put_text(struct writer *w, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    size_t room = w->len < w->size ? w->size - w->len : 0;
    int n = vsnprintf(room ? w->text + w->len : NULL, room, format, args);
    va_end(args);
    w->len += n > 0 ? (size_t)n : 0;
}

static void put_double(struct writer *w, double value)
{
    char digits[40];
    for (int precision = 6; precision <= 17; precision++) {
        snprintf(digits, sizeof digits, "%.*g", precision, value);
        if (strtod(digits, NULL) == value)
            break;
    }
    put_text(w, "%s", digits);
}

static void put_doubles(struct writer *w, const char *before, const double *values, uint32_t n)
{
    put_text(w, "%s", before);
    for (uint32_t i = 0; i < n; i++) {
        if (i)
            put_text(w, ":");
        put_double(w, values[i]);
    }
}

static void put_size(struct writer *w, const struct mr_op *op)
{
    if (op->height == op->width)
        put_text(w, "%u", op->height);
    else
        put_text(w, "%u:%u", op->height, op->width);
}

static void put_interpolation(struct writer *w, const struct mr_op *op)
{
    if (op->interpolation != MR_BILINEAR)
        put_text(w, ",interp=%s", mr_transform_interpolations[op->interpolation]);
}

/* Every argument by its position. */
static void put_image_arguments(struct writer *w, const struct mr_op *op)
{
    const struct mr_image_param *params = mr_image_ops[op->image_op].params;
    const double *args = op->args;
    for (uint32_t i = 0; i < MR_IMAGE_OP_MAX_PARAMS && params[i].name; i++) {
        if (params[i].kind == MR_PARAM_WORD)
            put_text(w, "%s%s=%s", i ? "," : "", params[i].name, params[i].words[(size_t)args[0]]);
        else
            put_doubles(w, i ? "," : "", args, mr_image_op_width(&params[i]));
        args += mr_image_op_width(&params[i]);
    }
}

static void put_arguments(struct writer *w, const struct mr_op *op)
{
    switch ((enum mr_op_kind)op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP:
        put_size(w, op);
        put_doubles(w, ",scale=", op->scale, 2);
        put_doubles(w, ",ratio=", op->ratio, 2);
        put_interpolation(w, op);
        break;
    case MR_OP_RESIZE_SHORT:
        put_text(w, "%u", op->height);
        put_interpolation(w, op);
        break;
    case MR_OP_RESIZE:
        put_text(w, "%u:%u", op->height, op->width);
        put_interpolation(w, op);
        break;
    case MR_OP_CENTER_CROP: put_size(w, op); break;
    case MR_OP_RANDOM_CROP:
        put_size(w, op);
        put_text(w, ",padding=%u", op->padding);
        break;
    case MR_OP_HFLIP:
    case MR_OP_VFLIP: put_double(w, op->p); break;
    case MR_OP_NORMALIZE:
        put_doubles(w, "mean=", op->mean, op->n_channels);
        put_doubles(w, ",std=", op->std, op->n_channels);
        put_text(w, "%s%s", op->exact ? ",exact" : "", op->implied ? ",if_float" : "");
        break;
    case MR_OP_IMAGE: put_image_arguments(w, op); break;
    default: break;
    }
}

static bool has_arguments(const struct mr_op *op)
{
    return op->kind != MR_OP_EXIF && op->kind != MR_OP_RGB &&
           !(op->kind == MR_OP_IMAGE && !mr_image_ops[op->image_op].params[0].name);
}

/* Write ops[i] and all below it. Returns the node behind them. */
static uint32_t put_node(struct writer *w, const struct mr_op *ops, uint32_t i)
{
    const struct mr_op *op = &ops[i];
    bool is_chain = op->kind == MR_OP_CHAIN;
    const char *between = is_chain || op->kind == MR_OP_RANDOM_APPLY ? "+" : ",";
    uint32_t next = i + 1;
    put_text(w, "%s%s", is_chain ? "" : mr_transform_op_name(op), !is_chain && has_arguments(op) ? "(" : "");
    for (uint32_t k = 0; k < op->n_children; k++) {
        put_text(w, "%s", k ? between : "");
        next = put_node(w, ops, next);
    }
    if (op->kind == MR_OP_RANDOM_APPLY)
        put_doubles(w, ",", &op->p, 1);
    put_arguments(w, op);
    put_text(w, "%s", !is_chain && has_arguments(op) ? ")" : "");
    return next;
}

static void put_transform(struct writer *w, const mr_transform *transform)
{
    if (transform->n_ops == 0)
        put_text(w, "none");
    for (uint32_t i = 0; i < transform->n_ops;) {
        put_text(w, "%s", i ? "+" : "");
        i = put_node(w, transform->ops, i);
    }
}

size_t mr_transform_format(const mr_transform *transform, char *text_out, size_t size)
{
    struct writer w = {.text = text_out, .size = text_out ? size : 0};
    if (w.size)
        text_out[0] = '\0';
    if (!transform)
        return 0;
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    locale_t before = c_locale ? uselocale(c_locale) : (locale_t)0;
    put_transform(&w, transform);
    if (c_locale) {
        uselocale(before);
        freelocale(c_locale);
    }
    return w.len;
}
