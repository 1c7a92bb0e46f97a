/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Ends a test program that cannot continue, because the machine failed and not the code under test.
 */
#ifndef TESTS_SUPPORT_DIE_H
#define TESTS_SUPPORT_DIE_H

#include <stdio.h>
#include <stdlib.h>

/* Print what failed, with errno's text, and exit with status 1. */
_Noreturn static inline void mr_test_die(const char *what)
{
    perror(what);
    exit(1);
}

#endif
