/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Checks a TIFF before libtiff sees it. libtiff copies every tag, whatever its size, and its time
 * grows with the square of their number. It decodes JPEGs of a hundred scans, and LZMA with a
 * dictionary of 4 GB.
 */
#ifndef TRANSFORMS_FORMATS_TIFF_CHECK_H
#define TRANSFORMS_FORMATS_TIFF_CHECK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/*
 * The limit of LZMA's dictionary, which is checked here, and of zstd's window, which zstd checks
 * itself.
 */
#define MR_TIFF_MAX_WINDOW_BYTES (UINT32_C(1) << 27)

/* What the first directory says. */
struct mr_tiff_check {
    bool big_endian;
    uint16_t colours; /* PhotometricInterpretation as in the file, before libtiff repairs it */
    uint32_t n_extra; /* ExtraSamples: how many, the first one, and whether the others are 0 */
    uint16_t first_extra;
    bool others_zero;
    uint64_t tag_bytes; /* of the values outside the directory; at most the file's bytes */
};

/* Check a file whose first four bytes are a TIFF's. MR_ERR_DAMAGED, with the reason. */
mr_status mr_tiff_check_directory(struct mr_tiff_check *check, const uint8_t *bytes, size_t len,
                                  mr_error *error);

/* Is a strip a JPEG of one scan, with nothing odd before the scan? */
bool mr_tiff_check_jpeg(const uint8_t *bytes, size_t len);

/*
 * Is a strip an xz stream whose blocks have dictionaries within the limit? reversed: the bits of
 * each byte are reversed.
 */
bool mr_tiff_check_xz(const uint8_t *bytes, size_t len, bool reversed);

#endif
