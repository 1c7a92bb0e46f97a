/* SPDX-License-Identifier: Apache-2.0 */
/* A folder of generated photographs. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_FOLDER_FILL_H
#define TESTS_SUPPORT_FOLDER_FILL_H

#include <stdint.h>

/* n_classes x n_images photographs of different sizes and kinds: folder/class_0/000.jpg, ... */
void mr_test_folder_fill(const char *folder, uint32_t n_classes, uint32_t n_images);

/* A new folder (tests/support/folder.h) with such photographs. */
char *mr_test_folder_filled(uint32_t n_classes, uint32_t n_images);

#endif
