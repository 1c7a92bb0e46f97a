/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that grows to the largest demand and stays allocated, so this room allocates nothing once
 * it is warm. Only a huge block is freed when less is needed: a PNG of three kilobytes may ask for
 * hundreds of megabytes.
 */
#ifndef TRANSFORMS_SCRATCH_H
#define TRANSFORMS_SCRATCH_H

#include "base/error.h"

/* A larger block is freed when less is needed. */
#define MR_SCRATCH_KEEP_BYTES ((size_t)16 << 20)

/* Starts as zeros. */
struct mr_scratch {
    void *memory;
    size_t len_allocated;
};

/* Make room for n elements of size bytes. The content is lost when the memory grows or shrinks. */
mr_status mr_scratch_reserve(struct mr_scratch *scratch, size_t n, size_t size, mr_error *error);
void mr_scratch_fini(struct mr_scratch *scratch);

/*
 * The first multiple of align in the memory. align is a power of two; the memory must be align - 1
 * bytes longer than what is used.
 */
static inline uint8_t *mr_scratch_align(const struct mr_scratch *scratch, size_t align)
{
    uint8_t *memory = scratch->memory;
    return memory + (-(uintptr_t)memory & (align - 1));
}

#endif
