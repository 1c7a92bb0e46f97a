/* SPDX-License-Identifier: Apache-2.0 */
/* WebP files as a format of codec_ops.h; every file is damaged where the build has no libwebp. */
#ifndef TRANSFORMS_CODEC_WEBP_H
#define TRANSFORMS_CODEC_WEBP_H

#include "transforms/codec_ops.h"

extern const struct mr_codec_ops mr_codec_webp;

#endif
