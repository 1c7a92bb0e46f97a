/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses transforms given as text: items joined by '+', each a short form (train:224) or an operation with arguments in
 * parentheses. Numbers are read in the C locale, whatever the program has set.
 */
#include "base/words.h"
#include "transforms/transform.h"

#include <ctype.h>
#include <locale.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_NAME = 24, MAX_VALUES = 3, MAX_ARGS = 6 };

/* One argument: `name=1:2`, `name=word`, `1:2` (no name) or `name` (no values). */
struct arg {
    char name[MAX_NAME];
    char word[MAX_NAME]; /* "" where values stand in its place */
    double values[MAX_VALUES];
    uint32_t n_values;
    const char *place;
    bool used;
};

struct item {
    char name[MAX_NAME];
    struct arg args[MAX_ARGS];
    uint32_t n_args;
    const char *place;
};

struct parser {
    const char *text;
    const char *at;
    mr_transform *transform;
    mr_error *error;
};

static mr_status fail_at(struct parser *p, const char *place, const char *words)
{
    return mr_error_set(p->error, MR_ERR_INVALID, "transform \"%.200s\", character %zu: %s", p->text,
                        (size_t)(place - p->text) + 1, words);
}

static void skip_blanks(struct parser *p)
{
    while (*p->at == ' ' || *p->at == '\t')
        p->at++;
}

static bool take_char(struct parser *p, char c)
{
    skip_blanks(p);
    if (*p->at != c)
        return false;
    p->at++;
    skip_blanks(p);
    return true;
}

static bool is_name_char(char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
}

static mr_status read_name(struct parser *p, char name_out[MAX_NAME])
{
    size_t len = 0;
    while (is_name_char(p->at[len]) || (len > 0 && isdigit((unsigned char)p->at[len])))
        len++;
    if (len == 0 || len >= MAX_NAME)
        return fail_at(p, p->at, len ? "the name is too long" : "a name is expected");
    memcpy(name_out, p->at, len);
    name_out[len] = '\0';
    p->at += len;
    return MR_OK;
}

/* Digits, sign, point and exponent only: strtod() would take "nan" and hexadecimal too. */
static mr_status read_number(struct parser *p, double *value_out)
{
    size_t len = strspn(p->at, "0123456789.eE+-");
    char digits[64];
    const char *start = *p->at == '-' ? p->at + 1 : p->at;
    if (!isdigit((unsigned char)*start) && *start != '.')
        return fail_at(p, p->at, "a number is expected");
    if (len >= sizeof digits)
        len = sizeof digits - 1;
    memcpy(digits, p->at, len);
    digits[len] = '\0';
    char *end;
    *value_out = strtod(digits, &end);
    if (end == digits || !isfinite(*value_out))
        return fail_at(p, p->at, "a number is expected");
    p->at += end - digits;
    return MR_OK;
}

static mr_status read_values(struct parser *p, struct arg *arg)
{
    do {
        if (arg->n_values == MAX_VALUES)
            return fail_at(p, p->at, "at most three values can stand here");
        mr_status status = read_number(p, &arg->values[arg->n_values]);
        if (status != MR_OK)
            return status;
        arg->n_values++;
    } while (take_char(p, ':'));
    return MR_OK;
}

static mr_status read_arg(struct parser *p, struct item *item)
{
    if (item->n_args == MAX_ARGS)
        return fail_at(p, p->at, "too many arguments");
    struct arg *arg = &item->args[item->n_args++];
    *arg = (struct arg){.place = p->at};
    if (!is_name_char(*p->at))
        return read_values(p, arg);
    mr_status status = read_name(p, arg->name);
    if (status != MR_OK || !take_char(p, '='))
        return status;
    return is_name_char(*p->at) ? read_name(p, arg->word) : read_values(p, arg);
}

