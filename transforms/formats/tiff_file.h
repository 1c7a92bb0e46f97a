/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The first directory of a TIFF: what its pixels are, and in which pieces (strips or tiles) they lie. What this reader
 * accepts is a part of what Pillow does, and means the same.
 */
#ifndef TRANSFORMS_FORMATS_TIFF_FILE_H
#define TRANSFORMS_FORMATS_TIFF_FILE_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mr_tiff_compression {
    MR_TIFF_PLAIN = 1,
    MR_TIFF_LZW = 5,
    MR_TIFF_JPEG = 7,
    MR_TIFF_DEFLATE = 8,
    MR_TIFF_OLD_DEFLATE = 32946,
    MR_TIFF_PACKBITS = 32773
};

enum mr_tiff_colours {
    MR_TIFF_WHITE_0 = 0,
    MR_TIFF_BLACK_0 = 1,
    MR_TIFF_RGB = 2,
    MR_TIFF_PALETTE = 3,
    MR_TIFF_CMYK = 5,
    MR_TIFF_YCC = 6
};

enum mr_tiff_number { MR_TIFF_UNSIGNED = 1, MR_TIFF_SIGNED = 2, MR_TIFF_FLOAT = 3 };

/* A tag's values: n of them, of so many bytes each, all inside the file. */
struct mr_tiff_values {
    size_t at;
    uint32_t n;
    uint32_t bytes; /* 1, 2 or 4; 0: the tag is not there */
};

struct mr_tiff_file {
    const uint8_t *bytes;
    size_t len;
    bool big_endian;

    uint32_t width; /* as stored; neither side is 0 */
    uint32_t height;
    uint32_t orientation; /* 1 to 8 */
    uint32_t compression; /* enum mr_tiff_compression */
    uint32_t predictor;   /* 1 none, 2 differences, 3 those of floats */
    uint32_t colours;     /* enum mr_tiff_colours */
    uint32_t number;      /* enum mr_tiff_number */
    uint32_t bits;        /* of each sample: 1, 2, 4, 8, 16 or 32 */
    uint32_t n_samples;   /* of a pixel, 1 to 6 */
    bool premultiplied;   /* the first extra sample is alpha, and the colours were multiplied with it */
    bool planar;          /* each sample has pieces of its own; then bits is 8 */
    bool reversed;        /* the bits of each byte */
    struct mr_tiff_values colour_map;
    struct mr_tiff_values jpeg_tables;
    bool ycc; /* a JPEG in YCbCr, which libjpeg makes RGB; colours says RGB */

    bool tiled;
    uint32_t piece_width;
    uint32_t piece_height;
    uint32_t across; /* pieces beside each other */
    uint32_t down;
    struct mr_tiff_values offsets;
    struct mr_tiff_values lengths;
};

/* MR_ERR_DAMAGED with what is wrong, or what this reader lacks. */
mr_status mr_tiff_file_read(struct mr_tiff_file *file, const uint8_t *bytes, size_t len, mr_error *error);

/* Value i, which is there. */
uint32_t mr_tiff_file_value(const struct mr_tiff_file *file, const struct mr_tiff_values *values, uint32_t i);

/* Bytes of a piece's row, of all samples or of a plane. */
uint64_t mr_tiff_file_row_bytes(const struct mr_tiff_file *file);

#endif
