/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pixels of a packed JPEG: tiles become samples here, and libjpeg-turbo does the upsampling and the
 * colours. It is a format of codec_ops.h with an open of its own.
 */
#ifndef TRANSFORMS_CODEC_PACKED_H
#define TRANSFORMS_CODEC_PACKED_H

#include "transforms/codec_ops.h"

#include <stdbool.h>

struct mr_kernel_ops;
struct mr_packed_image;

/* Everything but open. */
extern const struct mr_codec_ops mr_codec_packed;

/* Expand tiles by a certain set of loops; the best is chosen at creation. */
void mr_codec_packed_use(void *state, const struct mr_kernel_ops *kernels);

/* True: libjpeg's inverse DCT. False, as after creation: the kernels' where they have one. */
void mr_codec_packed_use_libjpeg_idct(void *state, bool libjpeg_idct);

/*
 * bytes: [offset, offset + len) of the sample, with MR_TILE_SLACK readable bytes behind. image has
 * been checked and must stay valid until close, as bytes must. begin() with a box whose rows are
 * not all there is MR_ERR_DAMAGED.
 */
mr_status mr_codec_packed_open(void *state, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error);

#endif
