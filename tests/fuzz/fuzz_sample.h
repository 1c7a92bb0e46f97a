/* SPDX-License-Identifier: Apache-2.0 */
/* A sample of a pack as bytes: its description from the index, then its own bytes. */
#ifndef TESTS_FUZZ_FUZZ_SAMPLE_H
#define TESTS_FUZZ_FUZZ_SAMPLE_H

#include <stddef.h>
#include <stdint.h>

/* Then n_rows + 1 offsets of 32 bits, then the sample. */
struct fuzz_sample_head {
    uint8_t encoding;
    uint8_t orientation;
    uint8_t n_components;
    uint8_t colour;
    uint8_t h[4];
    uint8_t v[4];
    uint16_t width;
    uint16_t height;
    uint16_t n_rows;
    uint16_t quant;  /* tables grow from this */
    uint16_t box[4]; /* x, y, width, height, brought into the image */
};

#endif
