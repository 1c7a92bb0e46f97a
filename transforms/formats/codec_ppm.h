/* SPDX-License-Identifier: Apache-2.0 */
/* PBM, PGM and PPM files, plain and raw, as a format of codec_ops.h. */
#ifndef TRANSFORMS_CODEC_PPM_H
#define TRANSFORMS_CODEC_PPM_H

#include "transforms/codec_ops.h"

extern const struct mr_codec_ops mr_codec_ppm;

#endif
