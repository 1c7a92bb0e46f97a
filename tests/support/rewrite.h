/* SPDX-License-Identifier: Apache-2.0 */
/* Files that change under a reader. A failure here ends the test program. */
#ifndef TESTS_SUPPORT_REWRITE_H
#define TESTS_SUPPORT_REWRITE_H

#include <stdint.h>

/*
 * Write a photograph of 120 x 100 pixels in place, with the same number of bytes for every seed,
 * and set the file's time to `second` seconds after the start of 2020. A missing file is made.
 */
void mr_test_rewrite(const char *path, uint32_t seed, int64_t second);

#endif
