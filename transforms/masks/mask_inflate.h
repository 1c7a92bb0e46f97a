/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pixels of a mask's PNG, read with libdeflate, which inflates a whole stream about three times
 * as fast as libpng with zlib. Only what is plain is read here. codec_png.c reads the file's header
 * before, and whatever is odd after it, so libpng's verdict counts.
 */
#ifndef TRANSFORMS_MASKS_MASK_INFLATE_H
#define TRANSFORMS_MASKS_MASK_INFLATE_H

#include "transforms/scratch.h"

/* Decoded pixels, and the memory that they are decoded in. Starts as zeros. */
struct mr_mask_pixels {
    const uint8_t *first; /* the first row */
    size_t row_bytes;     /* from a row to the next one */
    size_t pixel_bytes;   /* 1, or 2 with the high byte first */
    struct mr_scratch rows;
    struct mr_scratch stream; /* what the chunks hold, joined */
    void *inflater;
};

void mr_mask_inflate_fini(struct mr_mask_pixels *pixels);

/*
 * Read width x height pixels of pixels->pixel_bytes. chunks: the file from the first IDAT chunk on;
 * the image is not interlaced. False if something is odd or memory is lacking.
 */
bool mr_mask_inflate_run(struct mr_mask_pixels *pixels, const uint8_t *chunks, size_t len,
                         uint32_t width, uint32_t height);

#endif
