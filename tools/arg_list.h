/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a command, one line each: name, help, and where the value goes. argp's own list is
 * made of it, and the parser looks values up in it.
 */
#ifndef TOOLS_ARG_LIST_H
#define TOOLS_ARG_LIST_H

#include <argp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "tools/arg_value.h"

enum mr_arg_type {
    MR_ARG_TYPE_CALL,
    MR_ARG_TYPE_SWITCH,
    MR_ARG_TYPE_TEXT,
    MR_ARG_TYPE_PATH,
    MR_ARG_TYPE_U32,
    MR_ARG_TYPE_U64,
    MR_ARG_TYPE_BYTES,
    MR_ARG_TYPE_CHOICE,
    MR_ARG_TYPE_FIELD
};

struct mr_arg {
    const char *name;      /* NULL: help is a heading */
    const char *value;     /* how the help calls it; NULL: a switch */
    const char *help;      /* NULL ends a list */
    int group;             /* of a heading */
    enum mr_arg_type type; /* by one of the macros below */
    size_t offset;         /* in the parser's input */
    uint64_t lo, hi;
    const struct mr_arg_choice *choices;
    const char *word; /* a path's extension, or an option of the loader */
    void (*call)(struct argp_state *state, const char *value);
};

/* The place of a member, which must have this type. */
#define MR_ARG_AT(type_, c_type, input, member)                                                    \
    .type = (type_), .offset = _Generic(&((input *)NULL)->member, c_type *                         \
                                        : offsetof(input, member))
/* A bool that becomes true; a text as it is; a path with this extension. */
#define MR_ARG_SWITCH(input, member) MR_ARG_AT(MR_ARG_TYPE_SWITCH, bool, input, member)
#define MR_ARG_TEXT(input, member) MR_ARG_AT(MR_ARG_TYPE_TEXT, const char *, input, member)
#define MR_ARG_PATH(input, member, extension)                                                      \
    MR_ARG_AT(MR_ARG_TYPE_PATH, const char *, input, member), .word = (extension)
/* A whole number from lo_ to hi_; a number of bytes of at least lo_. */
#define MR_ARG_U32(input, member, lo_, hi_)                                                        \
    MR_ARG_AT(MR_ARG_TYPE_U32, uint32_t, input, member), .lo = (lo_), .hi = (hi_)
#define MR_ARG_U64(input, member, lo_, hi_)                                                        \
    MR_ARG_AT(MR_ARG_TYPE_U64, uint64_t, input, member), .lo = (lo_), .hi = (hi_)
#define MR_ARG_BYTES(input, member, lo_)                                                           \
    MR_ARG_AT(MR_ARG_TYPE_BYTES, uint64_t, input, member), .lo = (lo_)
/* One of these names, for an enum without negative values. */
#define MR_ARG_CHOICE(input, member, choices_)                                                     \
    MR_ARG_AT(MR_ARG_TYPE_CHOICE, unsigned, input, member), .choices = (choices_)
/* An option of the loader; its mr_loader_options are at this offset of the input. */
#define MR_ARG_FIELD(offset_, field) .type = MR_ARG_TYPE_FIELD, .offset = (offset_), .word = #field
/* Anything else. */
#define MR_ARG_CALL(function) .type = MR_ARG_TYPE_CALL, .call = (function)

/* argp's list, with its end. Returns options_out. */
struct argp_option *mr_arg_list_options(const struct mr_arg *list, struct argp_option *options_out);
/* For an argp's parser: take the value if key is of this list, otherwise ARGP_ERR_UNKNOWN. */
error_t mr_arg_list_parse(struct argp_state *state, const struct mr_arg *list, int key,
                          const char *value);
/* An argument that is no option: *first, then *second, which may be NULL for none. */
void mr_arg_list_take(struct argp_state *state, const char **first, const char **second,
                      const char *value);

#endif
