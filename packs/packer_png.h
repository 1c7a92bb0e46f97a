/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PACKS_PACKER_PNG_H
#define PACKS_PACKER_PNG_H

#include "base/bytes.h"

/*
 * Write a PNG of width x height x 3 pixels, with an eXIf chunk if orientation is 2 or more. out is
 * cleared first. MR_ERR_DAMAGED with libpng's message; MR_ERR_NO_MEMORY.
 */
mr_status mr_packer_png_write(const uint8_t *pixels, uint32_t width, uint32_t height,
                              uint32_t orientation, struct mr_bytes *out, mr_error *error);

#endif
