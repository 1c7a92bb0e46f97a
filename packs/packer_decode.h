/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes whole images for the packer, files and packed samples. The pixels are stored in memory,
 * compared with those in memory, or discarded.
 */
#ifndef PACKS_PACKER_DECODE_H
#define PACKS_PACKER_DECODE_H

#include "base/packed_image.h"
#include "transforms/codec.h"
#include "packs/packer_jpeg.h"
#include "transforms/scratch.h"

#include <stdbool.h>

/* Starts as zeros. */
struct mr_packer_decode {
    struct mr_codec_limits limits;
    struct mr_codec *codec;
    struct mr_packer_jpeg *jpeg;
    struct mr_scratch
        pixels; /* width x height x 3 of the last full decode, then room for MR_TILE_SLACK */
};

mr_status mr_packer_decode_init(struct mr_packer_decode *decode,
                                const struct mr_codec_limits *limits, mr_error *error);
void mr_packer_decode_fini(struct mr_packer_decode *decode);

/* Reserve room for an image in decode->pixels. */
mr_status mr_packer_decode_reserve(struct mr_packer_decode *decode,
                                   const struct mr_image_head *head, mr_error *error);

/* Read a file's header. */
mr_status mr_packer_decode_head(struct mr_packer_decode *decode, const uint8_t *bytes, size_t len,
                                struct mr_image_head *head_out, mr_error *error);

/*
 * Decode a whole file; to_pixels: store the pixels. A libjpeg warning is MR_ERR_DAMAGED, with its
 * message. libpng warnings are ignored: they change no pixel.
 */
mr_status mr_packer_decode_file(struct mr_packer_decode *decode, const uint8_t *bytes, size_t len,
                                bool to_pixels, struct mr_image_head *head_out, mr_error *error);

/*
 * Check and decode a whole sample. If same_out is not NULL, *same_out says whether its pixels equal
 * those in decode->pixels.
 */
mr_status mr_packer_decode_sample(struct mr_packer_decode *decode,
                                  const struct mr_packed_image *image, const uint8_t *bytes,
                                  bool *same_out, mr_error *error);

#endif
