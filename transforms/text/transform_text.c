/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Parses transforms given as text: items joined by '+', each a short form (train:224) or an
 * operation with arguments in parentheses. Views, view(NAME,TRANSFORM), are joined by '|'. Numbers
 * are read in the C locale, whatever locale the program has set.
 */
#include "transforms/text/image_op_text.h"
#include "transforms/text/text_args.h"
#include "transforms/text/text_items.h"
#include "transforms/text/transform_recipe.h"

#include "base/words.h"

#include <assert.h>
#include <ctype.h>
#include <locale.h>
#include <stdio.h>
#include <string.h>

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
enum { N_STRUCTURES = sizeof structures / sizeof *structures, MAX_NAMES = 160 };

static mr_status refuse_name(struct mr_text_parser *p, const struct mr_text_item *item)
{
    const char *names[MAX_NAMES];
    size_t n = 0;
    for (size_t i = 0; i < mr_text_item_count; i++)
        names[n++] = mr_text_items[i].name;
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
    if (status == MR_OK && p->inside && mr_image_op_draws_size(which, op.args))
        return mr_text_parser_fail_at(p, item->place, "inside a structure images keep their size");
    return status == MR_OK ? add_place(p, item, mr_transform_append_op(p->transform, &op, p->error))
                           : status;
}

/* Structures: an argument that is a transform becomes the structure's children. */

static mr_status parse_item(struct mr_text_parser *p);
static mr_status add_recipe(struct mr_text_parser *p, struct mr_text_item *item,
                            const struct mr_transform_recipe *recipe);

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

/* Views. The first one has the list of the transform itself. */

static bool starts_view(const struct mr_text_parser *p)
{
    struct mr_text_parser ahead = *p;
    mr_error unused;
    char name[MR_TEXT_MAX_NAME];
    ahead.error = &unused;
    return mr_text_parser_is_name(*p->at) && mr_text_parser_read_name(&ahead, name) == MR_OK &&
           mr_word_is("view", name);
}

static mr_status refuse_view(struct mr_text_parser *p, const char *place)
{
    return mr_text_parser_fail_at(p, place,
                                  "a view is a whole transform: '|' joins views, and '+' the "
                                  "operations of one");
}

/* *view_out: a list for the view with the name that comes next. */
static mr_status open_view(struct mr_text_parser *p, mr_transform **view_out)
{
    const char *place = p->at;
    char name[MR_TEXT_MAX_NAME];
    mr_transform *last = p->transform;
    uint32_t n = mr_transform_n_views(last);
    if (!p->takes_views || (last->n_ops > 0 && !last->view[0]))
        return refuse_view(p, place);
    mr_status status = mr_text_parser_read_name(p, name);
    static_assert(sizeof name == sizeof last->view, "a view's name is a name");
    static_assert(MR_MAX_VIEWS == 8, "the message names the limit");
    for (mr_transform *t = p->transform; t && status == MR_OK; last = t, t = t->next)
        if (strcmp(t->view, name) == 0)
            return mr_text_parser_fail_at(p, place, "two views have this name");
    if (status == MR_OK && n == MR_MAX_VIEWS)
        return mr_text_parser_fail_at(p, place, "a transform has at most 8 views");
    if (status == MR_OK && p->transform->view[0]) {
        status = mr_transform_create(&last->next, p->error);
        last = last->next;
    }
    if (status != MR_OK)
        return status;
    strcpy(last->view, name); /* its other bytes stay 0, because they are hashed */
    *view_out = last;
    return MR_OK;
}

/* NAME, NAME#NUMBER or NAME,COUNT, then the view's transform. */
static mr_status parse_view_arguments(struct mr_text_parser *p)
{
    mr_transform *view = NULL;
    uint32_t n = 0;
    mr_status status = open_view(p, &view);
    if (status == MR_OK && *p->at == '#') {
        p->at++;
        status = mr_text_parser_read_whole(p, 0, MR_MAX_PICTURES - 1, &n);
        view->picture = status == MR_OK ? 1 + n : 0;
    }
    if (status == MR_OK && !mr_text_parser_take(p, ','))
        status = mr_text_parser_fail_at(p, p->at, "',' and a transform are expected");
    if (status == MR_OK && isdigit((unsigned char)*p->at)) {
        const char *place = p->at;
        status = mr_text_parser_read_whole(p, 1, MR_MAX_PICTURES, &view->n_pictures);
        if (status == MR_OK && view->picture)
            status = mr_text_parser_fail_at(p, place, "one picture of a view has no count");
        if (status == MR_OK && !mr_text_parser_take(p, ','))
            status = mr_text_parser_fail_at(p, p->at, "',' and a transform are expected");
    }
    if (status != MR_OK)
        return status;
    struct mr_text_parser inner = *p;
    inner.transform = view;
    inner.takes_views = false;
    status = parse_chain(&inner, &n);
    p->at = inner.at;
    return status;
}

