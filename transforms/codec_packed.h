/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pixels of a packed JPEG: tiles become samples here, and libjpeg-turbo does the upsampling and the
 * colours. It is a format of codec_ops.h, except that it has another open.
 */
#ifndef TRANSFORMS_CODEC_PACKED_H
#define TRANSFORMS_CODEC_PACKED_H

#include "transforms/codec_ops.h"

#include <stdbool.h>

struct mr_kernel_ops;
struct mr_packed_image;

/* All functions except open. */
extern const struct mr_codec_ops mr_codec_packed;

/* Expand tiles with a certain set of loops. The default is the best set. */
void mr_codec_packed_use(void *state, const struct mr_kernel_ops *kernels);

/* True: libjpeg's inverse DCT. False, the default: the kernels', if they have one. */
void mr_codec_packed_use_libjpeg_idct(void *state, bool libjpeg_idct);

/*
 * bytes: [offset, offset + len) of the sample, followed by MR_TILE_SLACK readable bytes. image has
 * been checked. image and bytes must stay valid until close. begin() returns MR_ERR_DAMAGED if some
 * rows of its box are missing.
 */
mr_status mr_codec_packed_open(void *state, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error);

#endif
