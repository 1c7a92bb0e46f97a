/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pixels of a JPEG file with marks (jpeg/jpeg_marks.h). Each row of the box is decoded from the
 * mark before it, so only the bytes of these rows are needed. It is a format of codec_ops.h, except
 * that it has another open.
 */
#ifndef TRANSFORMS_CODEC_MARKED_H
#define TRANSFORMS_CODEC_MARKED_H

#include "transforms/codec_ops.h"

#include <stdbool.h>

struct mr_kernel_ops;
struct mr_packed_image;

/* All functions except open. */
extern const struct mr_codec_ops mr_codec_marked;

/*
 * Choose a set of loops, by default the best, and the inverse DCT: libjpeg's, or the kernels' if
 * they have one.
 */
void mr_codec_marked_use(void *state, const struct mr_kernel_ops *kernels, bool libjpeg_idct);

/*
 * bytes: [offset, offset + len) of the file. image has been checked and has marks. image and bytes
 * must stay valid until close. Marks and bytes may hold anything; anything odd in them is
 * MR_ERR_DAMAGED, here or later.
 */
mr_status mr_codec_marked_open(void *state, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error);

#endif
