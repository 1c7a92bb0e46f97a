/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is reused from one image to the next.
 *
 * Invariant: n and size come from images, so their product is checked before it is used.
 */
#include "transforms/scratch.h"

#include "base/checked.h"

#include <stdlib.h>

mr_status mr_scratch_reserve(struct mr_scratch *scratch, size_t n, size_t size, mr_error *error)
{
    size_t len;
    if (!mr_checked_mul(n, size, &len))
        return mr_error_memory(error, SIZE_MAX);
    bool huge = scratch->len_allocated > MR_SCRATCH_KEEP_BYTES && len <= MR_SCRATCH_KEEP_BYTES;
    if (len <= scratch->len_allocated && !huge)
        return MR_OK;
    void *fresh = malloc(len ? len : 1);
    if (!fresh)
        return mr_error_memory(error, len);
    free(scratch->memory);
    scratch->memory = fresh;
    scratch->len_allocated = len;
    return MR_OK;
}

void mr_scratch_fini(struct mr_scratch *scratch)
{
    free(scratch->memory);
    *scratch = (struct mr_scratch){0};
}
