/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Grows and frees the bytes.
 *
 * Invariant: a pointer into the bytes is stale after any call that may grow them.
 */
#include "packs/packer_bytes.h"

#include "base/checked.h"
#include "transforms/scratch.h"
#include "transforms/tile.h"

#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM ((size_t)64 << 10)

void mr_packer_bytes_fini(struct mr_packer_bytes *bytes)
{
    free(bytes->at);
    *bytes = (struct mr_packer_bytes){0};
}

void mr_packer_bytes_clear(struct mr_packer_bytes *bytes)
{
    bytes->len = 0;
    if (bytes->room > MR_SCRATCH_KEEP_BYTES)
        mr_packer_bytes_fini(bytes);
}

mr_status mr_packer_bytes_reserve(struct mr_packer_bytes *bytes, size_t n, mr_error *error)
{
    size_t need, room;
    if (!mr_checked_add(bytes->len, n, &need) || !mr_checked_add(need, MR_TILE_SLACK, &need))
        return mr_error_memory(error, SIZE_MAX);
    if (need <= bytes->room)
        return MR_OK;
    if (!mr_checked_add(bytes->room, bytes->room / 2, &room) || room < need)
        room = need;
    if (room < FIRST_ROOM)
        room = FIRST_ROOM;
    uint8_t *fresh = realloc(bytes->at, room);
    if (!fresh)
        return mr_error_memory(error, room);
    bytes->at = fresh;
    bytes->room = room;
    return MR_OK;
}

mr_status mr_packer_bytes_add(struct mr_packer_bytes *bytes, const void *from, size_t n, mr_error *error)
{
    mr_status status = mr_packer_bytes_reserve(bytes, n, error);
    if (status != MR_OK)
        return status;
    if (n > 0)
        memcpy(bytes->at + bytes->len, from, n);
    bytes->len += n;
    return MR_OK;
}
