/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stands in for the functions of libjpeg-turbo that decode and transform rows of MCUs. Blocks of
 * coefficients come from a source (a pack's tiles, or our own decoder of scans), and those that the
 * box needs become pixel values. libjpeg still does upsampling and colour, and counts the rows that
 * are skipped.
 *
 * The pointers to those functions are private to libjpeg. So this file accepts only versions whose
 * internals it was written for, and packed_selftest.c tries the library that is loaded.
 */
#ifndef TRANSFORMS_JPEG_JPEG_FEED_H
#define TRANSFORMS_JPEG_JPEG_FEED_H

#include "transforms/jpeg_box.h"
#include "transforms/tile_format.h"

/* Called inside a step of the box, with the box's client_data. They may escape. */
struct mr_jpeg_feed_source {
    /*
     * Put MCUs of a row that the box needs into feed->blocks, from a column on. Returns how many:
     * at most MR_PACKED_TILE_MCUS, and none after last_column. Rows come in order, and so do the
     * columns of a row.
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
    uint32_t n_blocks;              /* per MCU */
    uint8_t h[4], v[4];             /* of each component: blocks in an MCU */
    uint32_t first_column, last_column;
    uint32_t first_row, last_row; /* MCUs that the box needs; libjpeg may read others too */
    uint32_t (*idct_blocks)(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                            uint8_t *const *rows,
                            size_t at); /* of the kernels; NULL: libjpeg's own, block by block */

    /* the blocks from the source, MCU by MCU in the scan's order, each in natural order */
    _Alignas(64) int16_t blocks[MR_TILE_MAX_BLOCKS][64];
};

/* Was this compiled for a version of libjpeg whose internals it knows? */
bool mr_jpeg_feed_knows_libjpeg(void);

/*
 * Inside a step, after mr_jpeg_box_crop(), for a file of one scan with components in the header's
 * order: from now on blocks come from source. The caller has set source and idct_blocks; the rest
 * is set here.
 */
void mr_jpeg_feed_start(struct mr_jpeg_feed *feed, struct mr_jpeg_box *box);

#endif
