/* SPDX-License-Identifier: Apache-2.0 */
/* Converts MCUs, one after the other, to the bytes of a packed sample (rows of tiles), and back. */
#ifndef PACKS_PACKER_TILES_H
#define PACKS_PACKER_TILES_H

#include "base/bytes.h"
#include "transforms/packed.h"
#include "transforms/scratch.h"
#include "transforms/simd/kernels.h"
#include "transforms/tile.h"

#include <stdalign.h>

/*
 * MCUs go in row by row, each row from the left; bytes and the row table come out. The struct
 * starts as zeros. Its memory is reused for the next sample.
 */
struct mr_packer_tiles {
    struct mr_packed_layout layout;
    const struct mr_kernel_ops *kernels;
    struct mr_bytes bytes; /* the sample so far */
    struct mr_scratch table;
    uint32_t *rows;  /* inside table: n_rows + 1 offsets */
    uint32_t *sums;  /* after them: n_rows checksums */
    uint32_t row;    /* of the next tile */
    uint32_t column; /* of its first MCU */
    uint32_t n_held; /* MCUs in blocks that are not yet written as a tile */
    alignas(64) int16_t blocks[MR_TILE_MAX_BLOCKS][64];
};

void mr_packer_tiles_fini(struct mr_packer_tiles *tiles);

/* Begin a sample. image has sizes, encoding and a template whose factors have been checked. */
mr_status mr_packer_tiles_begin(struct mr_packer_tiles *tiles, const struct mr_packed_image *image,
                                mr_error *error);

/* Where to write the blocks of the next MCU, before mr_packer_tiles_commit(). */
static inline int16_t (*mr_packer_tiles_next(struct mr_packer_tiles *tiles))[64]
{
    return tiles->blocks + (size_t)tiles->n_held * tiles->layout.n_blocks;
}

/*
 * Accept the MCU that was written, and go to the next one. MR_ERR_UNSUPPORTED: the sample is too
 * long.
 */
mr_status mr_packer_tiles_commit(struct mr_packer_tiles *tiles, mr_error *error);

/*
 * Instead of next and commit: add a whole tile from the caller's blocks. MR_ERR_UNSUPPORTED as
 * above.
 */
mr_status mr_packer_tiles_add(struct mr_packer_tiles *tiles, uint32_t n_mcus,
                              const int16_t (*blocks)[64], mr_error *error);

/* After the last MCU: append the slack, and set rows, sums, n_rows and len of image. */
void mr_packer_tiles_end(struct mr_packer_tiles *tiles, struct mr_packed_image *image);

/* Reads a checked sample tile by tile. */
struct mr_packer_reading {
    const struct mr_packed_image *image;
    const struct mr_kernel_ops *kernels;
    const uint8_t *bytes;
    int16_t (*blocks)[64]; /* MR_TILE_MAX_BLOCKS, 64-aligned */
    struct mr_packed_layout layout;
    uint32_t row;
    uint32_t tile;
    size_t at; /* offset of the next tile in bytes */
};

/* bytes: the whole sample, with MR_TILE_SLACK after it; blocks: scratch. */
void mr_packer_tiles_read_begin(struct mr_packer_reading *reading,
                                const struct mr_packed_image *image, const uint8_t *bytes,
                                int16_t (*blocks)[64]);

/*
 * Expand the next tile into reading->blocks. *n_mcus_out: its MCUs; 0 after the last tile.
 * MR_ERR_DAMAGED.
 */
mr_status mr_packer_tiles_read_next(struct mr_packer_reading *reading, uint32_t *n_mcus_out,
                                    mr_error *error);

#endif
