/* SPDX-License-Identifier: Apache-2.0 */
/* JPEG files as a format of codec_ops.h. After creation, libjpeg alone decodes them. */
#ifndef TRANSFORMS_CODEC_JPEG_H
#define TRANSFORMS_CODEC_JPEG_H

#include "transforms/codec_ops.h"

#include <stdbool.h>

struct mr_kernel_ops;

extern const struct mr_codec_ops mr_codec_jpeg;

/*
 * How baseline files of one scan are decoded. libjpeg decodes all others. Pixels and errors are the
 * same.
 */
enum mr_codec_jpeg_decoder {
    MR_CODEC_JPEG_STOCK,    /* by libjpeg */
    MR_CODEC_JPEG_OWN_SCAN, /* by our decoder of scans, and libjpeg's inverse DCT */
    MR_CODEC_JPEG_OWN       /* and the kernels' inverse DCT, where they have one */
};

/*
 * From the next begin() on. The caller has checked with packed_selftest.h what works on this
 * machine.
 */
void mr_codec_jpeg_use(void *state, enum mr_codec_jpeg_decoder decoder,
                       const struct mr_kernel_ops *kernels);

/* Was the last image, as far as its rows were read, decoded without libjpeg's decoder of scans? */
bool mr_codec_jpeg_used_own(const void *state);

#endif
