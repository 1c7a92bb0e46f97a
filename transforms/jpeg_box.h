/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A box of pixels from an open libjpeg decompressor, wherever its coefficients come from: errors,
 * cut columns, skipped rows, and rows of RGB. The codec that embeds it opens and closes the
 * decompressor.
 *
 * Invariant: every call into libjpeg runs inside mr_jpeg_box_guard(), because libjpeg's errors
 * return by longjmp.
 */
#ifndef TRANSFORMS_JPEG_BOX_H
#define TRANSFORMS_JPEG_BOX_H

#include "transforms/codec_ops.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>

#include <jpeglib.h>

struct mr_jpeg_feed;

/* The first member of a codec's state, so a pointer to one is a pointer to the other. */
struct mr_jpeg_box {
    struct jpeg_decompress_struct cinfo; /* client_data is the box */
    struct jpeg_error_mgr errors;        /* the codec sets emit_message */
    jmp_buf escape;
    mr_status status; /* of the error that escaped */
    char words[JMSG_LENGTH_MAX];

    uint32_t x, y, width,
        height;           /* the box; the codec sets it and whole_rows before mr_jpeg_box_crop() */
    bool whole_rows;      /* neither columns nor rows may be skipped */
    uint32_t left, right; /* columns [left, right) are decoded; known after mr_jpeg_box_crop() */
    struct mr_jpeg_feed *feed; /* what stands in for libjpeg's decoder; NULL: nothing */
    uint32_t rows_left;        /* of the box */
    uint32_t rows_wanted;      /* by this step */
    uint8_t *buffer;           /* MR_CODEC_ROWS rows; only grows */
    size_t buffer_bytes;
    JSAMPROW row_starts[MR_CODEC_ROWS];
};

/* box is zeros. The codec creates the decompressor, for each image. */
void mr_jpeg_box_init(struct mr_jpeg_box *box);
void mr_jpeg_box_fini(struct mr_jpeg_box *box);

/* Run step. An error that escapes from it is set, with its message. */
mr_status mr_jpeg_box_guard(struct mr_jpeg_box *box, void (*step)(struct mr_jpeg_box *box),
                            mr_error *error);

/*
 * Inside a step: leave it with libjpeg's message for its current error, or (escape) with
 * box->words.
 */
_Noreturn void mr_jpeg_box_fail(j_common_ptr cinfo);
_Noreturn void mr_jpeg_box_escape(struct mr_jpeg_box *box, mr_status status);

/*
 * After the header: check the limits. many_scans: libjpeg holds the coefficients of the whole
 * image.
 */
mr_status mr_jpeg_box_check(const struct mr_jpeg_box *box, const struct mr_codec_limits *limits,
                            bool many_scans, mr_error *error);

/*
 * Inside a step, after jpeg_start_decompress(): choose the columns, then skip to the first row of
 * the box.
 */
void mr_jpeg_box_crop(struct mr_jpeg_box *box);
void mr_jpeg_box_skip(struct mr_jpeg_box *box);

/* A codec's rows(); the rows are RGB. */
mr_status mr_jpeg_box_rows(struct mr_jpeg_box *box, const uint8_t **rows_out, uint32_t max_rows,
                           uint32_t *n_out, mr_error *error);

#endif
