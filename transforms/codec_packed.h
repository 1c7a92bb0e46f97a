/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pixels of a packed JPEG: libjpeg-turbo's own upsampling and colour, fed with samples made of tiles in place of what
 * decodes and transforms a row of MCUs. Its calls are codec.h's, but for open.
 */
#ifndef TRANSFORMS_CODEC_PACKED_H
#define TRANSFORMS_CODEC_PACKED_H

#include "transforms/codec_ops.h"

#include <stdbool.h>

struct mr_kernel_ops;
struct mr_packed_image;

/*
 * Can this machine's libjpeg be fed so? Decided once per process, by the version that this was compiled for and by a
 * self-test of the one that is there (packed_selftest.h); why_not (or NULL): one line. codec.h asks;
 * mr_codec_packed_open() does not.
 */
bool mr_codec_packed_works(const char **why_not);

/* Where it works: is the inverse DCT the kernels' where they have one? False: libjpeg's is used, since theirs differs.
 */
bool mr_codec_packed_transforms(void);

/* Everything but open. */
extern const struct mr_codec_ops mr_codec_packed;

/* Expand tiles by a certain set of loops; the best is chosen at creation. */
void mr_codec_packed_use(void *state, const struct mr_kernel_ops *kernels);

/*
 * bytes: [offset, offset + len) of the sample, with MR_TILE_SLACK readable bytes behind. image has been checked and
 * must stay valid until close, as bytes must. begin() with a box whose rows are not all there is MR_ERR_DAMAGED.
 */
mr_status mr_codec_packed_open(void *state, const struct mr_packed_image *image, const uint8_t *bytes, size_t len,
                               uint64_t offset, struct mr_image_head *head_out, mr_error *error);

#endif
