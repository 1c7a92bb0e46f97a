/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the marks of a JPEG file (jpeg_marks.h) by skipping through its whole scan. Only files
 * without any oddity get marks: libjpeg decodes them without a warning, so a decoder that sees a
 * part of them does too.
 */
#ifndef TRANSFORMS_JPEG_MARK_MAKER_H
#define TRANSFORMS_JPEG_MARK_MAKER_H

#include "base/packed_image.h"
#include "transforms/codec_limits.h"

struct mr_mark_maker;

mr_status mr_mark_maker_create(const struct mr_codec_limits *limits,
                               struct mr_mark_maker **maker_out, mr_error *error);
void mr_mark_maker_destroy(struct mr_mark_maker *maker); /* may be NULL */

/*
 * image_out is complete; its pointers are valid until the next call. MR_ERR_UNSUPPORTED: the file
 * cannot have marks. MR_ERR_DAMAGED: its header cannot be read. MR_ERR_NO_MEMORY.
 */
mr_status mr_mark_maker_run(struct mr_mark_maker *maker, const uint8_t *bytes, size_t len,
                            struct mr_packed_image *image_out, mr_error *error);

#endif
