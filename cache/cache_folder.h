/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a cache: whether it is one, which segments it holds, and how to open them. */
#ifndef CACHE_CACHE_FOLDER_H
#define CACHE_CACHE_FOLDER_H

#include "base/error.h"

/* A segment's descriptors. */
struct mr_cache_files {
    int log;
    int data;
};

/* Numbers of segments; release with free(ids), after a failure too. */
struct mr_cache_ids {
    uint64_t *ids;
    size_t n;
};

/*
 * Open the directory. make: a missing or empty directory becomes a cache.
 *
 * MR_ERR_INVALID where it is not a cache (not a directory; a directory that holds other files never
 * becomes one), MR_ERR_UNSUPPORTED where it is one of another format, MR_ERR_IO. *fd_out is the
 * caller's.
 */
mr_status mr_cache_folder_open(const char *path, bool make, int *fd_out, mr_error *error);

/*
 * Is a negative errno not the directory's fault, such as too many open files? Then another attempt
 * may succeed.
 */
bool mr_cache_folder_is_passing(int rc);

/*
 * Segments by the names of their files, each once, in the order of their numbers; either file may
 * be missing. Returns 0 or a negative errno.
 */
int mr_cache_folder_list(int folder, struct mr_cache_ids *ids_out);

#define MR_CACHE_NAME 32
void mr_cache_folder_name(uint64_t id, const char *ending, char name_out[MR_CACHE_NAME]);
#define MR_CACHE_LOG ".log"
#define MR_CACHE_DATA ".data"

/*
 * Open a segment: two regular files, whose log has a right head. writing: for appending too.
 * Returns 0, or a negative errno: -ENOENT where it is gone, -EINVAL where it is not a segment.
 */
int mr_cache_folder_open_segment(int folder, uint64_t id, bool writing,
                                 struct mr_cache_files *files_out);
void mr_cache_folder_close_segment(struct mr_cache_files *files);

/* Bytes of both files; 0 where they are gone. log_bytes_out may be NULL. */
uint64_t mr_cache_folder_segment_bytes(int folder, uint64_t id, uint64_t *log_bytes_out);

/* Returns 0 or a negative errno; what is gone already is no error. */
int mr_cache_folder_remove_segment(int folder, uint64_t id);

#endif
