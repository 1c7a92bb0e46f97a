/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the coefficients of a JPEG for the packer, and also the pixels if one pass gives both. The
 * first warning of libjpeg is an error here: a file with warnings is not packed.
 *
 * Call in this order: open, start, run, close. Every successful open needs a close.
 */
#ifndef PACKS_PACKER_JPEG_H
#define PACKS_PACKER_JPEG_H

#include "base/packed_image.h"
#include "transforms/codec.h"

#include <stdbool.h>

struct mr_packer_jpeg;
struct mr_packer_tiles;

mr_status mr_packer_jpeg_create(const struct mr_codec_limits *limits,
                                struct mr_packer_jpeg **jpeg_out, mr_error *error);
void mr_packer_jpeg_destroy(struct mr_packer_jpeg *jpeg);

enum mr_packer_jpeg_way {
    MR_PACKER_JPEG_WHOLE, /* start() reads the whole file; also used to get the text of a warning */
    MR_PACKER_JPEG_ONE_PASS, /* pixels and coefficients in one pass if the file allows it; our
                                decoder reads the codes */
    MR_PACKER_JPEG_STOCK     /* the same with libjpeg only */
};

/* Read the header. bytes must stay valid until close. MR_ERR_DAMAGED with libjpeg's message. */
mr_status mr_packer_jpeg_open(struct mr_packer_jpeg *jpeg, const uint8_t *bytes, size_t len,
                              enum mr_packer_jpeg_way way, struct mr_image_head *head_out,
                              mr_error *error);

/*
 * Read everything before the coefficients. *gives_pixels_out: run() gives pixels too.
 * MR_ERR_DAMAGED; MR_ERR_UNSUPPORTED: the file can be decoded, but not packed.
 */
mr_status mr_packer_jpeg_start(struct mr_packer_jpeg *jpeg, struct mr_packed_template *template_out,
                               bool *gives_pixels_out, mr_error *error);

/*
 * Pass all MCUs to tiles, which have begun. If start() said so, write all pixels, width x height x
 * 3, to pixels.
 */
mr_status mr_packer_jpeg_run(struct mr_packer_jpeg *jpeg, struct mr_packer_tiles *tiles,
                             uint8_t *pixels, mr_error *error);

/*
 * After a failed run(): true if our decoder met codes that it does not handle. libjpeg then decides
 * whether the file is good.
 */
bool mr_packer_jpeg_gave_up(const struct mr_packer_jpeg *jpeg);

void mr_packer_jpeg_close(struct mr_packer_jpeg *jpeg);

#endif
