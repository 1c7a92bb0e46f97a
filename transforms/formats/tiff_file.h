/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first image of a TIFF, by libtiff: what its pixels are, which pieces (strips or tiles) hold
 * them, and the samples of the pieces. It accepts what Pillow accepts, with the same meaning.
 */
#ifndef TRANSFORMS_FORMATS_TIFF_FILE_H
#define TRANSFORMS_FORMATS_TIFF_FILE_H

#include "transforms/codec_limits.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_tiff_colours {
    MR_TIFF_WHITE_0 = 0,
    MR_TIFF_BLACK_0 = 1,
    MR_TIFF_RGB = 2,
    MR_TIFF_PALETTE = 3,
    MR_TIFF_CMYK = 5,
    MR_TIFF_YCC = 6
};

enum mr_tiff_number { MR_TIFF_UNSIGNED = 1, MR_TIFF_SIGNED = 2, MR_TIFF_FLOAT = 3 };

/* All zero: closed. */
struct mr_tiff_file {
    const uint8_t *bytes;
    size_t len;
    size_t at;      /* libtiff's position */
    void *handle;   /* libtiff's */
    bool called;    /* libtiff has been called */
    bool has_error; /* it has reported an error in this call; ... */
    char text[160]; /* ... the first one, ... */
    bool no_memory; /* ... and whether any was about memory */

    uint32_t width; /* as stored; neither side is 0 */
    uint32_t height;
    uint16_t orientation; /* 1 to 8 */
    uint16_t compression;
    uint16_t colours;   /* enum mr_tiff_colours */
    uint16_t number;    /* enum mr_tiff_number */
    uint16_t bits;      /* of each sample: 1, 2, 4, 8, 12, 16 or 32 */
    uint16_t n_samples; /* of a pixel, 1 to 6 */
    bool reversed;      /* the bits of each byte */
    bool premultiplied; /* the first extra sample is alpha, and the colours are multiplied by it */
    bool planar;        /* each sample has its own pieces */
    bool by_libtiff;    /* libtiff itself makes the colours: mr_tiff_file_read_colours() */
    const uint16_t *palette[3];

    bool tiled;
    uint32_t piece_width;
    uint32_t piece_height;
    uint32_t across; /* pieces side by side */
    uint32_t down;
    size_t row_bytes;       /* of a piece's row: of all samples, or of one plane */
    uint64_t library_bytes; /* memory that libtiff and its libraries may take */
};

/*
 * bytes stay valid until mr_tiff_file_close(), which is needed only after MR_OK. Of the limits only
 * pixels are checked here; no single allocation of libtiff is above the decoder's memory.
 * MR_ERR_DAMAGED says what is wrong or what Pillow does not know. Lack of memory inside libtiff is
 * MR_ERR_DAMAGED too, here and below (codec_ops.h: need).
 */
mr_status mr_tiff_file_open(struct mr_tiff_file *file, const struct mr_codec_limits *limits,
                            const uint8_t *bytes, size_t len, mr_error *error);

void mr_tiff_file_close(struct mr_tiff_file *file);

/*
 * Read the first n_rows rows of piece i, which has at least so many. Samples of 16 and 32 bits are
 * in this machine's byte order.
 */
mr_status mr_tiff_file_read_piece(struct mr_tiff_file *file, uint32_t i, uint32_t n_rows,
                                  uint8_t *out, mr_error *error);

/*
 * Read n_rows rows of the image from line on, as bytes R, G, B, A. line is the first row of a
 * piece, and all rows are in that piece.
 */
mr_status mr_tiff_file_read_colours(struct mr_tiff_file *file, uint32_t line, uint32_t n_rows,
                                    uint8_t *out, mr_error *error);

#endif
