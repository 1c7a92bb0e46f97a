/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Packed samples by arithmetic alone: is the description valid, what is the layout of MCUs and
 * tiles, and which bytes does a box need. Nothing here sees pixels or libjpeg.
 */
#ifndef TRANSFORMS_PACKED_H
#define TRANSFORMS_PACKED_H

#include "base/packed_image.h"
#include "transforms/codec_limits.h"
#include "transforms/geometry.h"

/* The layout of a DCT or MARKED sample. With one component an MCU is one block. */
struct mr_packed_layout {
    uint32_t mcu_width; /* pixels */
    uint32_t mcu_height;
    uint32_t n_columns; /* MCUs per row */
    uint32_t n_rows;    /* of MCUs */
    uint32_t n_tiles;   /* per row */
    uint32_t n_blocks;  /* per MCU */
};

/*
 * Computed from width, height and template, which mr_packed_check() has accepted; it need not have
 * checked rows.
 */
void mr_packed_layout(const struct mr_packed_image *image, struct mr_packed_layout *layout_out);

#define MR_PACKED_MAX_ROWS 8192 /* JPEG's 65535 pixels in MCUs of 8 */

/*
 * A copy of an image and of what it points to, so what is checked is what is used. The image's
 * index is a mapped file, which may be overwritten at any time.
 */
struct mr_packed_copy {
    struct mr_packed_image image;
    struct mr_packed_template template;
    uint32_t rows[MR_PACKED_MAX_ROWS + 1];
    uint32_t sums[MR_PACKED_MAX_ROWS];
};

/*
 * Returns the image in copy. An image with too many rows keeps its own table; mr_packed_check()
 * refuses it because of their number.
 */
const struct mr_packed_image *mr_packed_copy(struct mr_packed_copy *copy,
                                             const struct mr_packed_image *image);

/*
 * Check everything that a hostile index may contain: sizes within limits, sampling factors,
 * quantisation tables, offsets that grow and end at len, lengths of raw pixels. Marks are not
 * checked. MR_ERR_DAMAGED with the reason; the caller adds the sample's name.
 */
mr_status mr_packed_check(const struct mr_packed_image *image, const struct mr_codec_limits *limits,
                          mr_error *error);

/*
 * The first and the last row of MCUs that a box inside the image is decoded from, including its
 * margin.
 */
void mr_packed_rows(const struct mr_packed_image *image, const struct mr_packed_layout *layout,
                    struct mr_box box, uint32_t *first_out, uint32_t *last_out);

/*
 * The bytes of a checked sample that a box inside the image needs, as one range. MR_PACKED_JPEG:
 * all of it. MR_PACKED_MARKED: those for a decoder that has the marks.
 */
void mr_packed_range(const struct mr_packed_image *image, struct mr_box box, uint64_t *offset_out,
                     uint64_t *len_out);

#endif
