/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files by name, and renames files that were written under a temporary name. */
#ifndef BASE_REGULAR_FILE_H
#define BASE_REGULAR_FILE_H

#include <sys/stat.h>

#include "base/error.h"
#include "base/export.h"

/*
 * Open a regular file below folder, which may be AT_FDCWD. flags are those of openat(); a new file
 * has mode 0666 less the umask. A FIFO, a terminal or a device never blocks the call.
 * Returns a descriptor, and the result of fstat() in *st_out unless that is NULL. Returns a
 * negative errno on failure: -EISDIR for a folder, -ENXIO for anything else that is not a regular
 * file.
 */
MR_BASE_EXPORT int mr_regular_file_open(int folder, const char *path, int flags,
                                        struct stat *st_out);

/* Write MR_ERR_IO for the positive errno of such a failure; its text is appended. */
MR_BASE_EXPORT mr_status mr_regular_file_fail(mr_error *error, int os_error, const char *format,
                                              ...) MR_PRINTF(3, 4);

/* A text for errnos that mean something else here than the system's text says; otherwise NULL. */
const char *mr_regular_file_words(int os_error);

/*
 * Rename the file of fd from temporary to name. The file is synced before the rename and its folder
 * afterwards, so after a crash of the machine the name has its old content or the whole new file.
 * Returns 0, or a negative errno: temporary is then removed. Ownership: fd remains the caller's.
 */
int mr_regular_file_publish(int folder, int fd, const char *temporary, const char *name);

#endif
