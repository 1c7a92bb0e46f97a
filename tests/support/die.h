/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The end of a test program that cannot go on: not what it tests has failed, but the machine below
 * it.
 */
#ifndef TESTS_SUPPORT_DIE_H
#define TESTS_SUPPORT_DIE_H

#include <stdio.h>
#include <stdlib.h>

/* Say what failed, with the words for errno, and end with status 1. */
_Noreturn static inline void mr_test_die(const char *what)
{
    perror(what);
    exit(1);
}

#endif
