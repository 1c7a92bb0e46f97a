/* SPDX-License-Identifier: Apache-2.0 */
/* Folders of generated photographs in the temporary directory. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_FOLDER_H
#define TESTS_SUPPORT_FOLDER_H

#include <stdint.h>

/* A new folder with a path of its own, empty; to be removed by mr_test_folder_remove(). */
char *mr_test_folder_create(void);

/* n_classes x n_images photographs of different sizes and kinds: folder/class_0/000.jpg, ... */
void mr_test_folder_fill(const char *folder, uint32_t n_classes, uint32_t n_images);

/* Write bytes to folder/name, replacing what is there. */
void mr_test_folder_write(const char *folder, const char *name, const void *bytes, uint64_t len);

/* Remove the folder with everything in it, and free the path. */
void mr_test_folder_remove(char *folder);

#endif
