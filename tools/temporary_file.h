/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that gets its name when it is complete, so that half of it is never seen. Where the file
 * system allows it, the file has no name until then, and a killed process leaves nothing; elsewhere
 * it has a temporary name beside its own. Functions that return bool have printed a message when
 * they return false.
 */
#ifndef TOOLS_TEMPORARY_FILE_H
#define TOOLS_TEMPORARY_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct mr_temporary_file {
    char *path;
    char *temporary; /* NULL: the file has no name yet, or its own */
    char *old;       /* what stood at path, while mr_temporary_file_rename_all() may have to
                        restore it */
    bool placed;     /* it has its own name */
    int fd;
};

/*
 * Check by making the temporary file and removing it, so that mr_temporary_file_open() will
 * probably work later.
 */
bool mr_temporary_file_check(const char *path);
/*
 * Make the temporary file. A path that exists and is not a regular file is refused. On failure
 * there is nothing to close.
 */
bool mr_temporary_file_open(struct mr_temporary_file *file, const char *path);
/* The same with a name in file->temporary, for another program that writes it. */
bool mr_temporary_file_open_named(struct mr_temporary_file *file, const char *path);
bool mr_temporary_file_write(struct mr_temporary_file *file, const void *bytes, size_t len_bytes);
/* Overwrite the start of the file; later writes continue at the end. */
bool mr_temporary_file_rewrite(struct mr_temporary_file *file, const void *bytes, size_t len_bytes);
/* Make the contents durable; the file does not get its name yet. */
bool mr_temporary_file_sync(struct mr_temporary_file *file);
/* Give it its name, durably where the file system can do that. */
bool mr_temporary_file_rename(struct mr_temporary_file *file);
/*
 * Give all of them their names or, where one cannot have it, none: files that stood there are as
 * before. Until all have their names, the older files have second ones, PATH.PID.old; a process
 * that is killed just then leaves these.
 */
bool mr_temporary_file_rename_all(struct mr_temporary_file *const all[], size_t n);
/* Close; a file that did not get its name is removed. Nothing for a zeroed struct. */
void mr_temporary_file_close(struct mr_temporary_file *file);
/* Write a whole file at once. */
bool mr_temporary_file_store(const char *path, const void *bytes, size_t len_bytes);

#endif
