/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that gets its name when it is complete, so an incomplete file is never visible. If the
 * file system allows it, the file has no name until then, and a killed process leaves nothing;
 * otherwise it has a temporary name in the same folder. Functions that return bool print a message
 * before they return false.
 */
#ifndef TOOLS_TEMPORARY_FILE_H
#define TOOLS_TEMPORARY_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct mr_temporary_file {
    char *path;
    char *temporary; /* NULL: the file has no name yet, or its final one */
    char *old; /* second name of the previous file, for mr_temporary_file_rename_all() to restore it
                */
    bool placed; /* it has its final name */
    int fd;
};

/*
 * Make the temporary file and remove it, to check that mr_temporary_file_open() will probably work
 * later.
 */
bool mr_temporary_file_check(const char *path);
/*
 * Make the temporary file. A path that exists and is not a regular file is an error. On failure
 * there is nothing to close.
 */
bool mr_temporary_file_open(struct mr_temporary_file *file, const char *path);
/* The same, with a name in file->temporary, so that another program can write the file. */
bool mr_temporary_file_open_named(struct mr_temporary_file *file, const char *path);
bool mr_temporary_file_write(struct mr_temporary_file *file, const void *bytes, size_t len_bytes);
/* Overwrite the start of the file; later writes continue at the end. */
bool mr_temporary_file_rewrite(struct mr_temporary_file *file, const void *bytes, size_t len_bytes);
/* Make the contents durable; the file does not get its name yet. */
bool mr_temporary_file_sync(struct mr_temporary_file *file);
/* Give the file its name, and sync the folder. */
bool mr_temporary_file_rename(struct mr_temporary_file *file);
/*
 * Give all files their names or, if one fails, none: the previous files are restored. Until all
 * have their names, the previous files have second names, PATH.PID.old, which remain if the process
 * is killed in this moment.
 */
bool mr_temporary_file_rename_all(struct mr_temporary_file *const all[], size_t n);
/* Close; a file that did not get its name is removed. Does nothing for a zeroed struct. */
void mr_temporary_file_close(struct mr_temporary_file *file);
/* Write a whole file at once. */
bool mr_temporary_file_store(const char *path, const void *bytes, size_t len_bytes);

#endif
