/* SPDX-License-Identifier: Apache-2.0 */
/* Memory between pages without access: a read or a write beyond one of its ends faults at once. */
#ifndef TESTS_TRANSFORMS_GUARDED_H
#define TESTS_TRANSFORMS_GUARDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct guarded {
    uint8_t *at; /* len bytes, 0xa5 at first */
    size_t len;
    uint8_t *map;
    size_t map_len;
};

/*
 * align is a power of two, up to a page. The memory is at the end (up to less than align bytes) or
 * at the start of the pages between; the rest of them is 0xa5 too.
 */
struct guarded guarded_make(size_t len, size_t align, bool at_end);
/* The same bytes. */
struct guarded guarded_copy(const void *bytes, size_t len, bool at_end);
/* Frees it. The test fails if the bytes around it have changed. */
void guarded_free(struct guarded *guarded);

#endif
