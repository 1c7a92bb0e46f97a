/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a TIFF must be before libtiff sees it. libtiff copies every tag, whatever its size, and its
 * time grows with the square of their number; it decodes JPEGs of a hundred scans, and LZMA with a
 * dictionary of 4 GB.
 */
#ifndef TRANSFORMS_FORMATS_TIFF_CHECK_H
#define TRANSFORMS_FORMATS_TIFF_CHECK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Of LZMA's dictionary, which is checked, and of zstd's window, which is zstd's own limit. */
#define MR_TIFF_MAX_WINDOW_BYTES (UINT32_C(1) << 27)

/* Of the first directory. */
struct mr_tiff_check {
    bool big_endian;
    uint16_t colours; /* PhotometricInterpretation as the file has it: libtiff repairs it; */
    uint32_t n_extra; /* and ExtraSamples: how many, the first one, and whether the others are
                         zero */
    uint16_t first_extra;
    bool others_zero;
    uint64_t tag_bytes; /* of the values that lie outside of the directory; no more than the file
                           has */
};

/* Of a file whose first four bytes are a TIFF's. MR_ERR_DAMAGED, with the reason. */
mr_status mr_tiff_check_directory(struct mr_tiff_check *check, const uint8_t *bytes, size_t len,
                                  mr_error *error);

/* Is a strip a JPEG of one scan, with nothing odd ahead of it? */
bool mr_tiff_check_jpeg(const uint8_t *bytes, size_t len);

/*
 * Is a strip an xz stream whose blocks have dictionaries within the limit? reversed: the bits of
 * each byte are.
 */
bool mr_tiff_check_xz(const uint8_t *bytes, size_t len, bool reversed);

#endif
