/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A file that is written under a temporary name in the same directory and renamed when it is complete, so that nobody
 * sees half of it. Functions that return bool have printed a message when they return false.
 */
#ifndef TOOLS_TEMPORARY_FILE_H
#define TOOLS_TEMPORARY_FILE_H

#include <stdbool.h>
#include <stddef.h>

struct mr_aside {
    char *path;
    char *temporary; /* NULL once renamed or removed */
    int fd;
};

/* Check whether mr_aside_open() will probably work later; leaves nothing behind. False after a message. */
bool mr_aside_check(const char *path);
/* Make the temporary file. A path that exists and is not a regular file is refused. On failure there is nothing to
 * close. */
bool mr_aside_open(struct mr_aside *aside, const char *path);
bool mr_aside_write(struct mr_aside *aside, const void *bytes, size_t len_bytes);
/* Overwrite the start of the file; later writes continue at the end. */
bool mr_aside_rewrite(struct mr_aside *aside, const void *bytes, size_t len_bytes);
/* Make the contents durable; the file keeps its temporary name. */
bool mr_aside_sync(struct mr_aside *aside);
/* Give it its name. */
bool mr_aside_rename(struct mr_aside *aside);
/* Close; a file that was not renamed is removed. Nothing for a zeroed struct. */
void mr_aside_close(struct mr_aside *aside);
/* Write a whole file at once. */
bool mr_aside_store(const char *path, const void *bytes, size_t len_bytes);

#endif
