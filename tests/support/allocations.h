/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts what a test program allocates, and refuses one piece, on any thread; it is linked with
 * mr_test_allocations, or with mr_test_allocations_own, which leaves alone what shared libraries
 * allocate.
 */
#ifndef TESTS_SUPPORT_ALLOCATIONS_H
#define TESTS_SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdlib.h> /* says whether this is glibc */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATIONS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define ALLOCATIONS_SANITIZED 1
#endif
#endif

/* 1 where the calls of the whole process can be counted. */
#if !defined(ALLOCATIONS_SANITIZED) && !defined(ALLOCATIONS_OWN_ONLY) && defined(__GLIBC__)
#define ALLOCATIONS_OF_PROCESS 1
#else
#define ALLOCATIONS_OF_PROCESS 0
#endif

/*
 * 1 where --wrap sees the calls of libjpeg and libpng as well, which are linked into the program
 * then.
 */
#ifndef ALLOCATIONS_STATIC_DEPS
#define ALLOCATIONS_STATIC_DEPS 0
#endif

/* Calls of malloc, calloc, realloc, aligned_alloc and posix_memalign. */
struct allocations {
    _Atomic size_t n_own;       /* from the program and what is linked into it */
    _Atomic size_t n_process;   /* from anywhere, shared libraries too; 0 where they cannot be
                                   counted */
    _Atomic size_t len_process; /* bytes asked for */
    _Atomic size_t len_largest; /* by one of all calls */
    _Atomic size_t n_met; /* all of them: a call of the program is met twice where those of the
                             process are counted */
    size_t refused;       /* which of n_met gets no memory, from 1 on; 0: none */
    bool onwards;         /* and each later one */
};

extern struct allocations allocations;

/*
 * One more of this length is met, by a stand-in of the test's own. Returns whether it is refused;
 * errno is set then.
 */
bool allocations_meet(size_t len);

#endif
