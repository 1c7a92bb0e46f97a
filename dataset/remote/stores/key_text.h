/* SPDX-License-Identifier: Apache-2.0 */
/* Keys, and the texts that have them: small files, JSON, XML. */
#ifndef DATASET_REMOTE_STORES_KEY_TEXT_H
#define DATASET_REMOTE_STORES_KEY_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "dataset/remote/stores/settings.h"

enum { MR_KEY_TEXT = 16384 }; /* the longest text, with its NUL */

/* Overwrite it when it is no longer needed. */
struct mr_key_set {
    char id[MR_STORE_KEY];
    char secret[MR_STORE_KEY];
    char token[MR_STORE_TOKEN]; /* "": permanent keys */
    int64_t end_s;              /* since 1970; 0: not known */
};

/*
 * Read a file of at most size - 1 bytes as a text. MR_ERR_IO with its name. Without is_needed, a
 * file that is not there is "".
 */
mr_status mr_key_text_read(const char *path, bool is_needed, char *out, size_t size,
                           mr_error *error);

/*
 * Take the keys from an answer: {"AccessKeyId": ..., "SecretAccessKey": ..., "SessionToken" or
 * "Token": ..., "Expiration": "2026-11-28T12:00:00Z"}. No error has a part of the text but a word
 * in "Code". MR_ERR_DAMAGED; MR_ERR_UNSUPPORTED: the build has no JSON parser.
 */
mr_status mr_key_json_parse(const char *json, struct mr_key_set *out, mr_error *error);
/* The same of <AccessKeyId> and so on, as AWS's STS sends it. Changes the text. */
mr_status mr_key_xml_parse(char *xml, struct mr_key_set *out, mr_error *error);

/*
 * For both: check and take the texts, which are NULL if missing. code: what the server says it is
 * otherwise.
 */
struct mr_key_texts {
    const char *id, *secret, *token, *end, *code;
};
mr_status mr_key_text_take(const struct mr_key_texts *texts, struct mr_key_set *out,
                           mr_error *error);

#endif
