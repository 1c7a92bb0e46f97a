/* SPDX-License-Identifier: Apache-2.0 */
/* The header of PBM, PGM and PPM files, P1 to P6. */
#ifndef BASE_PPM_HEADER_H
#define BASE_PPM_HEADER_H

#include <stddef.h>
#include <stdint.h>

struct mr_ppm_header {
    uint32_t kind; /* 1 to 6 */
    uint32_t channels;
    uint32_t width; /* 1 to 2^31 - 1, as height */
    uint32_t height;
    uint32_t maxval; /* 1 to 65535; 1 for kinds 1 and 4, which do not name it */
    size_t data_at;  /* where the pixels begin, at most len */
};

/* NULL, or what is wrong. bytes begin with P1 to P6 (mr_image_format_sniff()). */
const char *mr_ppm_header_read(const uint8_t *bytes, size_t len, struct mr_ppm_header *header_out);

/*
 * The number at *at, behind white space and comments. *at is then behind the one byte of white
 * space that ends it, or the end. NULL, or what is wrong. As in Pillow, a comment within a number
 * does not end it.
 */
const char *mr_ppm_header_number(const uint8_t *bytes, size_t len, size_t *at,
                                 uint32_t *number_out);

#endif
