/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the functions of libjpeg-turbo that decode and transform rows of MCUs: blocks of
 * coefficients come from a source (a pack's tiles, or our own decoder of scans), and samples are
 * made of those that the box needs. Upsampling and colour stay libjpeg's, and so does the count of
 * rows that are skipped.
 *
 * The places of those functions are private to libjpeg. So this knows the versions whose insides it
 * was written for, and packed_selftest.c tries the library that is there.
 */
#ifndef TRANSFORMS_JPEG_JPEG_FEED_H
#define TRANSFORMS_JPEG_JPEG_FEED_H

#include "transforms/jpeg_box.h"
#include "transforms/tile_format.h"

/* Calls come inside a step of the box and get the box's client_data. They may escape. */
struct mr_jpeg_feed_source {
    /*
     * Put MCUs of a row that the box needs to feed->blocks, or let feed->taken point to them, from
     * a column on; returns how many, at most MR_PACKED_TILE_MCUS and none behind last_column. Rows
     * come in order, and columns in each of them.
     */
    uint32_t (*take)(void *state, uint32_t row, uint32_t column);
    /* libjpeg has read this row, whether the box needs it or not. NULL: not called. */
    void (*end_row)(void *state, uint32_t row);
};

struct mr_jpeg_feed {
    const struct mr_jpeg_feed_source *source;
    struct mr_jpeg_box *box;
    uint32_t mcu_width, mcu_height; /* pixels */
    uint32_t n_columns, n_rows;     /* of MCUs, of the whole image */
    uint32_t n_blocks;              /* to an MCU */
    uint8_t h[4], v[4];             /* of each component: blocks in an MCU */
    uint32_t first_column, last_column;
    uint32_t first_row, last_row; /* MCUs that the box needs; libjpeg may read others too */
    uint32_t (*idct_blocks)(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                            uint8_t *const *rows,
                            size_t at); /* the kernels'; NULL: libjpeg's, block by block */

    /* the blocks that the source has given: MCU by MCU, as a scan has them, in natural order */
    int16_t (*taken)[64];
    _Alignas(64) int16_t blocks[MR_TILE_MAX_BLOCKS][64]; /* room for them */
};

/* Was this compiled for a version of libjpeg whose insides it knows? */
bool mr_jpeg_feed_knows_libjpeg(void);

/*
 * Inside a step, after mr_jpeg_box_crop() of a file of one scan with the components in the header's
 * order: blocks come from source from now on. source and idct_blocks are set; the rest is found
 * here.
 */
void mr_jpeg_feed_start(struct mr_jpeg_feed *feed, struct mr_jpeg_box *box);

#endif
