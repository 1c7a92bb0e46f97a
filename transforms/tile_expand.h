/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Expands a tile, for plain C and each set. The including file first defines take_nibbles(), which
 * writes all values of the nibbles to MR_TILE_VALUES_ROOM bytes, and put_blocks(), which returns
 * how many values all blocks have.
 *
 * Invariant: static functions only, as in all headers of the vector files.
 */
#ifndef TRANSFORMS_TILE_EXPAND_H
#define TRANSFORMS_TILE_EXPAND_H

#include "transforms/tile_parts.h"

#include <assert.h>

INLINE bool expand_tile(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                        uint32_t last, int16_t (*out)[64])
{
    struct parts parts;
    _Alignas(64) uint8_t values[MR_TILE_VALUES_ROOM];
    assert(first <= last && last <= n_blocks && n_blocks <= MR_TILE_MAX_BLOCKS);
    if (!find_dct(&parts, tile, len, n_blocks) || !take_nibbles(&parts, values))
        return false;
    size_t n_pairs = (size_t)(parts.escapes - parts.values);
    size_t n_values = put_blocks(&parts, values, 2 * n_pairs, n_blocks, first, last, out);
    return (n_values + 1) / 2 == n_pairs && put_patches(&parts, n_blocks, first, last, out);
}

#endif
