/* SPDX-License-Identifier: Apache-2.0 */
/* A file's format by its first bytes. The name is ignored: datasets have PNGs called .JPEG. */
#ifndef BASE_IMAGE_FORMAT_H
#define BASE_IMAGE_FORMAT_H

#include <stddef.h>
#include <stdint.h>

#define MR_IMAGE_FORMAT_JPEG "jpeg"
#define MR_IMAGE_FORMAT_PNG "png"
#define MR_IMAGE_FORMAT_BMP "bmp"
#define MR_IMAGE_FORMAT_PPM "ppm"
#define MR_IMAGE_FORMAT_WEBP "webp"
#define MR_IMAGE_FORMAT_TIFF "tiff"

/*
 * "jpeg", "png", "bmp", "ppm" (also for PBM and PGM), "webp", "tiff", "gif", "avif", "heif",
 * "text", "empty" or "unknown". bytes are the start of the file or all of it; at most 4096 bytes
 * are used. A file that ends within its signature still has that format if enough of the signature
 * is left.
 */
const char *mr_image_format_sniff(const uint8_t *bytes, size_t len);

#endif
