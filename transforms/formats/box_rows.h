/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pixels of a box, for codecs that decode a whole box at once: begin() reserves and fills them,
 * rows() hands them out.
 */
#ifndef TRANSFORMS_BOX_ROWS_H
#define TRANSFORMS_BOX_ROWS_H

#include "transforms/scratch.h"

#include <stddef.h>
#include <stdint.h>

/* All zero: empty. The memory is reused from image to image. */
struct mr_box_rows {
    struct mr_scratch memory;
    uint8_t *bytes;       /* the start of memory */
    const uint8_t *first; /* the box's first pixel */
    size_t stride;
    uint32_t height;
    uint32_t next_row;
};

/* Make room for n_bytes; the caller fills those of the box. MR_ERR_NO_MEMORY. */
mr_status mr_box_rows_reserve(struct mr_box_rows *rows, uint64_t n_bytes, mr_error *error);

/* The box begins offset bytes from the start, and its rows are stride bytes apart. */
void mr_box_rows_place(struct mr_box_rows *rows, size_t offset, size_t stride, uint32_t height);

/* As mr_codec_rows(). */
mr_status mr_box_rows_give(struct mr_box_rows *rows, const uint8_t **rows_out, uint32_t max_rows,
                           uint32_t *n_out, mr_error *error);

/* After an image: no rows are left, and large memory is freed. */
void mr_box_rows_clear(struct mr_box_rows *rows);

void mr_box_rows_fini(struct mr_box_rows *rows);

#endif
