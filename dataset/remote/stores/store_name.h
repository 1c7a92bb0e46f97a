/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The parts of s3://BUCKET/KEY, gs://BUCKET/KEY and hf://datasets/OWNER/NAME@REVISION/PATH. They
 * are no URLs of a server: every byte of a key is itself, also ?, # and %.
 */
#ifndef DATASET_REMOTE_STORES_STORE_NAME_H
#define DATASET_REMOTE_STORES_STORE_NAME_H

#include <stdbool.h>
#include <stddef.h>

enum mr_store { MR_STORE_NONE, MR_STORE_S3, MR_STORE_GS, MR_STORE_HF };

/* Parts of the text, which are not ended by a NUL. */
struct mr_store_name {
    enum mr_store store;
    const char *bucket; /* of hf://: datasets/OWNER/NAME, spaces/OWNER/NAME or OWNER/NAME */
    size_t bucket_len;
    const char *revision; /* of hf://, after the @ */
    size_t revision_len;  /* 0: none */
    const char *key;      /* after the slash, to the end of the text; "": none */
};

/* The store that a text begins with, in any case; MR_STORE_NONE: another text. */
enum mr_store mr_store_name_find(const char *text);

/* Parse a text of a store. False: the bucket is missing, or has a byte that no bucket has. */
bool mr_store_name_parse(const char *text, struct mr_store_name *name_out);

/* "s3://BUCKET/KEY" and the like: the form that a text of this store must have. */
const char *mr_store_name_form(enum mr_store store);

#endif