/* Can an operation have draws that are not of its view? */
static bool can_be_drawn(const struct mr_op *op)
{
    return op->kind >= MR_OP_IMAGE ||
           (op->kind <= MR_OP_VFLIP && op->kind != MR_OP_FIVE_CROP && op->kind != MR_OP_TEN_CROP);
}

/* NAME or NAME#NUMBER of the view that this one is inside. */
static mr_status read_inside(struct mr_text_parser *p)
{
    mr_transform *t = p->transform;
    uint32_t n = 0;
    mr_status status = mr_text_parser_read_name(p, t->inside);
    if (status == MR_OK && *p->at == '#') {
        p->at++;
        status = mr_text_parser_read_whole(p, 0, MR_MAX_PICTURES - 1, &n);
        t->inside_picture = 1 + n;
    }
    if (status == MR_OK && !mr_text_parser_take(p, ','))
        status = mr_text_parser_fail_at(p, p->at, "',' and operations are expected");
    return status;
}

/* shared(...): drawn once for all views. inside(NAME,...): drawn as that view's picture. */
static mr_status add_drawn(struct mr_text_parser *p, const struct mr_text_item *item,
                           bool is_shared)
{
    mr_transform *t = p->transform;
    uint32_t n, first = mr_transform_turns(t) + (is_shared ? 0 : t->n_shared);
    if (!t->view[0] || p->inside || p->is_drawn || mr_transform_n_before_implied(t) != first)
        return mr_text_parser_fail_at(p, item->place,
                                      "shared(...), then inside(NAME,...), are what a view begins "
                                      "with");
    if (!mr_text_parser_take(p, '('))
        return mr_text_parser_fail_at(p, p->at, "'(' and operations are expected");
    struct mr_text_parser inner = *p;
    inner.is_drawn = true;
    inner.inside = is_shared ? item->name : NULL;
    mr_status status = is_shared ? MR_OK : read_inside(&inner);
    if (status == MR_OK)
        status = parse_chain(&inner, &n);
    p->at = inner.at;
    if (status != MR_OK)
        return status;
    uint32_t end = mr_transform_n_before_implied(t);
    for (uint32_t i = first; i < end; i++)
        if (!can_be_drawn(&t->ops[i]))
            return mr_text_parser_fail_at(p, item->place,
                                          "only geometry and image operations can be in it");
    *(is_shared ? &t->n_shared : &t->n_inside) = end - first;
    return mr_text_parser_take(p, ')') ? MR_OK
                                       : mr_text_parser_fail_at(p, p->at, "'+' or ')' is expected");
}

/* A view, or a recipe of views. */
static mr_status parse_view(struct mr_text_parser *p)
{
    struct mr_text_item item = {.place = p->at};
    bool is_view = starts_view(p);
    mr_status status = mr_text_parser_read_name(p, item.name);
    if (status != MR_OK)
        return status;
    const struct mr_transform_recipe *recipe = mr_transform_recipe_find(item.name);
    if (!is_view && recipe && strncmp(recipe->text, "view(", 5) == 0)
        return add_recipe(p, &item, recipe);
    if (!is_view || !mr_text_parser_take(p, '('))
        return mr_text_parser_fail_at(p, item.place, "view(NAME,TRANSFORM) is expected");
    status = parse_view_arguments(p);
    if (status == MR_OK && !mr_text_parser_take(p, ')'))
        status = mr_text_parser_fail_at(p, p->at, "'+', or ')' after the view, is expected");
    return status;
}

/* A whole transform: views, or items joined by '+'. */
static mr_status parse_whole(struct mr_text_parser *p)
{
    uint32_t n;
    mr_text_parser_skip_blanks(p);
    mr_status status = starts_view(p) ? parse_view(p) : parse_chain(p, &n);
    while (status == MR_OK && p->transform->view[0] && mr_text_parser_take(p, '|'))
        status = parse_view(p);
    return status;
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
        status = mr_text_args_take_probability(p, item, &p->transform->ops[at].p);
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
        status = add_place(p, item, mr_text_items[which].add(p, item));
    return status == MR_OK ? mr_text_parser_refuse_unused(p, item, "") : status;
}

