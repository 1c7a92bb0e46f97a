/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Tiles: up to MR_PACKED_TILE_MCUS MCUs of one row of MCUs. Each tile is self-contained, so it can
 * be expanded without the others. docs/pack-format.md has the layout, byte by byte. Expanding is a
 * function of kernels.h (expand_dct).
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
 * Encode the blocks of a tile, at most MR_TILE_MAX_BLOCKS. Returns the number of bytes, at most
 * MR_TILE_MAX_BYTES.
 */
size_t mr_tile_encode_dct(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);

/*
 * Memory for making a tile: what comes after its masks. 25 KB, which not every caller has on its
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
 * The plain C expander, which is the reference: expands blocks first to last - 1 of a tile of
 * n_blocks to out, which is aligned to 64. False if the bytes are not a tile, which does not depend
 * on first and last; out is then unspecified. No byte before the tile, or more than MR_TILE_SLACK
 * after it, is read, whatever it holds.
 */
bool mr_tile_expand_dct(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                        uint32_t last, int16_t (*out)[64]);

#endif
