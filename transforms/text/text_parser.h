/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text of a transform piece by piece: names, numbers, arguments. What they mean is
 * transform_text.c's.
 */
#ifndef TRANSFORMS_TEXT_TEXT_PARSER_H
#define TRANSFORMS_TEXT_TEXT_PARSER_H

#include "transforms/transform.h"

enum { MR_TEXT_MAX_NAME = 24, MR_TEXT_MAX_VALUES = 4, MR_TEXT_MAX_ARGS = MR_IMAGE_OP_MAX_PARAMS };

/*
 * One argument: `name=1:2`, `name=word`, `name="string"`, `1:2` or `"string"` (no name), or `name`
 * (no values).
 */
struct mr_text_arg {
    char name[MR_TEXT_MAX_NAME];
    char word[MR_TEXT_MAX_NAME]; /* "" where values stand in its place */
    double values[MR_TEXT_MAX_VALUES];
    uint32_t n_values;
    const char *string; /* behind the quote; NULL where there is none */
    size_t string_len;
    const char *place;
    bool used;
};

struct mr_text_item {
    char name[MR_TEXT_MAX_NAME];
    struct mr_text_arg args[MR_TEXT_MAX_ARGS];
    uint32_t n_args;
    const char *place;
};

struct mr_text_parser {
    const char *text;
    const char *at;
    mr_transform *transform;
    mr_error *error;
    const char *inside;           /* the structure's name; NULL outside of structures */
    struct mr_text_parser *outer; /* whose item this text stands for; NULL of the caller's own
                                     text */
    const struct mr_text_item *outer_item;
};

/*
 * MR_ERR_INVALID: the words behind the text and the number of the character at place; always the
 * caller's own text.
 */
mr_status mr_text_parser_fail_at(struct mr_text_parser *p, const char *place, const char *words);

void mr_text_parser_skip_blanks(struct mr_text_parser *p);
/* True where c comes next; it is then taken with the blanks around it. */
bool mr_text_parser_take(struct mr_text_parser *p, char c);
/* A name may start with c. */
bool mr_text_parser_is_name(char c);
mr_status mr_text_parser_read_name(struct mr_text_parser *p, char name_out[MR_TEXT_MAX_NAME]);
/* Name, values and all, where they come next. */
mr_status mr_text_parser_read_arg(struct mr_text_parser *p, struct mr_text_item *item);
/* What stands behind an item's name, up to the ')'. */
mr_status mr_text_parser_read_args(struct mr_text_parser *p, struct mr_text_item *item);

/*
 * The argument of that name ("" for the one without a name), marked as used; NULL where there is
 * none.
 */
struct mr_text_arg *mr_text_parser_take_arg(struct mr_text_item *item, const char *name);
/* True where the word stands alone among the arguments. */
mr_status mr_text_parser_take_flag(struct mr_text_parser *p, struct mr_text_item *item,
                                   const char *name, bool *flag_out);
/*
 * MR_ERR_INVALID with a hint: `start`, the nearest of n names, and all of them; of many names only
 * the nearest.
 */
mr_status mr_text_parser_refuse_word(struct mr_text_parser *p, const char *place, const char *start,
                                     const char *word, const char *const *names, size_t n);
/*
 * One of n words, as `interp=bicubic` (arg) or alone (arg is NULL). *place_out is its place, and
 * stays where there is none. refusal: what an error says ahead of the words that there are.
 */
mr_status mr_text_parser_take_choice(struct mr_text_parser *p, struct mr_text_item *item,
                                     const struct mr_text_arg *arg, const char *const *words,
                                     uint32_t n, const char *refusal, uint32_t *place_out);
/* MR_ERR_INVALID where an argument has not been taken. known: "", or what the words end with. */
mr_status mr_text_parser_refuse_unused(struct mr_text_parser *p, const struct mr_text_item *item,
                                       const char *known);

#endif
