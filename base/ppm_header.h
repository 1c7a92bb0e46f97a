/* SPDX-License-Identifier: Apache-2.0 */
/* The header of PBM, PGM and PPM files, P1 to P6. */
#ifndef BASE_PPM_HEADER_H
#define BASE_PPM_HEADER_H

#include <stddef.h>
#include <stdint.h>

struct mr_ppm_header {
    uint32_t kind; /* 1 to 6 */
    uint32_t channels;
    uint32_t width;  /* 1 to 2^31 - 1 */
    uint32_t height; /* likewise */
    uint32_t maxval; /* 1 to 65535; 1 for kinds 1 and 4, whose files do not have it */
    size_t data_at;  /* offset of the pixels, at most len */
};

/*
 * Read a header. bytes begin with P1 to P6 (mr_image_format_sniff()). Returns NULL, or a text that
 * says what is wrong.
 */
const char *mr_ppm_header_read(const uint8_t *bytes, size_t len, struct mr_ppm_header *header_out);

/*
 * Read the number at *at, after white space and comments. *at moves past the one byte of white
 * space that ends the number, or to the end. As in Pillow, a comment within a number does not end
 * it. Returns NULL, or a text that says what is wrong.
 */
const char *mr_ppm_header_number(const uint8_t *bytes, size_t len, size_t *at,
                                 uint32_t *number_out);

#endif
