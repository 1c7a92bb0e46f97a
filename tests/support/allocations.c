/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts allocations in two ways. The linker redirects the program's own calls to this file
 * (--wrap), and definitions of malloc and its relatives see the calls of shared libraries too.
 * Sanitizers replace malloc themselves, so the definitions are left out then.
 */
#include "tests/support/allocations.h"

#include <errno.h>
#include <stdatomic.h>

struct allocations allocations;

/*
 * The linker redirects the calls of this program, and of the room that it is linked with, to these
 * functions (--wrap).
 */
void *__wrap_malloc(size_t len);
void *__wrap_calloc(size_t n, size_t size);
void *__wrap_realloc(void *memory, size_t len);
void *__wrap_aligned_alloc(size_t alignment, size_t len);
int __wrap_posix_memalign(void **memory_out, size_t alignment, size_t len);
void *__real_malloc(size_t len);
void *__real_calloc(size_t n, size_t size);
void *__real_realloc(void *memory, size_t len);
void *__real_aligned_alloc(size_t alignment, size_t len);
int __real_posix_memalign(void **memory_out, size_t alignment, size_t len);

bool allocations_meet(size_t len)
{
    size_t number = ++allocations.n_met, largest = allocations.len_largest;
    while (len > largest && !atomic_compare_exchange_weak(&allocations.len_largest, &largest, len))
        continue;
    if (allocations.refused == 0 ||
        (allocations.onwards ? number < allocations.refused : number != allocations.refused))
        return false;
    errno = ENOMEM;
    return true;
}

void *__wrap_malloc(size_t len)
{
    allocations.n_own++;
    return allocations_meet(len) ? NULL : __real_malloc(len);
}

void *__wrap_calloc(size_t n, size_t size)
{
    allocations.n_own++;
    return allocations_meet(n * size) ? NULL : __real_calloc(n, size);
}

void *__wrap_realloc(void *memory, size_t len)
{
    allocations.n_own++;
    return allocations_meet(len) ? NULL : __real_realloc(memory, len);
}

void *__wrap_aligned_alloc(size_t alignment, size_t len)
{
    allocations.n_own++;
    return allocations_meet(len) ? NULL : __real_aligned_alloc(alignment, len);
}

int __wrap_posix_memalign(void **memory_out, size_t alignment, size_t len)
{
    allocations.n_own++;
    return allocations_meet(len) ? ENOMEM : __real_posix_memalign(memory_out, alignment, len);
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
    return allocations_meet(len) ? NULL : __libc_malloc(len);
}

EXPORTED void *calloc(size_t n, size_t size)
{
    allocations.n_process++;
    allocations.len_process += n * size;
    return allocations_meet(n * size) ? NULL : __libc_calloc(n, size);
}

EXPORTED void *realloc(void *memory, size_t len)
{
    allocations.n_process++;
    allocations.len_process += len;
    return allocations_meet(len) ? NULL : __libc_realloc(memory, len);
}
#endif
