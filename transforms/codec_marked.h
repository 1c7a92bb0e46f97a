/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pixels of a JPEG file with marks (jpeg/jpeg_marks.h): each row of the box is decoded from the
 * mark in front of it, so it needs only the bytes of these rows. It is a format of codec_ops.h with
 * an open of its own.
 */
#ifndef TRANSFORMS_CODEC_MARKED_H
#define TRANSFORMS_CODEC_MARKED_H

#include "transforms/codec_ops.h"

#include <stdbool.h>

struct mr_kernel_ops;
struct mr_packed_image;

/* Everything but open. */
extern const struct mr_codec_ops mr_codec_marked;

/*
 * By a certain set of loops, the best after creation; and by libjpeg's inverse DCT, or the kernels'
 * where they have one.
 */
void mr_codec_marked_use(void *state, const struct mr_kernel_ops *kernels, bool libjpeg_idct);

/*
 * bytes: [offset, offset + len) of the file. image has been checked, its marks are there, and it
 * must stay valid until close, as bytes must. Marks and bytes may hold anything; whatever is odd in
 * them is MR_ERR_DAMAGED, here or later.
 */
mr_status mr_codec_marked_open(void *state, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error);

#endif
