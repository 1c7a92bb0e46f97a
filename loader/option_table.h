/* SPDX-License-Identifier: Apache-2.0 */
/* The options of a loader as one table: names, types, limits, defaults, and the words of enums. */
#ifndef LOADER_OPTION_TABLE_H
#define LOADER_OPTION_TABLE_H

#include "base/error.h"

#include <millrace/loader.h>

enum mr_option_type {
    MR_OPTION_BOOL,
    MR_OPTION_I32,
    MR_OPTION_U32, /* enums too */
    MR_OPTION_U64,
    MR_OPTION_TEXT,
    MR_OPTION_LIST /* an array or its length; it has no text form */
};

struct mr_option_word {
    const char *word; /* NULL ends a list */
    uint32_t value;
};

/* Another library's name for one of these words. */
struct mr_option_alias {
    const char *theirs; /* NULL ends a list */
    const char *ours;
};

struct mr_option {
    const char *name; /* of the field of mr_loader_options */
    size_t offset;
    enum mr_option_type type;
    bool is_bytes;     /* K, M, G or T may follow the number */
    uint64_t lo, hi;   /* limits of a number; hi 0: words only */
    uint64_t standard; /* default of a number; 0: zero, or decided later */
    /* all values of an enum, or words accepted in place of a number; NULL: none */
    const struct mr_option_word *words;
    uint32_t n_named;                      /* how many words an error lists; 0: all */
    const struct mr_option_alias *aliases; /* words of other libraries; NULL: none */
};

enum { MR_OPTION_MAX_SLOTS = 1024 };
/* All options, in the order of mr_loader_options without struct_size. */
extern const struct mr_option mr_option_table[];
extern const size_t mr_option_table_n;

/* The option of this name. NULL: MR_ERR_INVALID, and the error suggests a similar name. */
const struct mr_option *mr_option_table_find(const char *name, mr_error *error);

/*
 * Check each option against its limits, and fill in the defaults that the table has.
 * MR_ERR_INVALID.
 */
mr_status mr_option_table_resolve(mr_loader_options *options, mr_error *error);

#endif
