/* SPDX-License-Identifier: Apache-2.0 */
/* Writes new JPEG files from pixels. */
#ifndef PACKS_PACKER_JPEG_WRITE_H
#define PACKS_PACKER_JPEG_WRITE_H

#include "packs/packer_bytes.h"

/*
 * A new JPEG of width x height x 3 pixels, grey where all of them are: 4:2:0, Huffman tables of its own, EXIF where
 * orientation is 2 or more. out is cleared first. MR_ERR_UNSUPPORTED: a side is longer than JPEG allows.
 */
mr_status mr_packer_jpeg_write(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t quality,
                               uint32_t orientation, struct mr_packer_bytes *out, mr_error *error);

/* An APP1 marker's content that says no more than the orientation. */
#define MR_PACKER_EXIF_BYTES 32
void mr_packer_jpeg_write_exif(uint32_t orientation, uint8_t exif_out[MR_PACKER_EXIF_BYTES]);

#endif
