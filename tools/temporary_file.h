/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written under a temporary name in the same directory and renamed when it is complete, so that nobody
 * sees half of it. Functions that return bool have printed a message when they return false.
 */
#ifndef TOOLS_TEMPORARY_FILE_H
#define TOOLS_TEMPORARY_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct mr_temporary_file {
    char *path;
    char *temporary; /* NULL once renamed or removed */
    char *old;       /* what stood at path, while mr_temporary_file_rename_all() may have to restore it */
    int fd;
};

/* Check by making the temporary file and removing it, so that mr_temporary_file_open() will probably work later. */
bool mr_temporary_file_check(const char *path);
/* Make the temporary file. A path that exists and is not a regular file is refused. On failure there is nothing to
 * close. */
bool mr_temporary_file_open(struct mr_temporary_file *file, const char *path);
bool mr_temporary_file_write(struct mr_temporary_file *file, const void *bytes, size_t len_bytes);
/* Overwrite the start of the file; later writes continue at the end. */
bool mr_temporary_file_rewrite(struct mr_temporary_file *file, const void *bytes, size_t len_bytes);
/* Make the contents durable; the file keeps its temporary name. */
bool mr_temporary_file_sync(struct mr_temporary_file *file);
/* Give it its name. */
bool mr_temporary_file_rename(struct mr_temporary_file *file);
/* Give all of them their names or, where one cannot have it, none: files that stood there are as before. */
bool mr_temporary_file_rename_all(struct mr_temporary_file *const all[], size_t n);
/* Close; a file that was not renamed is removed. Nothing for a zeroed struct. */
void mr_temporary_file_close(struct mr_temporary_file *file);
/* Write a whole file at once. */
bool mr_temporary_file_store(const char *path, const void *bytes, size_t len_bytes);

#endif
