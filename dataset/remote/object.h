/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An object at a URL as the program's process reads it, one call after the other: for opening a
 * dataset and describing its samples.
 */
#ifndef DATASET_REMOTE_OBJECT_H
#define DATASET_REMOTE_OBJECT_H

#include <stdbool.h>
#include <sys/stat.h>

#include "base/error.h"
#include "dataset/extent.h"

struct mr_object;

/*
 * Find the object and its version, by a request for its first byte. version: the one that it must
 * have, which needs no request; NULL: any. MR_ERR_IO with the URL and what is wrong (os_error as of
 * mr_answer_judge()); MR_ERR_UNSUPPORTED: there is no libcurl.
 */
mr_status mr_object_open(const char *url, const struct mr_object_version *version,
                         struct mr_object **object_out, mr_error *error);
/* NULL does nothing. */
void mr_object_close(struct mr_object *object);

const struct mr_object_version *mr_object_version(const struct mr_object *object);
const char *mr_object_url(const struct mr_object *object);
/*
 * Find the versions of n objects, several at a time. paths: NUL-terminated, one after the other;
 * the version of one that is not a URL is zeros. Errors as above, of one of them.
 */
mr_status mr_object_versions(const char *paths, size_t n, struct mr_object_version *versions_out,
                             mr_error *error);
/*
 * The version as a file's size and time, for what is kept about files. False: versions cannot be
 * told apart (object_stamp.h).
 */
bool mr_object_stat(const struct mr_object *object, struct stat *st_out);

/* Read exactly len bytes of this version, within the object. MR_ERR_IO as above. */
mr_status mr_object_read(struct mr_object *object, uint64_t offset, void *out, size_t len,
                         mr_error *error);
/* Read the whole object into a new memfd with this name. Ownership: the caller closes *fd_out. */
mr_status mr_object_load(struct mr_object *object, const char *name, int *fd_out, mr_error *error);

#endif
