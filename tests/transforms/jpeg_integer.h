/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From quantised coefficients to RGB in 32-bit integer arithmetic: jidctint.c's inverse DCT,
 * libjpeg-turbo's fancy upsampling and its colour tables. It is an oracle for the pixels of packs;
 * a decoder on a GPU would compute exactly this.
 */
#ifndef TESTS_TRANSFORMS_JPEG_INTEGER_H
#define TESTS_TRANSFORMS_JPEG_INTEGER_H

#include "transforms/packed.h"
#include "transforms/scratch.h"

#include <stdbool.h>

#define MR_JPEG_INTEGER_COMPONENTS 3

/* The samples of a component, in whole MCUs. */
struct mr_jpeg_integer_plane {
    uint8_t *at;
    size_t stride;
    uint32_t width; /* of the true samples; upsampling ends there */
    uint32_t height;
    uint32_t horizontal; /* pixels to a sample */
    uint32_t vertical;
};

/* Starts as zeros. */
struct mr_jpeg_integer {
    const struct mr_packed_template *template;
    struct mr_packed_layout layout;
    uint32_t width;
    uint32_t height;
    struct mr_jpeg_integer_plane planes[MR_JPEG_INTEGER_COMPONENTS];
    struct mr_scratch samples; /* the memory of the planes */
    struct mr_scratch lines;   /* of one row */
    size_t line_bytes;
    const struct mr_jpeg_integer_ops *loops; /* for this machine */
};

/* Is it one of the colours and sampling factors that this arithmetic knows? */
bool mr_jpeg_integer_covers(const struct mr_packed_template *template);

void mr_jpeg_integer_fini(struct mr_jpeg_integer *decoder);

/* Start an image whose template is covered. template must stay valid until the last row. */
mr_status mr_jpeg_integer_begin(struct mr_jpeg_integer *decoder,
                                const struct mr_packed_image *image, mr_error *error);

/*
 * The blocks of n_mcus MCUs of a row of MCUs, from column on. samples: NULL, or what 16-bit vectors
 * (the kernels' idct_blocks, libjpeg-turbo's) made of the row's blocks inside the image:
 * samples[c][y] is row y of component c. They are copied if they cannot differ from the integers'.
 */
void mr_jpeg_integer_blocks(struct mr_jpeg_integer *decoder, uint32_t row, uint32_t column,
                            uint32_t n_mcus, const int16_t (*blocks)[64], uint8_t **const *samples);

/* After all blocks: row y, RGB, valid until the next call. */
const uint8_t *mr_jpeg_integer_row(struct mr_jpeg_integer *decoder, uint32_t y);

#endif
