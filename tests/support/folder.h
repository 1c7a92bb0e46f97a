/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary folders, below TMPDIR or /tmp. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdint.h>

/*
 * Make a new, empty folder. It is removed by mr_test_folder_remove(), or when the process that made
 * it ends with exit(), so a folder shared by a group of tests need not be removed.
 */
char *mr_test_folder_create(void);

/* Write bytes to folder/name, replacing an existing file. */
void mr_test_folder_write(const char *folder, const char *name, const void *bytes, uint64_t len);

/* Remove the folder with everything in it, and free the path. */
void mr_test_folder_remove(char *folder);

#endif
