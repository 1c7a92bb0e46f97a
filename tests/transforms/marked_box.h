/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes boxes of a JPEG by its marks, from no byte more than they need. A failure in here ends
 * the test program.
 */
#ifndef TESTS_TRANSFORMS_MARKED_BOX_H
#define TESTS_TRANSFORMS_MARKED_BOX_H

#include "base/packed_image.h"
#include "tests/transforms/scan_pair.h"

struct mr_kernel_ops;

/* A state of mr_codec_marked with the inverse DCT that works here. */
void *marked_box_make(const struct mr_kernel_ops *kernels);

/*
 * Decode a box of a file from a copy of the bytes that mr_packed_range() gives, followed by 64
 * bytes as in a reader's buffer. pixels: room for the box. image: unchanged, after its checks.
 */
mr_status marked_box_decode(void *state, const struct mr_packed_image *image, const uint8_t *file,
                            const struct scan_box *box, uint8_t *pixels, mr_error *error);

/* The same from bytes [offset, offset + len) of the file. */
mr_status marked_box_decode_part(void *state, const struct mr_packed_image *image,
                                 const uint8_t *file, uint64_t offset, uint64_t len,
                                 const struct scan_box *box, uint8_t *pixels, mr_error *error);

/* Are these the pixels of a box in a full picture? */
bool marked_box_equals(const uint8_t *full, uint32_t full_width, const struct scan_box *box,
                       const uint8_t *pixels);

#endif
