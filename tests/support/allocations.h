/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts the allocations of a test program, on any thread, and refuses one of them. The program is
 * linked with mr_test_allocations, or with mr_test_allocations_own, which ignores the allocations
 * of shared libraries.
 */
#ifndef TESTS_SUPPORT_ALLOCATIONS_H
#define TESTS_SUPPORT_ALLOCATIONS_H

#include <stdbool.h>
#include <stdlib.h> /* defines __GLIBC__ */

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define ALLOCATIONS_SANITIZED 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer) ||                         \
    __has_feature(memory_sanitizer)
#define ALLOCATIONS_SANITIZED 1
#endif
#endif

/* 1: the calls of the whole process can be counted. */
#if !defined(ALLOCATIONS_SANITIZED) && !defined(ALLOCATIONS_OWN_ONLY) && defined(__GLIBC__)
#define ALLOCATIONS_OF_PROCESS 1
#else
#define ALLOCATIONS_OF_PROCESS 0
#endif

/* 1: libjpeg and libpng are linked into the program, so --wrap sees their calls too. */
#ifndef ALLOCATIONS_STATIC_DEPS
#define ALLOCATIONS_STATIC_DEPS 0
#endif

/* Calls of malloc, calloc, realloc, aligned_alloc and posix_memalign. */
struct allocations {
    _Atomic size_t n_own; /* from the program and what is linked into it */
    /* from the program and shared libraries; 0 if these cannot be counted */
    _Atomic size_t n_process;
    _Atomic size_t len_process; /* bytes requested */
    _Atomic size_t len_largest; /* by a single call */
    /* all calls; if those of the process are counted, each call of the program counts twice */
    _Atomic size_t n_met;
    size_t refused; /* number of the call that is refused, from 1 on; 0: none */
    bool onwards;   /* refuse all later calls too */
};

extern struct allocations allocations;

/*
 * Called by a test's own replacement of an allocation function: counts one call of this length.
 * True: refuse it; errno is set.
 */
bool allocations_meet(size_t len);

#endif