static mr_status read_item(struct parser *p, struct item *item)
{
    *item = (struct item){.place = p->at};
    mr_status status = read_name(p, item->name);
    if (status != MR_OK)
        return status;
    if (take_char(p, ':')) {
        struct arg *arg = &item->args[item->n_args++];
        arg->place = p->at;
        return read_values(p, arg);
    }
    if (!take_char(p, '(') || take_char(p, ')'))
        return MR_OK;
    do {
        status = read_arg(p, item);
        if (status != MR_OK)
            return status;
    } while (take_char(p, ','));
    return take_char(p, ')') ? MR_OK : fail_at(p, p->at, "',' or ')' is expected");
}

/* The argument of that name ("" for the one without a name), marked as used; NULL where there is none. */
static struct arg *take_arg(struct item *item, const char *name)
{
    for (uint32_t i = 0; i < item->n_args; i++) {
        if (!item->args[i].used && mr_word_is(item->args[i].name, name)) {
            item->args[i].used = true;
            return &item->args[i];
        }
    }
    return NULL;
}

static mr_status to_integer(struct parser *p, const struct arg *arg, double value, uint32_t lo, uint32_t *out)
{
    if (!(value >= lo && value <= 65535) || value != floor(value))
        return fail_at(p, arg->place,
                       lo ? "a size from 1 to 65535 is expected" : "a number from 0 to 65535 is expected");
    *out = (uint32_t)value;
    return MR_OK;
}

/* One value, or height:width. *one_out says which. */
static mr_status take_size(struct parser *p, struct item *item, uint32_t *height, uint32_t *width, bool *one_out)
{
    struct arg *arg = take_arg(item, "");
    if (!arg)
        return fail_at(p, p->at, "a size is expected");
    if (arg->n_values > 2)
        return fail_at(p, arg->place, "a size is one number or height:width");
    if (one_out)
        *one_out = arg->n_values == 1;
    mr_status status = to_integer(p, arg, arg->values[0], 1, height);
    if (status == MR_OK)
        status = to_integer(p, arg, arg->values[arg->n_values - 1], 1, width);
    return status;
}

static mr_status take_range(struct parser *p, struct item *item, const char *name, double range[2])
{
    struct arg *arg = take_arg(item, name);
    if (!arg)
        return MR_OK;
    if (arg->n_values != 2)
        return fail_at(p, arg->place, "two values, lo:hi, are expected");
    range[0] = arg->values[0];
    range[1] = arg->values[1];
    return MR_OK;
}

static mr_status take_flag(struct parser *p, struct item *item, const char *name, bool *flag_out)
{
    struct arg *arg = take_arg(item, name);
    *flag_out = arg != NULL;
    return arg && (arg->n_values || *arg->word) ? fail_at(p, arg->place, "this word takes no value") : MR_OK;
}

/* Words with a hint: `start`, the nearest of n names, and all of them. */
static mr_status refuse_word(struct parser *p, const char *place, const char *start, const char *word,
                             const char *const *names, size_t n)
{
    char words[400];
    size_t used = (size_t)snprintf(words, sizeof words, "%s", start);
    const char *nearest = mr_nearest_name(word, names, n);
    if (nearest)
        used += (size_t)snprintf(words + used, sizeof words - used, " (did you mean '%s'?)", nearest);
    for (size_t i = 0; i < n && used < sizeof words; i++)
        used += (size_t)snprintf(words + used, sizeof words - used, "%s%s", i > 0 ? ", " : "; there are ", names[i]);
    return fail_at(p, place, words);
}

/* `interp=bicubic`, or the word alone. */
static mr_status take_interpolation(struct parser *p, struct item *item, enum mr_interpolation *interpolation_out)
{
    struct arg *arg = take_arg(item, "interp");
    *interpolation_out = MR_BILINEAR;
    for (int i = 0; i < MR_N_INTERPOLATIONS; i++) {
        const char *name = mr_transform_interpolations[i];
        bool found = arg && mr_word_is(arg->word, name);
        mr_status status = arg ? MR_OK : take_flag(p, item, name, &found);
        if (found)
            *interpolation_out = (enum mr_interpolation)i;
        if (found || status != MR_OK)
            return status;
    }
    return arg ? refuse_word(p, arg->place, "no interpolation has this name", arg->word, mr_transform_interpolations,
                             MR_N_INTERPOLATIONS)
               : MR_OK;
}

