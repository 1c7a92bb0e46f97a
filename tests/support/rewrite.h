/* SPDX-License-Identifier: Apache-2.0 */
/* Files that change under a reader. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_REWRITE_H
#define TESTS_SUPPORT_REWRITE_H

#include <stdint.h>

/*
 * Write a photograph of 120 x 100 pixels in place, in as many bytes whatever its seed is, and say
 * that this was so many seconds after 2020 began. The file is made if it is missing.
 */
void mr_test_rewrite(const char *path, uint32_t seed, int64_t second);

#endif
