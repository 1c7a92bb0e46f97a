/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A sample of a pack as the pack's index describes it: all that geometry and codec need before the
 * read. The dataset fills it in, the transforms use it. If the index was read from a file, only
 * its pointers have been checked. mr_packed_check() checks the other fields, and the decoder checks
 * marks.
 */
#ifndef BASE_PACKED_IMAGE_H
#define BASE_PACKED_IMAGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The form of a sample's bytes. Files contain these numbers. */
enum mr_packed_encoding {
    MR_PACKED_JPEG = 1, /* the file's bytes unchanged: a JPEG, a PNG, or anything else */
    MR_PACKED_RAW = 2,  /* u8 pixels, H,W,3 */
    MR_PACKED_DCT = 3,  /* tiles of quantised coefficients: nibbles with escapes */
    /* 4 was another form of tiles. */
    /*
     * A JPEG file's bytes unchanged, with marks in its scan (transforms/jpeg/jpeg_marks.h), which
     * are stored separately.
     */
    MR_PACKED_MARKED = 5,
};

/* The bytes of a file unchanged. */
static inline bool mr_packed_image_is_file(uint32_t encoding)
{
    return encoding == MR_PACKED_JPEG || encoding == MR_PACKED_MARKED;
}

/* Rows of tiles. Add new encodings of that kind here. */
static inline bool mr_packed_image_has_tiles(uint32_t encoding)
{
    return encoding == MR_PACKED_DCT;
}

/* Encodings with a template (JPEG parameters that samples share) and a row table. */
static inline bool mr_packed_image_has_rows(uint32_t encoding)
{
    return mr_packed_image_has_tiles(encoding) || encoding == MR_PACKED_MARKED;
}

#define MR_PACKED_MAX_COMPONENTS 4
/* MCUs in a tile; blocks in an MCU (JPEG's limit). */
#define MR_PACKED_TILE_MCUS 8
#define MR_PACKED_MAX_MCU_BLOCKS 10

/*
 * Parameters that many samples share: those of one JPEG encoder with one quality. 528 bytes,
 * little-endian in files.
 */
struct mr_packed_template {
    uint8_t n_components;                /* 1 to 4 */
    uint8_t colour;                      /* enum mr_packed_colour */
    uint8_t h[MR_PACKED_MAX_COMPONENTS]; /* sampling factors, 1 to 4; h and v are 1 with one
                                            component */
    uint8_t v[MR_PACKED_MAX_COMPONENTS];
    uint8_t zero[6];
    uint16_t quant[MR_PACKED_MAX_COMPONENTS][64]; /* of each component, in natural order; 0 for
                                                     missing components */
};

/* libjpeg's J_COLOR_SPACE of the file, with our own numbers. */
enum mr_packed_colour {
    MR_PACKED_GREY = 1,
    MR_PACKED_RGB = 2,
    MR_PACKED_YCC = 3,
    MR_PACKED_CMYK = 4,
    MR_PACKED_YCCK = 5,
};

struct mr_packed_image {
    uint32_t encoding; /* enum mr_packed_encoding */
    uint32_t flags;
    uint32_t width; /* as stored, before EXIF turns it; 0 if the header of a MR_PACKED_JPEG could
                       not be read */
    uint32_t height;
    uint32_t orientation; /* EXIF, 1 to 8 */
    uint32_t n_rows;      /* DCT, MARKED: rows of MCUs; otherwise 0 */
    uint64_t len;         /* bytes of the sample */
    /* DCT, MARKED: */
    const struct mr_packed_template *template;
    /*
     * n_rows + 1 offsets from the sample's start. Tiles: row r is [rows[r], rows[r + 1]). MARKED:
     * row r begins in the byte rows[r], and the scan's data end before rows[n_rows]; two rows may
     * begin in the same byte.
     */
    const uint32_t *rows;
    /* Tiles: the low 32 bits of XXH3 of each row; NULL: rows are not compared. */
    const uint32_t *sums;
    /* MARKED: NULL until the marks are read; without them the sample is decoded as a file. */
    const uint8_t *marks;
    size_t marks_len;
};

#endif
