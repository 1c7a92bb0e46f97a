/* SPDX-License-Identifier: Apache-2.0 */
/* TIFF files as a format of codec_ops.h. */
#ifndef TRANSFORMS_FORMATS_CODEC_TIFF_H
#define TRANSFORMS_FORMATS_CODEC_TIFF_H

#include "transforms/codec_ops.h"

extern const struct mr_codec_ops mr_codec_tiff;

#endif
