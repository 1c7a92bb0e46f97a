/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is by its first bytes. Its name does not count: data sets hold PNGs called .JPEG. */
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
 * "jpeg", "png", "bmp", "ppm" (PBM and PGM too), "webp", "tiff", or "gif", "text", "empty",
 * "unknown". bytes are the file's first ones, up to all of it; the first 4096 decide. A file that
 * is cut within its signature has the format that it began with.
 */
const char *mr_image_format_sniff(const uint8_t *bytes, size_t len);

#endif
