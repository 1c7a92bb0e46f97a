/* SPDX-License-Identifier: Apache-2.0 */
/* The text that names a dataset: KIND:PATH,...?key=value&key=value. %XX stands for any byte. */
#ifndef DATASET_SPEC_H
#define DATASET_SPEC_H

#include "base/error.h"

struct mr_kind;

struct mr_spec_key {
    char *key;
    char *value; /* its escapes are checked; mr_spec_take() undoes them */
    bool taken;
};

struct mr_spec {
    const struct mr_kind *kind;
    char **paths; /* decoded unless the kind has raw_paths; one path unless it has many_paths */
    size_t n_paths;
    struct mr_spec_key *keys;
    size_t n_keys;
    char *text;                  /* holds all strings above */
    const struct mr_kind *table; /* the known kinds */
    const struct mr_kind *kinds; /* the same, for messages; NULL if the text names one */
};

/*
 * Parse a SPEC. The table kinds ends with a NULL name. A text that does not start with one of the
 * names (in any case) and a colon is a directory, of the first kind in the table.
 */
mr_status mr_spec_parse(const char *text, const struct mr_kind *kinds, struct mr_spec *spec_out,
                        mr_error *error);
void mr_spec_fini(struct mr_spec *spec);

/* Undo %XX in place. MR_ERR_INVALID quotes the malformed escape. */
mr_status mr_spec_decode(char *text, mr_error *error);

/* The value of a key (in any case), or NULL. mr_spec_finish() accepts a key that was taken. */
const char *mr_spec_take(struct mr_spec *spec, const char *key);
/*
 * The same for a value that is a list, once for each key. Its escapes are well-formed but not yet
 * undone: split it in place, then call mr_spec_decode() for each item.
 */
char *mr_spec_take_list(struct mr_spec *spec, const char *key);
/*
 * The same for a whole number between lo and hi. *value_out does not change if the key is absent.
 */
mr_status mr_spec_take_int(struct mr_spec *spec, const char *key, int64_t lo, int64_t hi,
                           int64_t *value_out, mr_error *error);
/*
 * Refuse keys that were not taken. known: the names of all keys, separated by ", ", for the
 * message.
 */
mr_status mr_spec_finish(const struct mr_spec *spec, const char *known, mr_error *error);
/*
 * The error for a folder that does not exist. If a colon follows a word in the path, the message
 * also lists the kinds: the word may be a misspelt kind. Returns MR_ERR_IO.
 */
mr_status mr_spec_no_folder(const struct mr_spec *spec, int os_error, mr_error *error);

#endif
