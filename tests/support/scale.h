/* SPDX-License-Identifier: Apache-2.0 */
/* How much work a test does: more in a long run, less in a build with sanitizers. */
#ifndef TESTS_SUPPORT_SCALE_H
#define TESTS_SUPPORT_SCALE_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

static inline bool mr_test_is_long(void)
{
    return getenv("MR_TEST_LONG") != NULL;
}

/* MR_TEST_SANITIZED comes from tests/CMakeLists.txt. */
static inline bool mr_test_is_sanitized(void)
{
#ifdef MR_TEST_SANITIZED
    return true;
#else
    return false;
#endif
}

/*
 * n; ten times as many in a long run; under sanitizers a third, but at least one, because they see
 * a fault the first time.
 */
static inline uint32_t mr_test_scale(uint32_t n)
{
    if (mr_test_is_long())
        return 10 * n;
    return mr_test_is_sanitized() && n > 1 ? (n + 2) / 3 : n;
}

#endif