static mr_status add_random_resized_crop(struct parser *p, struct item *item)
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
    return mr_transform_random_resized_crop_as(p->transform, height, width, scale, ratio, interpolation, p->error);
}

static mr_status add_resize(struct parser *p, struct item *item)
{
    uint32_t height, width;
    bool one;
    enum mr_interpolation interpolation;
    mr_status status = take_size(p, item, &height, &width, &one);
    if (status == MR_OK)
        status = take_interpolation(p, item, &interpolation);
    if (status != MR_OK)
        return status;
    return one ? mr_transform_resize_short_as(p->transform, height, interpolation, p->error)
               : mr_transform_resize_as(p->transform, height, width, interpolation, p->error);
}

static mr_status add_center_crop(struct parser *p, struct item *item)
{
    uint32_t height, width;
    mr_status status = take_size(p, item, &height, &width, NULL);
    return status == MR_OK ? mr_transform_center_crop(p->transform, height, width, p->error) : status;
}

static mr_status add_random_crop(struct parser *p, struct item *item)
{
    uint32_t height, width, padding = 0;
    mr_status status = take_size(p, item, &height, &width, NULL);
    if (status != MR_OK)
        return status;
    struct arg *arg = take_arg(item, "padding");
    if (arg && arg->n_values != 1)
        return fail_at(p, arg->place, "one value is expected");
    if (arg)
        status = to_integer(p, arg, arg->values[0], 0, &padding);
    return status == MR_OK ? mr_transform_random_crop(p->transform, height, width, padding, p->error) : status;
}

static mr_status take_probability(struct parser *p, struct item *item, double *probability_out)
{
    *probability_out = 0.5;
    struct arg *arg = take_arg(item, "");
    if (!arg)
        arg = take_arg(item, "p");
    if (!arg)
        return MR_OK;
    if (arg->n_values != 1 || !(arg->values[0] >= 0.0 && arg->values[0] <= 1.0))
        return fail_at(p, arg->place, "a probability from 0 to 1 is expected");
    *probability_out = arg->values[0];
    return MR_OK;
}

static mr_status add_hflip(struct parser *p, struct item *item)
{
    double probability;
    mr_status status = take_probability(p, item, &probability);
    return status == MR_OK ? mr_transform_hflip(p->transform, probability, p->error) : status;
}

static mr_status add_vflip(struct parser *p, struct item *item)
{
    double probability;
    mr_status status = take_probability(p, item, &probability);
    return status == MR_OK ? mr_transform_vflip(p->transform, probability, p->error) : status;
}

static mr_status add_exif(struct parser *p, struct item *item)
{
    (void)item;
    return mr_transform_exif(p->transform, p->error);
}

static mr_status add_rgb(struct parser *p, struct item *item)
{
    (void)item;
    return mr_transform_rgb(p->transform, p->error);
}

static mr_status add_normalize(struct parser *p, struct item *item)
{
    struct arg *mean = take_arg(item, "mean");
    struct arg *std = take_arg(item, "std");
    bool exact, implied;
    if (!mean || !std)
        return fail_at(p, item->place, "normalize needs mean= and std=");
    if (mean->n_values != std->n_values || (std->n_values != 1 && std->n_values != 3))
        return fail_at(p, std->place, "mean and std have one or three values each");
    mr_status status = take_flag(p, item, "exact", &exact);
    if (status == MR_OK)
        status = take_flag(p, item, "if_float", &implied);
    if (status != MR_OK)
        return status;
    return mr_transform_normalize_as(p->transform, mean->n_values, mean->values, std->values, exact, implied, p->error);
}

