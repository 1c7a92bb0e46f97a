/* SPDX-License-Identifier: Apache-2.0 */
/* WebP files as a format of codec_ops.h. Without libwebp in the build, every file is damaged. */
#ifndef TRANSFORMS_CODEC_WEBP_H
#define TRANSFORMS_CODEC_WEBP_H

#include "transforms/codec_ops.h"

extern const struct mr_codec_ops mr_codec_webp;

#endif
