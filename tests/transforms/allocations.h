/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a test program allocates, and refuses one piece; it is linked with
 * -Wl,--wrap=malloc,--wrap=calloc,--wrap=realloc,--wrap=aligned_alloc.
 */
#ifndef TESTS_TRANSFORMS_ALLOCATIONS_H
#define TESTS_TRANSFORMS_ALLOCATIONS_H

#include <stdbool.h>
#include <stdlib.h> /* says whether this is glibc */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATIONS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) || __has_feature(memory_sanitizer)
#define ALLOCATIONS_SANITIZED 1
#endif
#endif

/* 1 where the calls of the whole process can be counted. */
#if !defined(ALLOCATIONS_SANITIZED) && defined(__GLIBC__)
#define ALLOCATIONS_OF_PROCESS 1
#else
#define ALLOCATIONS_OF_PROCESS 0
#endif

/* 1 where --wrap sees the calls of libjpeg and libpng as well, which are linked into the program then. */
#ifndef ALLOCATIONS_STATIC_DEPS
#define ALLOCATIONS_STATIC_DEPS 0
#endif

/* Calls of malloc, calloc and realloc. */
struct allocations {
    size_t n_own;       /* from the program and what is linked into it */
    size_t n_process;   /* from anywhere, shared libraries too; 0 where they cannot be counted */
    size_t len_process; /* bytes asked for */
    size_t len_largest; /* by one of all calls */
    size_t n_met;       /* all of them: a call of the program is met twice where those of the process are counted */
    size_t refused;     /* which of n_met gets no memory, from 1 on; 0: none */
    bool onwards;       /* and each later one */
};

extern struct allocations allocations;

#endif