/* Take the sizes in the text, or the recipe's own. */
static mr_status take_recipe_sizes(struct mr_text_parser *p, struct mr_text_item *item,
                                   const struct mr_transform_recipe *recipe, uint32_t *height,
                                   uint32_t *width, uint32_t *resized)
{
    *height = *width = recipe->size;
    *resized = recipe->resized;
    if (item->n_args == 0 || recipe->size == 0)
        return MR_OK;
    const char *place = item->args[0].place;
    bool one;
    mr_status status = mr_text_args_take_size(p, item, "size", height, width, &one);
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
    uint32_t height, width, resized;
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
    return parse_whole(&inner);
}

static mr_status parse_item(struct mr_text_parser *p)
{
    struct mr_text_item item = {.place = p->at};
    mr_status status = mr_text_parser_read_name(p, item.name);
    if (status != MR_OK)
        return status;
    if ((p->takes_views && p->transform->view[0]) || mr_word_is("view", item.name))
        return refuse_view(p, item.place);
    if (mr_word_is("shared", item.name) || mr_word_is("inside", item.name))
        return add_drawn(p, &item, mr_word_is("shared", item.name));
    size_t plain = 0;
    uint32_t image_op = 0;
    while (plain < mr_text_item_count && !mr_word_is(mr_text_items[plain].name, item.name))
        plain++;
    while (image_op < mr_image_op_count && !mr_word_is(mr_image_ops[image_op].name, item.name))
        image_op++;
    if (image_op < mr_image_op_count && (p->inside || plain == mr_text_item_count))
        return add_image_op(p, &item, image_op);
    if (plain < mr_text_item_count)
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
    mr_status status = parse_whole(p);
    if (status != MR_OK || *p->at == '\0')
        return status;
    const char *place = p->at;
    if (*place == '+')
        return refuse_view(p, place);
    if (*place == '|')
        return mr_text_parser_fail_at(p, place, "'|' joins views: view(NAME,TRANSFORM)");
    bool is_comma = mr_text_parser_take(p, ','),
         is_item = is_comma && mr_text_parser_is_name(*p->at);
    if (is_item && (status = parse_item(p)) != MR_OK)
        return status; /* a wrong name is reported before the wrong joint */
    return mr_text_parser_fail_at(p, place,
                                  is_item    ? "'+' joins operations, not ','"
                                  : is_comma ? "':' joins sizes and '+' joins operations, not ','"
                                             : "'+' or the end is expected");
}

/* Parse into the transform, which is incomplete after a failure. */
static mr_status parse_into(mr_transform *transform, const char *text, bool takes_views,
                            mr_error *error)
{
    if (!text)
        return mr_error_set(error, MR_ERR_INVALID, "the transform's text is NULL");
    locale_t c_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    if (!c_locale)
        return mr_error_memory(error, sizeof(void *));
    struct mr_text_parser p = {.text = text,
                               .at = text,
                               .transform = transform,
                               .error = error,
                               .takes_views = takes_views};
    locale_t before = uselocale(c_locale);
    mr_status status = parse_items(&p);
    uselocale(before);
    freelocale(c_locale);
    return status;
}

mr_status mr_transform_append(mr_transform *transform, const char *text, mr_error *error)
{
    if (!transform)
        return mr_error_set(error, MR_ERR_INVALID, "transform is NULL");
    /* first to copies of all views, so that nothing changes if one fails */
    for (mr_transform *view = transform; view; view = view->next) {
        mr_transform longer = *view;
        mr_status status = parse_into(&longer, text, false, error);
        if (status != MR_OK)
            return status;
    }
    for (mr_transform *view = transform; view; view = view->next)
        parse_into(view, text, false, error);
    return MR_OK;
}

/* Only a view that is alone may be inside one that is not in the text. */
static mr_status check_insides(const mr_transform *transform, mr_error *error)
{
    if (!transform->next)
        return MR_OK;
    for (const mr_transform *view = transform; view; view = view->next) {
        const mr_transform *other = transform;
        while (other && strcmp(other->view, view->inside) != 0)
            other = other->next;
        if (view->n_inside > 0 && !other)
            return mr_error_set(error, MR_ERR_INVALID,
                                "view '%s' is inside '%s', which is no view of the text",
                                view->view, view->inside);
    }
    return MR_OK;
}

mr_status mr_transform_parse(const char *text, mr_transform **transform_out, mr_error *error)
{
    if (!transform_out)
        return mr_error_set(error, MR_ERR_INVALID, "transform_out is NULL");
    *transform_out = NULL;
    mr_transform *transform;
    mr_status status = mr_transform_create(&transform, error);
    if (status == MR_OK)
        status = parse_into(transform, text, true, error);
    if (status == MR_OK)
        status = check_insides(transform, error);
    if (status == MR_OK)
        *transform_out = transform;
    else
        mr_transform_destroy(transform);
    return status;
}
