/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The inner loops, one table for each set of instructions. Plain C is the reference; the others
 * give the same bits. mr_kernels_best() chooses a table once, when an object is made.
 *
 * A row is `n` values of interleaved channels. The horizontal pass turns MR_STRIP_ROWS input rows
 * into a strip; each set has its own layout of strips. The vertical pass makes an output row from
 * the strips that hold its taps. If the vertical pass comes first, rows are put into strips
 * unfiltered, and the rows for the horizontal pass are taken out of a strip.
 */
#ifndef TRANSFORMS_SIMD_KERNELS_H
#define TRANSFORMS_SIMD_KERNELS_H

#include "base/cpu.h"
#include "transforms/axis.h"
#include "transforms/simd/image_loops.h"

#include <millrace/transform.h>

/* Input rows per strip. */
#define MR_STRIP_ROWS 4
/*
 * Strips, tables and scratch begin at multiples of this, and a strip has room for a multiple of
 * this many values.
 */
#define MR_KERNELS_ALIGN 64

struct mr_tensor_writer;
struct mr_scan_reader;
struct mr_scan_mcu;
struct mr_mix;

/* A horizontal pass, prepared once for an image. */
struct mr_resample_horizontal {
    const struct mr_axis *x;
    uint32_t channels; /* 1, 3 or 4 */
    /* Bytes read of an input row. A shorter row must be copied to longer memory first. */
    uint32_t row_bytes;
    size_t stride;    /* room for values in each row of a strip */
    uint8_t *tables;  /* private to the set; horizontal_bytes() bytes */
    uint32_t way;     /* which loop; private to the set */
    uint32_t n_steps; /* private to the set */
};

/* A vertical pass, prepared once for an image. */
struct mr_resample_vertical {
    const struct mr_axis *y;
    size_t stride;
    uint8_t *tables; /* private to the set; vertical_bytes() bytes */
};

struct mr_kernel_ops {
    enum mr_cpu cpu;
    uint32_t strip_bytes; /* of a strip, for each value of a row */
    mr_axis_fill *fill;   /* NULL: plain C */

    /* Size of horizontal->tables in bytes; x, channels and row_bytes must be set. */
    size_t (*horizontal_bytes)(const struct mr_resample_horizontal *horizontal);
    /* Fill tables and choose way; may raise row_bytes. */
    void (*horizontal_make)(struct mr_resample_horizontal *horizontal);
    /* Filter four rows into a strip. */
    void (*horizontal)(const struct mr_resample_horizontal *horizontal,
                       const uint8_t *const rows[MR_STRIP_ROWS], uint8_t *strip);
    /* Put n values of four rows into a strip, unfiltered. */
    void (*put_rows)(const uint8_t *const rows[MR_STRIP_ROWS], uint32_t n, size_t stride,
                     uint8_t *strip);
    /* Take the n values of row i out of a strip. */
    void (*take_row)(const uint8_t *strip, size_t stride, uint32_t i, uint32_t n, uint8_t *out);

    size_t (*vertical_bytes)(const struct mr_axis *y);
    void (*vertical_make)(struct mr_resample_vertical *vertical);
    /* Write the n values of output i; strips[0] holds row y->start[i], the others follow it. */
    void (*vertical)(const struct mr_resample_vertical *vertical, uint32_t i,
                     const uint8_t *const *strips, uint32_t n, uint8_t *out);

    /*
     * Write n pixels of three interleaved channels as a row of each plane, in the writer's dtype.
     */
    void (*planes)(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                   void *const out[3]);
    /*
     * Write n values as floats. Their channels are first, first + 1, ... up to `channels` (1 or 3)
     * and then 0, 1, ... again.
     */
    void (*values)(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                   uint32_t first, uint32_t channels, void *out);
    /* Copy n pixels of `channels` values, the last one first. */
    void (*mirror)(const uint8_t *row, uint32_t n, uint32_t channels, uint8_t *out);

    /* MR_MIX_UP of n values (base/mix.h). out is neither of the rows. */
    void (*mix_floats)(const struct mr_mix *mix, const float *own, const float *partner, size_t n,
                       float *out);
    void (*mix_bytes)(const struct mr_mix *mix, const uint8_t *own, const uint8_t *partner,
                      size_t n, uint8_t *out);

    /* Expand blocks first to last - 1 of a tile, like mr_tile_expand_dct() (tile.h). */
    bool (*expand_dct)(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                       uint32_t last, int16_t (*out)[64]);
    /*
     * The inverse DCT of n blocks of coefficients, with the bits of libjpeg-turbo's vectors. Block
     * i becomes columns at + 8 i to at + 8 i + 7 of eight rows. Returns the number of blocks done,
     * all or all but the last. NULL: libjpeg does it, block by block.
     */
    uint32_t (*idct_blocks)(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                            uint8_t *const *rows, size_t at);
    /* XXH3 with 64 bits, like mr_xxh3() (base/xxh3.h). */
    uint64_t (*xxh3)(const void *bytes, size_t len);
    /* Make a tile of blocks, like mr_tile_encode_dct(). */
    size_t (*encode_dct)(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);

    /*
     * Turn bytes of a JPEG's scan into clean bytes (0xff 0 becomes 0xff), until room bytes are full
     * or a marker or the end is reached; *from moves there. Returns the number of bytes written.
     * May write up to 64 more bytes, of any value.
     */
    size_t (*scan_clean)(const uint8_t **from, const uint8_t *end, uint8_t *to, size_t room);
    /*
     * Decode at most n MCUs from the reader's position, fewer if one would begin after its stop;
     * returns the number decoded. 0: an invalid code, a block that is too long, or a DC coefficient
     * beyond 16 bits; the reader is undefined then. Blocks need not be cleared before.
     */
    uint32_t (*scan_store)(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n,
                           int16_t (*blocks)[64]);
    /* The same without storing blocks. */
    uint32_t (*scan_skip)(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n);

    const struct mr_image_loops *image;
};

/* The best set for this machine, limited by MR_CPU. */
const struct mr_kernel_ops *mr_kernels_best(void);

/* A certain set; NULL if this build or this machine lacks it. */
const struct mr_kernel_ops *mr_kernels_find(enum mr_cpu cpu);

/* The sets. */
extern const struct mr_kernel_ops mr_kernels_c;
extern const struct mr_kernel_ops mr_kernels_avx2;
extern const struct mr_kernel_ops mr_kernels_avx512;

#endif
