/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coefficients of a JPEG for the packer, together with its pixels where one pass can give both.
 * The first warning of libjpeg is an error here: a file with warnings is not packed.
 *
 * Call in this order: open, start, run, close. Close after each successful open.
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
    MR_PACKER_JPEG_WHOLE,    /* start() reads everything, which is also how to find a warning */
    MR_PACKER_JPEG_ONE_PASS, /* pixels with the coefficients, where the file allows it; codes by
                                our own decoder */
    MR_PACKER_JPEG_STOCK     /* the same by libjpeg alone */
};

/* The header. bytes must stay valid until close. MR_ERR_DAMAGED: the words are libjpeg's. */
mr_status mr_packer_jpeg_open(struct mr_packer_jpeg *jpeg, const uint8_t *bytes, size_t len,
                              enum mr_packer_jpeg_way way, struct mr_image_head *head_out,
                              mr_error *error);

/*
 * Everything up to the coefficients; *gives_pixels_out: does run() give pixels too? MR_ERR_DAMAGED;
 * MR_ERR_UNSUPPORTED: the file can be decoded, but has no place in a pack.
 */
mr_status mr_packer_jpeg_start(struct mr_packer_jpeg *jpeg, struct mr_packed_template *template_out,
                               bool *gives_pixels_out, mr_error *error);

/*
 * All MCUs to tiles, which have begun; all pixels, width x height x 3, to pixels where start() said
 * so.
 */
mr_status mr_packer_jpeg_run(struct mr_packer_jpeg *jpeg, struct mr_packer_tiles *tiles,
                             uint8_t *pixels, mr_error *error);

/*
 * After a run() that failed: is it because our decoder found something odd? libjpeg is then to
 * judge the file.
 */
bool mr_packer_jpeg_gave_up(const struct mr_packer_jpeg *jpeg);

void mr_packer_jpeg_close(struct mr_packer_jpeg *jpeg);

#endif