static mr_status imply_imagenet(struct parser *p)
{
    const double mean[3] = {0.485, 0.456, 0.406}, std[3] = {0.229, 0.224, 0.225};
    return mr_transform_normalize_as(p->transform, 3, mean, std, false, true, p->error);
}

static mr_status add_train(struct parser *p, struct item *item)
{
    mr_status status = add_random_resized_crop(p, item);
    if (status == MR_OK)
        status = mr_transform_hflip(p->transform, 0.5, p->error);
    return status == MR_OK ? imply_imagenet(p) : status;
}

static mr_status add_eval(struct parser *p, struct item *item)
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
        return fail_at(p, p->at, "eval:RESIZE:CROP has two sizes");
    status = mr_transform_resize_short_as(p->transform, resized, interpolation, p->error);
    if (status == MR_OK)
        status = mr_transform_center_crop(p->transform, crop, crop, p->error);
    return status == MR_OK ? imply_imagenet(p) : status;
}

static mr_status add_cifar(struct parser *p, struct item *item)
{
    const double mean[3] = {0.4914, 0.4822, 0.4465}, std[3] = {0.2470, 0.2435, 0.2616};
    (void)item;
    mr_status status = mr_transform_random_crop(p->transform, 32, 32, 4, p->error);
    if (status == MR_OK)
        status = mr_transform_hflip(p->transform, 0.5, p->error);
    return status == MR_OK ? mr_transform_normalize_as(p->transform, 3, mean, std, false, true, p->error) : status;
}

static mr_status add_none(struct parser *p, struct item *item)
{
    (void)p;
    (void)item;
    return MR_OK;
}

static const struct {
    const char *name;
    mr_status (*add)(struct parser *p, struct item *item);
} items[] = {{"train", add_train},
             {"eval", add_eval},
             {"cifar", add_cifar},
             {"none", add_none},
             {"exif", add_exif},
             {"rgb", add_rgb},
             {"random_resized_crop", add_random_resized_crop},
             {"resize", add_resize},
             {"center_crop", add_center_crop},
             {"random_crop", add_random_crop},
             {"hflip", add_hflip},
             {"vflip", add_vflip},
             {"normalize", add_normalize}};
enum { N_ITEMS = sizeof items / sizeof *items };

/* The builder's words are about values; the place in the text is put before them. */
static mr_status add_place(struct parser *p, const struct item *item, mr_status status)
{
    if (status != MR_ERR_INVALID || !p->error || strncmp(p->error->text, "transform \"", 11) == 0)
        return status;
    char words[256];
    snprintf(words, sizeof words, "%.255s", p->error->text);
    return fail_at(p, item->place, words);
}

static mr_status refuse_name(struct parser *p, const struct item *item)
{
    const char *names[N_ITEMS];
    for (size_t i = 0; i < N_ITEMS; i++)
        names[i] = items[i].name;
    return refuse_word(p, item->place, "no operation has this name", item->name, names, N_ITEMS);
}

static mr_status parse_item(struct parser *p)
{
    struct item item;
    mr_status status = read_item(p, &item);
    if (status != MR_OK)
        return status;
    for (size_t i = 0; i < N_ITEMS; i++) {
        if (!mr_word_is(items[i].name, item.name))
            continue;
        status = add_place(p, &item, items[i].add(p, &item));
        for (uint32_t k = 0; k < item.n_args && status == MR_OK; k++)
            if (!item.args[k].used)
                status = fail_at(p, item.args[k].place, "this argument is unknown or given twice");
        return status;
    }
    return refuse_name(p, &item);
}

static mr_status parse_items(struct parser *p)
{
    skip_blanks(p);
    do {
        mr_status status = parse_item(p);
        if (status != MR_OK)
            return status;
    } while (take_char(p, '+'));
    return *p->at == '\0' ? MR_OK : fail_at(p, p->at, "'+' or the end is expected");
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
    struct parser p = {.text = text, .at = text, .transform = &longer, .error = error};
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
