/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The options of a command, one line each: name, help, and where the value is stored. argp's list
 * is made from it, and the parser stores values by it.
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
    const char *name;      /* NULL: this is a heading */
    const char *value;     /* its name in the help; NULL: a switch */
    const char *help;      /* NULL ends a list */
    int group;             /* argp's group, for a heading */
    enum mr_arg_type type; /* set by one of the macros below */
    size_t offset;         /* of the value in the parser's input */
    uint64_t lo, hi;
    const struct mr_arg_choice *choices;
    const char *word; /* a path's extension, or an option of the loader */
    void (*call)(struct argp_state *state, const char *value);
};

/* The type and offset of a member; the compiler checks that the member has c_type. */
#define MR_ARG_AT(type_, c_type, input, member)                                                    \
    .type = (type_), .offset = _Generic(&((input *)NULL)->member, c_type *                         \
                                        : offsetof(input, member))
/* A bool that is set to true; an unchecked text; a path with this extension. */
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
/* A loader option; the mr_loader_options are at this offset of the input. */
#define MR_ARG_FIELD(offset_, field) .type = MR_ARG_TYPE_FIELD, .offset = (offset_), .word = #field
/* Anything else: this function parses the value. */
#define MR_ARG_CALL(function) .type = MR_ARG_TYPE_CALL, .call = (function)

/* Fill in argp's list, including its end. Returns options_out. */
struct argp_option *mr_arg_list_options(const struct mr_arg *list, struct argp_option *options_out);
/* For an argp parser: store the value if key is in this list; otherwise return ARGP_ERR_UNKNOWN. */
error_t mr_arg_list_parse(struct argp_state *state, const struct mr_arg *list, int key,
                          const char *value);
/* Store an argument that is not an option in *first, then in *second. second may be NULL. */
void mr_arg_list_take(struct argp_state *state, const char **first, const char **second,
                      const char *value);

#endif
