/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room's inner loops, one table for each set of instructions. Plain C is the reference, the
 * others give the same bits. A table is chosen once, by mr_kernels_best(), when an object is made.
 *
 * A row is `n` values, interleaved channels. The horizontal pass turns MR_STRIP_ROWS input rows
 * into a strip, whose layout is the set's own affair; the vertical pass makes an output row of the
 * strips that hold its taps. Where the vertical pass comes first, rows are put into strips as they
 * are, and the horizontal pass's rows are taken out of one.
 */
#ifndef TRANSFORMS_SIMD_KERNELS_H
#define TRANSFORMS_SIMD_KERNELS_H

#include "base/cpu.h"
#include "transforms/axis.h"
#include "transforms/simd/image_loops.h"

#include <millrace/transform.h>

/* Input rows to a strip. */
#define MR_STRIP_ROWS 4
/*
 * Strips, tables and scratch begin at multiples of this, and a strip has room for a multiple of so
 * many values.
 */
#define MR_KERNELS_ALIGN 64

struct mr_tensor_writer;
struct mr_scan_reader;
struct mr_scan_mcu;
struct mr_scan_lane;
struct mr_mix;

/* A horizontal pass, prepared once for an image. */
struct mr_resample_horizontal {
    const struct mr_axis *x;
    uint32_t channels;  /* 1, 3 or 4 */
    uint32_t row_bytes; /* that are read of an input row; where it has fewer, it must be copied
                           to longer memory */
    size_t stride;      /* values that a strip has room for in each row */
    uint8_t *tables;    /* the set's own, horizontal_bytes() */
    uint32_t way;       /* which loop, the set's own */
    uint32_t n_steps;   /* the set's own */
};

/* A vertical pass, the same way. */
struct mr_resample_vertical {
    const struct mr_axis *y;
    size_t stride;
    uint8_t *tables; /* the set's own, vertical_bytes() */
};

struct mr_kernel_ops {
    enum mr_cpu cpu;
    uint32_t strip_bytes; /* of a strip, for each value of a row */
    mr_axis_fill *fill;   /* NULL: plain C */

    /* Bytes of horizontal->tables; x, channels and row_bytes are set. */
    size_t (*horizontal_bytes)(const struct mr_resample_horizontal *horizontal);
    /* Fill tables, choose way; row_bytes may grow. */
    void (*horizontal_make)(struct mr_resample_horizontal *horizontal);
    /* Four rows to a strip. */
    void (*horizontal)(const struct mr_resample_horizontal *horizontal,
                       const uint8_t *const rows[MR_STRIP_ROWS], uint8_t *strip);
    /* The n values of four rows to a strip as they are. */
    void (*put_rows)(const uint8_t *const rows[MR_STRIP_ROWS], uint32_t n, size_t stride,
                     uint8_t *strip);
    /* The n values of row i of a strip. */
    void (*take_row)(const uint8_t *strip, size_t stride, uint32_t i, uint32_t n, uint8_t *out);

    size_t (*vertical_bytes)(const struct mr_axis *y);
    void (*vertical_make)(struct mr_resample_vertical *vertical);
    /* The n values of output i; strips[0] holds row y->start[i], the others follow. */
    void (*vertical)(const struct mr_resample_vertical *vertical, uint32_t i,
                     const uint8_t *const *strips, uint32_t n, uint8_t *out);

    /* n pixels of three interleaved channels to a row of each plane, in the writer's dtype. */
    void (*planes)(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                   void *const out[3]);
    /*
     * n values to as many floats; their channels are first, first + 1, ... and first again after
     * `channels`, 1 or 3.
     */
    void (*values)(const struct mr_tensor_writer *writer, const uint8_t *row, uint32_t n,
                   uint32_t first, uint32_t channels, void *out);

    /* MR_MIX_UP of n values (base/mix.h). out is neither of the rows. */
    void (*mix_floats)(const struct mr_mix *mix, const float *own, const float *partner, size_t n,
                       float *out);
    void (*mix_bytes)(const struct mr_mix *mix, const uint8_t *own, const uint8_t *partner,
                      size_t n, uint8_t *out);

    /* Blocks first to last - 1 of a tile, as mr_tile_expand_dct() (tile.h). */
    bool (*expand_dct)(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first,
                       uint32_t last, int16_t (*out)[64]);
    /*
     * The inverse DCT of n blocks of coefficients, bit for bit as libjpeg-turbo's vectors do it: of
     * block i to columns at + 8 i to at + 8 i + 7 of eight rows. Returns how many it did, all or
     * all but the last. NULL: libjpeg's own, block by block.
     */
    uint32_t (*idct_blocks)(int16_t *const *blocks, uint32_t n, const uint16_t quant[64],
                            uint8_t *const *rows, size_t at);
    /* XXH3 in 64 bits, as mr_xxh3() (base/xxh3.h). */
    uint64_t (*xxh3)(const void *bytes, size_t len);
    /* Blocks to a tile, as mr_tile_encode_dct(). */
    size_t (*encode_dct)(const int16_t (*blocks)[64], uint32_t n_blocks, uint8_t *out);

    /*
     * Bytes of a JPEG's scan to clean ones, each 0xff 0 to 0xff, until room bytes are full or a
     * marker or the end is reached; *from moves there. Returns the bytes written. May write up to
     * 64 bytes more, of any value.
     */
    size_t (*scan_clean)(const uint8_t **from, const uint8_t *end, uint8_t *to, size_t room);
    /*
     * At most n MCUs from where the reader stands, fewer where they begin behind its stop; returns
     * how many. 0: a code that is none, a block that is too long, a DC coefficient beyond 16 bits;
     * the reader is undefined then. What blocks hold does not matter.
     */
    uint32_t (*scan_store)(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n,
                           int16_t (*blocks)[64]);
    /* The same without blocks. */
    uint32_t (*scan_skip)(struct mr_scan_reader *reader, const struct mr_scan_mcu *mcu, uint32_t n);
    /*
     * The MCUs of n lanes, 1 to MR_SCAN_LANES, symbol by symbol in turn, until those of one are
     * complete, or its next one begins behind its stop, where none begins at first. Returns that
     * lane's number, the others stand anywhere; n where scan_store would return 0.
     */
    uint32_t (*scan_lanes)(struct mr_scan_lane *const *lanes, uint32_t n,
                           const struct mr_scan_mcu *mcu);

    const struct mr_image_loops *image;
};

/* The set for this machine, or the one that MR_CPU limits it to. */
const struct mr_kernel_ops *mr_kernels_best(void);

/* A certain set; NULL where this build or this machine lacks it. */
const struct mr_kernel_ops *mr_kernels_find(enum mr_cpu cpu);

/* The sets. */
extern const struct mr_kernel_ops mr_kernels_c;
extern const struct mr_kernel_ops mr_kernels_avx2;
extern const struct mr_kernel_ops mr_kernels_avx512;

#endif
