/* SPDX-License-Identifier: Apache-2.0 */
/* A file of tokens while it is opened: on this machine or at a URL. */
#ifndef DATASET_TOKENS_TOKEN_SOURCE_H
#define DATASET_TOKENS_TOKEN_SOURCE_H

#include "base/error.h"
#include "dataset/extent.h"

struct mr_object;

struct mr_token_source {
    char shown[MR_CATALOG_PATH]; /* its name in messages: without the query of a URL */
    int fd;                      /* -1: it is at a URL */
    struct mr_object *object;
    uint64_t size;
};

/*
 * path: relative to the folder root, or a URL. version: of the object at the URL; NULL: any.
 * MR_ERR_IO: the file cannot be opened.
 */
mr_status mr_token_source_open(int root, const char *path, const struct mr_object_version *version,
                               struct mr_token_source *source_out, mr_error *error);
/* Read exactly len bytes, which are within the size. MR_ERR_IO. */
mr_status mr_token_source_read(const struct mr_token_source *source, uint64_t offset, void *out,
                               size_t len, mr_error *error);
void mr_token_source_close(struct mr_token_source *source);

#endif
