/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whole images for the packer: decodes files and packed samples into memory, compares them with it,
 * or only tries them.
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
    struct mr_scratch pixels; /* width x height x 3 of the last full decode, room for
                                 MR_TILE_SLACK behind */
};

mr_status mr_packer_decode_init(struct mr_packer_decode *decode,
                                const struct mr_codec_limits *limits, mr_error *error);
void mr_packer_decode_fini(struct mr_packer_decode *decode);

/* Room for a picture in decode->pixels. */
mr_status mr_packer_decode_reserve(struct mr_packer_decode *decode,
                                   const struct mr_image_head *head, mr_error *error);

/* A file's header. */
mr_status mr_packer_decode_head(struct mr_packer_decode *decode, const uint8_t *bytes, size_t len,
                                struct mr_image_head *head_out, mr_error *error);

/*
 * Decode a whole file; to_pixels: keep the pixels. A warning of libjpeg is MR_ERR_DAMAGED, with its
 * message. Warnings of libpng are ignored: they change no pixel.
 */
mr_status mr_packer_decode_file(struct mr_packer_decode *decode, const uint8_t *bytes, size_t len,
                                bool to_pixels, struct mr_image_head *head_out, mr_error *error);

/*
 * Check and decode a whole sample. same_out, unless NULL: whether its pixels equal those in
 * decode->pixels.
 */
mr_status mr_packer_decode_sample(struct mr_packer_decode *decode,
                                  const struct mr_packed_image *image, const uint8_t *bytes,
                                  bool *same_out, mr_error *error);

#endif
