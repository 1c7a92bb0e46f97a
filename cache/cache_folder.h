/* SPDX-License-Identifier: Apache-2.0 */
/* The directory of a cache: checks it, lists its segments and opens them. */
#ifndef CACHE_CACHE_FOLDER_H
#define CACHE_CACHE_FOLDER_H

#include "base/error.h"

/* A segment's descriptors. */
struct mr_cache_files {
    int log;
    int data;
};

/* Numbers of segments. Free ids, after a failure too. */
struct mr_cache_ids {
    uint64_t *ids;
    size_t n;
};

/*
 * Open the directory. make: a missing or empty directory becomes a cache.
 *
 * MR_ERR_INVALID if it is not a cache: not a directory, or a directory with other files, which
 * never becomes one. MR_ERR_UNSUPPORTED if it is a cache of another format. MR_ERR_IO. The caller
 * closes *fd_out.
 */
mr_status mr_cache_folder_open(const char *path, bool make, int *fd_out, mr_error *error);

/*
 * True if a negative errno is not the fault of the directory (for example too many open files), so
 * another attempt may succeed.
 */
bool mr_cache_folder_is_passing(int rc);

/*
 * List the segments by the names of their files, each once, sorted by number. One of the two files
 * may be missing. Returns 0 or a negative errno.
 */
int mr_cache_folder_list(int folder, struct mr_cache_ids *ids_out);

#define MR_CACHE_NAME 32
void mr_cache_folder_name(uint64_t id, const char *ending, char name_out[MR_CACHE_NAME]);
#define MR_CACHE_LOG ".log"
#define MR_CACHE_DATA ".data"

/*
 * Open a file of a segment for reading: a regular file, and if it is the log, one with a valid
 * head. Returns a descriptor or a negative errno: -ENOENT if it was removed, -EINVAL if it is not
 * such a file.
 */
int mr_cache_folder_open_file(int folder, uint64_t id, const char *ending);

/*
 * Open a segment: two regular files, the log with a valid head. writing: for appending too. Returns
 * 0 or a negative errno: -ENOENT if it was removed, -EINVAL if it is not a segment.
 */
int mr_cache_folder_open_segment(int folder, uint64_t id, bool writing,
                                 struct mr_cache_files *files_out);
void mr_cache_folder_close_segment(struct mr_cache_files *files);

/* Bytes of both files; a missing file counts 0. log_bytes_out may be NULL. */
uint64_t mr_cache_folder_segment_bytes(int folder, uint64_t id, uint64_t *log_bytes_out);

/* Remove both files. Returns 0 or a negative errno; a missing file is not an error. */
int mr_cache_folder_remove_segment(int folder, uint64_t id);

#endif
