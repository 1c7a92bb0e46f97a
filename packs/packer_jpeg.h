/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The coefficients of a JPEG for the packer, together with its pixels where one pass can give both. The first warning
 * of libjpeg is an error here: a file with warnings is not packed.
 *
 * Call in this order: open, start, run, close. Close after each successful open.
 */
#ifndef PACKS_PACKER_JPEG_H
#define PACKS_PACKER_JPEG_H

#include "base/packed_image.h"
#include "transforms/codec.h"
#include "packs/packer_bytes.h"

#include <stdbool.h>

struct mr_packer_jpeg;
struct mr_packer_tiles;

mr_status mr_packer_jpeg_create(const struct mr_codec_limits *limits, struct mr_packer_jpeg **jpeg_out,
                                mr_error *error);
void mr_packer_jpeg_destroy(struct mr_packer_jpeg *jpeg);

/*
 * The header. bytes must stay valid until close. in_one_pass: pixels with the coefficients, where the file allows it;
 * else start() reads everything, which is also how to find a warning. MR_ERR_DAMAGED: the words are libjpeg's.
 */
mr_status mr_packer_jpeg_open(struct mr_packer_jpeg *jpeg, const uint8_t *bytes, size_t len, bool in_one_pass,
                              struct mr_image_head *head_out, mr_error *error);

/*
 * Everything up to the coefficients; *gives_pixels_out: does run() give pixels too? MR_ERR_DAMAGED;
 * MR_ERR_UNSUPPORTED: the file can be decoded, but has no place in a pack.
 */
mr_status mr_packer_jpeg_start(struct mr_packer_jpeg *jpeg, struct mr_packed_template *template_out,
                               bool *gives_pixels_out, mr_error *error);

/* All MCUs to tiles, which have begun; all pixels, width x height x 3, to pixels where start() said so. */
mr_status mr_packer_jpeg_run(struct mr_packer_jpeg *jpeg, struct mr_packer_tiles *tiles, uint8_t *pixels,
                             mr_error *error);

void mr_packer_jpeg_close(struct mr_packer_jpeg *jpeg);

#endif
