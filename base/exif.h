/* SPDX-License-Identifier: Apache-2.0 */
/* The orientation tag of an EXIF block. */
#ifndef BASE_EXIF_H
#define BASE_EXIF_H

#include <stddef.h>
#include <stdint.h>

/*
 * Read the orientation, 1 to 8, of an EXIF block that starts with its TIFF header ("II*" or "MM").
 * Returns 1 if the block has none.
 */
uint32_t mr_exif_orientation(const uint8_t *tiff, size_t len);

#endif
