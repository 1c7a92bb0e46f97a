/* SPDX-License-Identifier: Apache-2.0 */
/* How large a tile may be; docs/pack-format.md has its layout, byte by byte. */
#ifndef TRANSFORMS_TILE_FORMAT_H
#define TRANSFORMS_TILE_FORMAT_H

#include "base/packed_image.h"

#define MR_TILE_MAX_BLOCKS (MR_PACKED_TILE_MCUS * MR_PACKED_MAX_MCU_BLOCKS)
/*
 * No tile is longer; a tile's length is stored in 16 bits. Each block of the longest tile has a
 * header, 63 patches, and one escape (a nibble and a byte). The escape is the last coefficient of
 * the zigzag, so the mask has all its 8 bytes.
 */
#define MR_TILE_MAX_BYTES (4 + MR_TILE_MAX_BLOCKS * (2 + 8 + 63 * 4) + MR_TILE_MAX_BLOCKS * 3 / 2)
/* Expanding may read this many bytes after a tile; their content does not matter. */
#define MR_TILE_SLACK 64

#endif
