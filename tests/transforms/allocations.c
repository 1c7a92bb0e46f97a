/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts allocations by standing in front of malloc, calloc, realloc and aligned_alloc, twice: the linker turns the
 * program's own calls here (--wrap), and the definitions of malloc itself see the calls of shared libraries too.
 * Sanitizers bring a malloc of their own, which must stay.
 */
#include "tests/transforms/allocations.h"

struct allocations allocations;

/* The linker sends the calls of this program and of the room, which it is linked with, here (--wrap). */
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t len);
void *__real_aligned_alloc(size_t alignment, size_t len);

static bool is_refused(size_t len)
{
    allocations.n_met++;
    if (len > allocations.len_largest)
        allocations.len_largest = len;
    return allocations.n_met == allocations.refused ||
           (allocations.onwards && allocations.refused && allocations.n_met > allocations.refused);
}

void *__wrap_malloc(size_t len)
{
    allocations.n_own++;
    return is_refused(len) ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocations.n_own++;
    return is_refused(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t len)
{
    allocations.n_own++;
    return is_refused(len) ? NULL : __real_realloc(memory, len);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
    allocations.n_own++;
    return is_refused(len) ? NULL : __real_aligned_alloc(alignment, len);
}

#if ALLOCATIONS_OF_PROCESS
/* A program's own definitions take precedence over the C library's, in shared libraries as well. */
#define EXPORTED __attribute__((visibility("default")))
void *__libc_malloc(size_t len);
void *__libc_calloc(size_t n, size_t size);
void *__libc_realloc(void *memory, size_t len);

EXPORTED void *malloc(size_t len)
{
    allocations.n_process++;
    allocations.len_process += len;
    return is_refused(len) ? NULL : __libc_malloc(len);
}

EXPORTED void *calloc(size_t n, size_t size)
{
    allocations.n_process++;
    allocations.len_process += n * size;
    return is_refused(n * size) ? NULL : __libc_calloc(n, size);
}

EXPORTED void *realloc(void *memory, size_t len)
{
    allocations.n_process++;
    allocations.len_process += len;
    return is_refused(len) ? NULL : __libc_realloc(memory, len);
}
#endif
