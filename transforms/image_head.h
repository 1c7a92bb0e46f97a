/* SPDX-License-Identifier: Apache-2.0 */
/* What an image's header says before any pixel is decoded. */
#ifndef TRANSFORMS_IMAGE_HEAD_H
#define TRANSFORMS_IMAGE_HEAD_H

#include <stdint.h>

struct mr_image_head {
    uint32_t width;
    uint32_t height;
    uint32_t orientation; /* EXIF, 1 to 8; 1 if the file has none */
};

#endif
