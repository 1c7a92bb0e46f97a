/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles: up to MR_PACKED_TILE_MCUS MCUs of one row of MCUs, self-contained, so that any of them can be expanded without
 * the others. docs/pack-format.md has the layout, byte by byte. Expanding is behind kernels.h (expand_dct,
 * expand_dct8).
 *
 * A block is 64 quantised coefficients in natural order (libjpeg's JCOEF), as they are in the JPEG.
 */
#ifndef TRANSFORMS_TILE_H
#define TRANSFORMS_TILE_H

#include "base/packed_image.h"

#include <stdbool.h>
#include <stddef.h>

#define MR_TILE_MAX_BLOCKS (MR_PACKED_TILE_MCUS * MR_PACKED_MAX_MCU_BLOCKS)
/*
 * No tile of either encoding is longer; a tile's length stands in 16 bits. The longest has blocks of patches with one
 * escape at the end of the zigzag, which needs a whole mask: a header, 8 bytes of mask, a nibble, a byte, 63 patches.
 */
#define MR_TILE_MAX_BYTES (4 + MR_TILE_MAX_BLOCKS * (2 + 8 + 63 * 4) + MR_TILE_MAX_BLOCKS * 3 / 2)
/* Expanding may read so many bytes behind a tile; what they hold does not matter. */
#define MR_TILE_SLACK 64

/* Blocks of a tile, n_blocks of at most MR_TILE_MAX_BLOCKS, to bytes; returns their number, at most MR_TILE_MAX_BYTES.
 */
size_t mr_tile_encode_dct(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);
size_t mr_tile_encode_dct8(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);

/*
 * The plain C expanders, which are the reference: blocks first to last - 1 of a tile of n_blocks to out, 64-aligned.
 * False where the tile is not one, which does not depend on first and last; out is unspecified then. No byte before the
 * tile or beyond MR_TILE_SLACK behind it is read, whatever it holds.
 */
bool mr_tile_expand_dct(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first, uint32_t last,
                        int16_t (*out)[64]);
bool mr_tile_expand_dct8(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first, uint32_t last,
                         int16_t (*out)[64]);

#endif
