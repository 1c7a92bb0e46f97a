/* SPDX-License-Identifier: Apache-2.0 */
/* Puts memory next to a guard page. Only one end can be there, so callers must try both. */
#include "tests/transforms/guarded.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#define FILL 0xa5

struct guarded guarded_make(size_t len, size_t align, bool at_end)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    size_t inner = (len + page - 1) / page * page;
    struct guarded g = {.len = len, .map_len = inner + 2 * page};
    g.map = mmap(NULL, g.map_len, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    assert_true(g.map != MAP_FAILED);
    memset(g.map + page, FILL, inner);
    assert_int_equal(mprotect(g.map, page, PROT_NONE), 0);
    assert_int_equal(mprotect(g.map + page + inner, page, PROT_NONE), 0);
    g.at = g.map + page + (at_end ? (inner - len) & ~(align - 1) : 0);
    return g;
}

struct guarded guarded_copy(const void *bytes, size_t len, bool at_end)
{
    struct guarded g = guarded_make(len, 1, at_end);
    memcpy(g.at, bytes, len);
    return g;
}

void guarded_free(struct guarded *guarded)
{
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    for (const uint8_t *b = guarded->map + page; b < guarded->at; b++)
        if (*b != FILL)
            fail_msg("byte %td before the memory was written", guarded->at - b);
    for (const uint8_t *b = guarded->at + guarded->len; b < guarded->map + guarded->map_len - page;
         b++)
        if (*b != FILL)
            fail_msg("byte %td after the memory was written",
                     b - guarded->at - (ptrdiff_t)guarded->len);
    assert_int_equal(munmap(guarded->map, guarded->map_len), 0);
}
