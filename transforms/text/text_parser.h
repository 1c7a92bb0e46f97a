/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the text of a transform piece by piece: names, numbers, arguments. text_items.c knows what
 * they mean.
 */
#ifndef TRANSFORMS_TEXT_TEXT_PARSER_H
#define TRANSFORMS_TEXT_TEXT_PARSER_H

#include "transforms/transform.h"

enum {
    MR_TEXT_MAX_NAME = 24,
    MR_TEXT_MAX_VALUES = MR_IMAGE_OP_MAX_ARGS,
    MR_TEXT_MAX_ARGS = MR_IMAGE_OP_MAX_PARAMS
};

/*
 * One argument: `name=1:2`, `name=word`, `name="string"`, `1:2` or `"string"` (no name), or `name`
 * (no values).
 */
struct mr_text_arg {
    char name[MR_TEXT_MAX_NAME];
    char word[MR_TEXT_MAX_NAME]; /* "" if values are given instead */
    double values[MR_TEXT_MAX_VALUES];
    uint32_t n_values;
    const char *string; /* after the quote; NULL if there is none */
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
    const char *inside;           /* the structure's name; NULL outside structures */
    bool is_drawn;                /* in shared(...) or inside(...) */
    bool takes_views;             /* the text is a whole transform, so it may have views */
    struct mr_text_parser *outer; /* of outer_item, which this text replaces; or NULL */
    const struct mr_text_item *outer_item;
};

/*
 * MR_ERR_INVALID. The message has the text, the number of the character at place, and words; the
 * text is always the caller's own.
 */
mr_status mr_text_parser_fail_at(struct mr_text_parser *p, const char *place, const char *words);

void mr_text_parser_skip_blanks(struct mr_text_parser *p);
/* True if c comes next; then c and the blanks around it are skipped. */
bool mr_text_parser_take(struct mr_text_parser *p, char c);
/* Can a name start with c? */
bool mr_text_parser_is_name(char c);
/* Read the digits of a whole number from lo to hi. */
mr_status mr_text_parser_read_whole(struct mr_text_parser *p, uint32_t lo, uint32_t hi,
                                    uint32_t *out);
mr_status mr_text_parser_read_name(struct mr_text_parser *p, char name_out[MR_TEXT_MAX_NAME]);
/* Read an argument: name, values or both. */
mr_status mr_text_parser_read_arg(struct mr_text_parser *p, struct mr_text_item *item);
/* Read what follows an item's name, up to the ')'. */
mr_status mr_text_parser_read_args(struct mr_text_parser *p, struct mr_text_item *item);

/* The argument of that name ("": the one without a name), marked as used; NULL if there is none. */
struct mr_text_arg *mr_text_parser_take_arg(struct mr_text_item *item, const char *name);
/* *flag_out: the word is among the arguments, without a value. */
mr_status mr_text_parser_take_flag(struct mr_text_parser *p, struct mr_text_item *item,
                                   const char *name, bool *flag_out);
/*
 * MR_ERR_INVALID with a hint: `start`, the nearest of n names, and all of them; if there are many,
 * only the nearest.
 */
mr_status mr_text_parser_refuse_word(struct mr_text_parser *p, const char *place, const char *start,
                                     const char *word, const char *const *names, size_t n);
/*
 * Take one of n words, as `interp=bicubic` (arg) or alone (arg is NULL). *place_out is its index,
 * unchanged if no word is given. refusal: the start of an error, before the list of words.
 */
mr_status mr_text_parser_take_choice(struct mr_text_parser *p, struct mr_text_item *item,
                                     const struct mr_text_arg *arg, const char *const *words,
                                     uint32_t n, const char *refusal, uint32_t *place_out);
/* MR_ERR_INVALID if an argument has not been taken. known: the end of the message, or "". */
mr_status mr_text_parser_refuse_unused(struct mr_text_parser *p, const struct mr_text_item *item,
                                       const char *known);

#endif
