/* SPDX-License-Identifier: Apache-2.0 */
/* BMP files as a format of codec_ops.h. */
#ifndef TRANSFORMS_CODEC_BMP_H
#define TRANSFORMS_CODEC_BMP_H

#include "transforms/codec_ops.h"

extern const struct mr_codec_ops mr_codec_bmp;

#endif
