/* SPDX-License-Identifier: Apache-2.0 */
/* The compressions of a TIFF's strips and tiles. */
#ifndef TRANSFORMS_FORMATS_TIFF_UNPACK_H
#define TRANSFORMS_FORMATS_TIFF_UNPACK_H

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct mr_tiff_unpack; /* memory that is kept from strip to strip */

mr_status mr_tiff_unpack_create(struct mr_tiff_unpack **unpack_out, mr_error *error);
void mr_tiff_unpack_destroy(struct mr_tiff_unpack *unpack);

/*
 * The first n_out bytes of a strip. whole: there are no more, so what stands behind them is checked too. compression is
 * none of MR_TIFF_PLAIN. MR_ERR_DAMAGED, MR_ERR_NO_MEMORY.
 */
mr_status mr_tiff_unpack_run(struct mr_tiff_unpack *unpack, uint32_t compression, const uint8_t *bytes, size_t len,
                             uint8_t *out, size_t n_out, bool whole, mr_error *error);

#endif
