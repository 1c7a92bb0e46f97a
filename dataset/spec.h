/* SPDX-License-Identifier: Apache-2.0 */
/* The text that names a dataset: KIND:PATH,...?key=value&key=value, with %XX for any byte. */
#ifndef DATASET_SPEC_H
#define DATASET_SPEC_H

#include "base/error.h"

struct mr_kind;

struct mr_spec_key {
    char *key;
    char *value;
    bool taken;
};

struct mr_spec {
    const struct mr_kind *kind;
    char **paths; /* decoded, unless the kind has raw_paths; one unless it has many_paths */
    size_t n_paths;
    struct mr_spec_key *keys;
    size_t n_keys;
    char *text;                  /* storage of all of the above */
    const struct mr_kind *kinds; /* where the text has no kind: those that there are, for
                                    messages */
};

/*
 * Parse. kinds: the table ends with a name that is NULL. A text that starts with none of the names,
 * in any case, and a colon is a directory, of the table's first kind.
 */
mr_status mr_spec_parse(const char *text, const struct mr_kind *kinds, struct mr_spec *spec_out,
                        mr_error *error);
void mr_spec_fini(struct mr_spec *spec);

/* Undo %XX in place. MR_ERR_INVALID names what is no escape. */
mr_status mr_spec_decode(char *text, mr_error *error);

/* Value of a key (in any case), which is thereby known; NULL where it is not given. */
const char *mr_spec_take(struct mr_spec *spec, const char *key);
/*
 * As above for a whole number between lo and hi; *value_out keeps its value where the key is not
 * given.
 */
mr_status mr_spec_take_int(struct mr_spec *spec, const char *key, int64_t lo, int64_t hi,
                           int64_t *value_out, mr_error *error);
/* Refuse keys that nobody took. known: their names with ", " between, for the message. */
mr_status mr_spec_finish(const struct mr_spec *spec, const char *known, mr_error *error);
/*
 * The folder of a SPEC does not exist. What stands before a colon was perhaps meant as a kind.
 * Returns MR_ERR_IO.
 */
mr_status mr_spec_no_folder(const struct mr_spec *spec, int os_error, mr_error *error);

#endif
