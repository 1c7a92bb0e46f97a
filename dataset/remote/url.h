/* SPDX-License-Identifier: Apache-2.0 */
/*
 * URLs as names of files: those of HTTP servers and those of stores. The text of a URL may contain
 * any byte: what a request may not contain is escaped when the request is made.
 */
#ifndef DATASET_REMOTE_URL_H
#define DATASET_REMOTE_URL_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* True if the text begins with http://, https://, s3://, gs:// or hf://, in any case. */
bool mr_url_is(const char *text);

/*
 * MR_ERR_INVALID, with a message that names the URL without its query: there is no host, a user or
 * password before it, or a fragment; or a store's bucket or repository is missing.
 */
mr_status mr_url_check(const char *url, mr_error *error);

/*
 * Resolve a name against the URL of a folder, which ends with a slash: a name that is a URL stays,
 * one that begins with a slash is at the folder's host (or in its bucket or repository), any other
 * is below the folder. Returns 0 or -ENAMETOOLONG.
 */
int mr_url_join(const char *folder, const char *name, char *url_out, size_t size);

/*
 * Write the URL of a server as a request may contain it: spaces, control characters, bytes above
 * 126 and any of
 * "<>\^`{|} become %XX, and so does a % that does not begin an escape. Returns 0 or -ENAMETOOLONG.
 */
int mr_url_encode(const char *url, char *out, size_t size);

/* False for a path, and for the URL of a store, where a ? is a byte of a key. */
bool mr_url_has_query(const char *url);

/* The length of a URL without the query of a server's, which may contain a signature. */
size_t mr_url_shown_len(const char *url);
/* The same of a path that may be a URL. Of any other path it is the length. */
int mr_url_path_len(const char *path);
/*
 * The length of what is before the path of a URL: the scheme with the host, the bucket or the
 * repository. A slash begins the path, if there is one.
 */
size_t mr_url_host_len(const char *url);
/* The length of the URL of a file's folder, with its slash if it has one. Not a URL: 0. */
size_t mr_url_folder_len(const char *path);

#endif
