/* SPDX-License-Identifier: Apache-2.0 */
/* Writes new JPEG files from pixels or from coefficients. */
#ifndef PACKS_PACKER_JPEG_WRITE_H
#define PACKS_PACKER_JPEG_WRITE_H

#include "base/packed_image.h"
#include "base/bytes.h"

/*
 * Write a JPEG of width x height x 3 pixels: 4:2:0, optimised Huffman tables, EXIF if orientation
 * is 2 or more. If all pixels are grey, it has one component. out is cleared first.
 * MR_ERR_UNSUPPORTED: a side is longer than JPEG allows.
 */
mr_status mr_packer_jpeg_write(const uint8_t *pixels, uint32_t width, uint32_t height,
                               uint32_t quality, uint32_t orientation, struct mr_bytes *out,
                               mr_error *error);

/*
 * Write a JPEG of a checked sample of coefficients, with the sample's quantisation tables,
 * sampling, colour and orientation, and optimised Huffman tables. It decodes to the same pixels.
 * bytes: the whole sample, with MR_TILE_SLACK after it; blocks: scratch of MR_TILE_MAX_BLOCKS,
 * 64-aligned. out is cleared first. MR_ERR_DAMAGED, MR_ERR_UNSUPPORTED, MR_ERR_NO_MEMORY.
 */
mr_status mr_packer_jpeg_write_coefficients(const struct mr_packed_image *image,
                                            const uint8_t *bytes, int16_t (*blocks)[64],
                                            struct mr_bytes *out, mr_error *error);

#endif
