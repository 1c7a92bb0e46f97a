/* SPDX-License-Identifier: Apache-2.0 */
/* Replaces mask_inflate.c in a build without libdeflate: libpng reads all masks. */
#include "transforms/masks/mask_inflate.h"

void mr_mask_inflate_fini(struct mr_mask_pixels *pixels)
{
    mr_scratch_fini(&pixels->rows);
}

bool mr_mask_inflate_run(struct mr_mask_pixels *pixels, const uint8_t *chunks, size_t len,
                         uint32_t width, uint32_t height)
{
    (void)pixels;
    (void)chunks;
    (void)len;
    (void)width;
    (void)height;
    return false;
}
