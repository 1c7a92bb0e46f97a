/* SPDX-License-Identifier: Apache-2.0 */
/* Opens files by name, and gives files that were written under a temporary name their own. */
#ifndef BASE_REGULAR_FILE_H
#define BASE_REGULAR_FILE_H

#include <sys/stat.h>

#include "base/error.h"
#include "base/export.h"

/*
 * Open a regular file below folder, which may be AT_FDCWD. flags are those of openat(); a new file
 * has mode 0666 less the umask. A FIFO, a terminal or a device never blocks the call.
 * Returns a descriptor, and what fstat() says in *st_out unless that is NULL. Returns a negative
 * errno on failure: -EISDIR for a folder, -ENXIO for anything else that is not a regular file.
 */
MR_BASE_EXPORT int mr_regular_file_open(int folder, const char *path, int flags,
                                        struct stat *st_out);

/* MR_ERR_IO for such an errno, without its sign; its words are appended. Returns MR_ERR_IO. */
MR_BASE_EXPORT mr_status mr_regular_file_fail(mr_error *error, int os_error, const char *format,
                                              ...) MR_PRINTF(3, 4);

/* What such an errno means here if that is not what the system says of it; else NULL. */
const char *mr_regular_file_words(int os_error);

/*
 * Give the file of fd, which was written under the name temporary, its own name. After a crash of
 * the machine the name has what it had before, or all of the new file: the file is synced before
 * the rename, its folder after it.
 * Returns 0, or a negative errno, and then temporary is removed. Ownership: fd stays the caller's.
 */
int mr_regular_file_publish(int folder, int fd, const char *temporary, const char *name);

#endif
