/* SPDX-License-Identifier: Apache-2.0 */
/* An image in memory, as the image operations see it: interleaved u8. */
#ifndef TRANSFORMS_IMAGE_OPS_IMAGE_H
#define TRANSFORMS_IMAGE_OPS_IMAGE_H

#include <stddef.h>
#include <stdint.h>

struct mr_image {
    uint8_t *pixels;
    uint32_t width;
    uint32_t height;
    uint32_t n_channels; /* 1 or 3 */
    size_t stride;       /* bytes from a row to the next one */
};

#endif
