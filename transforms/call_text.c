/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Walks a call's keywords and values together. JSON and words differ in punctuation and in how they
 * write a value.
 */
#include "transforms/call_text.h"

#include "transforms/transform.h"

#include <math.h>
#include <string.h>

/* PIL.Image.Resampling. */
static const int pillow_filters[MR_N_FILTERS] = {
    [MR_BILINEAR] = 2, [MR_NEAREST] = 0, [MR_BOX] = 4,
    [MR_HAMMING] = 5,  [MR_BICUBIC] = 3, [MR_LANCZOS] = 1};

struct form {
    bool is_json;
    const char *mark; /* between values of a list */
    const char *list[2];
};
static const struct form json = {.is_json = true, .mark = ",", .list = {"[", "]"}};
static const struct form words = {.mark = ":", .list = {"", ""}};

struct mr_call_text mr_call_text_of(const struct mr_image_call *call)
{
    const struct mr_image_call_ops *ops = &mr_image_call_ops[call->kind];
    return (struct mr_call_text){.name = ops->name, .keywords = ops->args, .args = call->args};
}

/* How many of a call's values the keyword takes. */
static uint32_t count_taken(const struct mr_image_arg *keyword)
{
    if (keyword->kind == MR_ARG_SIZE || keyword->kind == MR_ARG_CONSTANT)
        return 0;
    if (keyword->kind == MR_ARG_FILL)
        return 3;
    return keyword->n ? keyword->n : 1;
}

static bool is_same(const double *a, const double *b, uint32_t n)
{
    uint32_t i = 0;
    while (i < n && a[i] == b[i])
        i++;
    return i == n;
}

bool mr_call_text_is_identity(const struct mr_call_text *call, const struct mr_image *image)
{
    static const double identity[8] = {1, 0, 0, 0, 1, 0, 0, 0}, channels[3] = {0, 1, 2};
    const double *args = call->args;
    if (call->keywords == mr_image_call_ops[MR_CALL_PERSPECTIVE].args)
        return is_same(args, identity, 8);
    if (call->keywords == mr_image_call_ops[MR_CALL_PIL_AFFINE].args)
        return is_same(args, identity, 6);
    if (call->keywords == mr_image_call_ops[MR_CALL_PERMUTE_CHANNELS].args)
        return image->n_channels == 1 || is_same(args, channels, 3);
    bool may_be =
        call->keywords == mr_image_call_ops[MR_CALL_GRAYSCALE].args && image->n_channels == 1;
    for (uint32_t i = 0; i < MR_CALL_MAX_NAMED && call->keywords[i].name; i++) {
        const struct mr_image_arg *keyword = &call->keywords[i];
        uint32_t n = count_taken(keyword);
        for (uint32_t k = 0; keyword->is_neutral && k < n; k++)
            if (args[k] != keyword->value)
                return false;
        may_be = may_be || keyword->is_neutral;
        args += n;
    }
    return may_be;
}

static void put_value(struct mr_text_writer *w, const struct form *form,
                      const struct mr_image_arg *keyword, double value)
{
    const char *quote = form->is_json ? "\"" : "";
    switch ((enum mr_image_arg_kind)keyword->kind) {
    case MR_ARG_NUMBER:
        if (form->is_json)
            mr_text_writer_put_json_number(w, value);
        else
            mr_text_writer_put(w, "%.4g", value);
        break;
    case MR_ARG_FILTER:
        if (form->is_json)
            mr_text_writer_put(w, "%d", pillow_filters[(size_t)value]);
        else
            mr_text_writer_put(w, "%s", mr_transform_interpolations[(size_t)value]);
        break;
    case MR_ARG_WORD:
        mr_text_writer_put(w, "%s%s%s", quote, keyword->words[(size_t)value], quote);
        break;
    default: mr_text_writer_put(w, "%.0f", value); break;
    }
}

static void put_values(struct mr_text_writer *w, const struct form *form,
                       const struct mr_image_arg *keyword, const double *values,
                       const struct mr_image *image)
{
    const double size[2] = {image->width, image->height};
    uint32_t n = keyword->n;
    if (keyword->kind == MR_ARG_CONSTANT)
        values = &keyword->value;
    if (keyword->kind == MR_ARG_SIZE)
        values = size, n = 2;
    if (keyword->kind == MR_ARG_FILL)
        n = image->n_channels;
    mr_text_writer_put(w, "%s", n ? form->list[0] : "");
    for (uint32_t i = 0; i < (n ? n : 1); i++) {
        mr_text_writer_put(w, "%s", i ? form->mark : "");
        put_value(w, form, keyword, values[i]);
    }
    mr_text_writer_put(w, "%s", n ? form->list[1] : "");
}

static void put_arguments(struct mr_text_writer *w, const struct form *form,
                          const struct mr_call_text *call, const struct mr_image *image)
{
    const double *args = call->args;
    const char *between = "";
    for (uint32_t i = 0; i < MR_CALL_MAX_NAMED && call->keywords[i].name; i++) {
        const struct mr_image_arg *keyword = &call->keywords[i];
        bool is_absent = keyword->optional && isnan(args[0]);
        if (!is_absent) {
            mr_text_writer_put(w, form->is_json ? "%s\"%s\":" : "%s%s=", between, keyword->name);
            put_values(w, form, keyword, args, image);
            between = ",";
        }
        args += count_taken(keyword);
    }
}

void mr_call_text_put_json(struct mr_text_writer *w, const struct mr_call_text *call,
                           const struct mr_image *image)
{
    mr_text_writer_put(w, "[\"%s\",{", call->name);
    put_arguments(w, &json, call, image);
    mr_text_writer_put(w, "}]");
}

void mr_call_text_put_words(struct mr_text_writer *w, const struct mr_call_text *call,
                            const struct mr_image *image)
{
    bool has_arguments = call->keywords[0].name != NULL;
    mr_text_writer_put(w, "%s%s", call->name, has_arguments ? "(" : "");
    put_arguments(w, &words, call, image);
    mr_text_writer_put(w, "%s", has_arguments ? ")" : "");
}

/* Pixels of an image, as in "90x80+2+1". */
static void put_box(struct mr_text_writer *w, const double *args)
{
    double top = args[0], left = args[1], height = args[2], width = args[3];
    mr_text_writer_put(w, " %.0fx%.0f%+.0f%+.0f", width, height, left, top);
}

static bool is_brief(const struct mr_image_arg *keyword, const double *args)
{
    return (keyword->kind == MR_ARG_NUMBER || keyword->kind == MR_ARG_INTEGER) && keyword->n <= 4 &&
           !(keyword->optional && isnan(args[0]));
}

void mr_call_text_put_brief(struct mr_text_writer *w, const struct mr_call_text *call,
                            const struct mr_image *image)
{
    const struct mr_image_arg *keywords = call->keywords;
    const double *args = call->args;
    bool is_box = keywords[0].name && strcmp(keywords[0].name, "top") == 0;
    const char *name = call->name;
    if (strncmp(name, "adjust_", strlen("adjust_")) == 0)
        name += strlen("adjust_");
    mr_text_writer_put(w, "%s", name);
    if (is_box)
        put_box(w, args);
    for (uint32_t i = 0; !is_box && i < MR_CALL_MAX_NAMED && keywords[i].name; i++) {
        if (is_brief(&keywords[i], args)) {
            mr_text_writer_put(w, " ");
            put_values(w, &words, &keywords[i], args, image);
        }
        args += count_taken(&keywords[i]);
    }
}
