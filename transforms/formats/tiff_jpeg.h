/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG in a TIFF: each strip or tile is an image of its own, whose tables may be shared. */
#ifndef TRANSFORMS_FORMATS_TIFF_JPEG_H
#define TRANSFORMS_FORMATS_TIFF_JPEG_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_tiff_jpeg;

mr_status mr_tiff_jpeg_create(struct mr_tiff_jpeg **jpeg_out, mr_error *error);
void mr_tiff_jpeg_destroy(struct mr_tiff_jpeg *jpeg);

struct mr_tiff_jpeg_strip {
    const uint8_t *tables; /* NULL: none are shared */
    size_t tables_len;
    const uint8_t *bytes;
    size_t len;
    uint32_t width;
    uint32_t n_samples; /* of a pixel, 8 bits each */
    bool ycc;           /* becomes RGB; otherwise samples stay what they are */
};

/* The first n_rows rows. MR_ERR_DAMAGED with libjpeg's words, also for its warnings; MR_ERR_NO_MEMORY. */
mr_status mr_tiff_jpeg_run(struct mr_tiff_jpeg *jpeg, const struct mr_tiff_jpeg_strip *strip, uint32_t n_rows,
                           uint8_t *out, mr_error *error);

#endif
