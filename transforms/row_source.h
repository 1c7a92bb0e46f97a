/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a stage's input rows come from: a decoder, a raw sample, or an image in memory that an
 * earlier stage made.
 */
#ifndef TRANSFORMS_ROW_SOURCE_H
#define TRANSFORMS_ROW_SOURCE_H

#include "transforms/codec.h"
#include "transforms/geometry.h"

#define MR_ROW_SOURCE_MAX 16

struct mr_row_source {
    struct mr_codec *codec; /* NULL: the pixels below */
    const uint8_t *pixels;  /* of rows first_row to first_row + n_rows - 1 */
    int64_t first_row;      /* 0 except for a part of a packed sample, or a box of an image */
    int64_t first_column;   /* 0 except for a box */
    int64_t n_rows;
    size_t pixel_step; /* bytes from a pixel to its right neighbour, to the next row, to the next
                          channel */
    size_t row_step;
    size_t channel_step;
    uint32_t channels;
    uint8_t *row; /* scratch for one interleaved row; for planes only */
    struct mr_box box;
    int64_t n_given; /* rows of box given so far */
};

/*
 * The input is an image in memory: C,H,W (MR_NCHW) or H,W,C. row: width x channels bytes of
 * scratch, for planes only.
 */
void mr_row_source_init_pixels(struct mr_row_source *source, const uint8_t *pixels, uint32_t width,
                               uint32_t height, uint32_t channels, mr_layout layout, uint8_t *row);
/*
 * The same for interleaved pixels, of which only bytes [offset, offset + len) are there. A box must
 * be inside the rows that are complete.
 */
void mr_row_source_init_part(struct mr_row_source *source, const uint8_t *bytes, size_t len,
                             uint64_t offset, uint32_t width, uint32_t channels);
/* The same for interleaved RGB pixels of a box of the image. Later boxes must be inside it. */
void mr_row_source_init_box(struct mr_row_source *source, const uint8_t *pixels, struct mr_box box);
/* The input is the image that is open in codec. */
void mr_row_source_init_codec(struct mr_row_source *source, struct mr_codec *codec);

/* Choose the box, not empty. MR_ERR_DAMAGED if its rows are not there, or from the decoder. */
mr_status mr_row_source_begin(struct mr_row_source *source, struct mr_box box, mr_error *error);
/* The next 1 to MR_ROW_SOURCE_MAX interleaved rows of the box, valid until the next call. */
mr_status mr_row_source_rows(struct mr_row_source *source,
                             const uint8_t *rows_out[MR_ROW_SOURCE_MAX], uint32_t *n_out,
                             mr_error *error);

/*
 * Put row y of an image into its place in the upright one, interleaved RGB. width x height is the
 * size before turning.
 */
void mr_row_source_turn_row(const uint8_t *row, uint32_t y, uint32_t width, uint32_t height,
                            uint32_t orientation, uint8_t *upright);

#endif
