/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Arithmetic on sizes from files and options. On overflow the functions return false, and *out is
 * undefined.
 */
#ifndef BASE_CHECKED_H
#define BASE_CHECKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline bool mr_checked_add(size_t a, size_t b, size_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool mr_checked_mul(size_t a, size_t b, size_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}
static inline bool mr_checked_add_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_add_overflow(a, b, out);
}
static inline bool mr_checked_mul_u64(uint64_t a, uint64_t b, uint64_t *out)
{
    return !__builtin_mul_overflow(a, b, out);
}

/* Round value up to a multiple of align, a power of two. value must be below SIZE_MAX - align. */
static inline size_t mr_align_up(size_t value, size_t align)
{
    return (value + align - 1) & ~(align - 1);
}

#endif
