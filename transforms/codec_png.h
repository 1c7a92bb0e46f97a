/* SPDX-License-Identifier: Apache-2.0 */
/* PNG files as a format of codec_ops.h, and as masks. */
#ifndef TRANSFORMS_CODEC_PNG_H
#define TRANSFORMS_CODEC_PNG_H

#include "transforms/codec_ops.h"
#include "transforms/masks/mask_inflate.h"

extern const struct mr_codec_ops mr_codec_png;

/*
 * Decode a whole mask, width x height pixels: the indices of a palette, or grey of 8 or 16 bits.
 * MR_ERR_DAMAGED, also for another size and for other kinds of PNG; MR_ERR_NO_MEMORY.
 */
mr_status mr_codec_png_read_indices(const struct mr_codec_limits *limits, const uint8_t *bytes,
                                    size_t len, uint32_t width, uint32_t height,
                                    struct mr_mask_pixels *pixels, mr_error *error);

#endif
