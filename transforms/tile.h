/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles: up to MR_PACKED_TILE_MCUS MCUs of one row of MCUs, self-contained, so that any of them can
 * be expanded without the others. docs/pack-format.md has the layout, byte by byte. Expanding is
 * behind kernels.h (expand_dct).
 *
 * A block is 64 quantised coefficients in natural order (libjpeg's JCOEF), as they are in the JPEG.
 */
#ifndef TRANSFORMS_TILE_H
#define TRANSFORMS_TILE_H

#include "transforms/tile_format.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * Blocks of a tile, n_blocks of at most MR_TILE_MAX_BLOCKS, to bytes; returns their number, at most
 * MR_TILE_MAX_BYTES. /
 */
size_t mr_tile_encode_dct(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);

/*
 * What comes behind the masks, while a tile is made: 25 KB, which not every caller has on its
 * stack.
 */
struct mr_tile_rest {
    uint32_t n_values;
    uint32_t n_patches;
    int8_t values[MR_TILE_MAX_BLOCKS * 63];
    uint8_t patches[MR_TILE_MAX_BLOCKS * 64][4];
};
size_t mr_tile_encode_dct_in(struct mr_tile_rest *rest, const int16_t (*blocks)[64],
                             uint32_t n_blocks, uint8_t *out);

/*
 * The plain C expander, which is the reference: blocks first to last - 1 of a tile of n_blocks to
 * out, 64-aligned. False where the tile is not one, which does not depend on first and last; out is
 * unspecified then. No byte before the tile or beyond MR_TILE_SLACK behind it is read, whatever it
 * holds.
 */
bool mr_tile_expand_dct(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                        uint32_t last, int16_t (*out)[64]);

#endif
