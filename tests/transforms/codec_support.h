/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Shared by the codec's tests: decodes a box into memory and compares it with the same box of a
 * full picture.
 */
#ifndef TESTS_TRANSFORMS_CODEC_SUPPORT_H
#define TESTS_TRANSFORMS_CODEC_SUPPORT_H

#include "tests/support/images.h"
#include "transforms/codec.h"

struct codec_box {
    uint32_t x, y, width, height;
};

/* A codec with the default limits; the same as the state of a group of tests. */
struct mr_codec *codec_make(void);
int codec_set_up(void **state);
int codec_tear_down(void **state);

/* Fail unless the bytes do not open, as damaged, with this text. */
void codec_expect_damaged(struct mr_codec *codec, const void *bytes, size_t len, const char *text);

/*
 * Open, decode the box (NULL: everything) and close. On MR_OK the caller frees *pixels_out, which
 * has the box; otherwise it is NULL. rows_per_call varies with the box, so calls of all sizes are
 * used.
 */
mr_status codec_decode(struct mr_codec *codec, const uint8_t *bytes, size_t len,
                       const struct codec_box *box, struct mr_image_head *head_out,
                       uint8_t **pixels_out, mr_error *error);

/* True when box of a full picture of the given width equals pixels. */
bool codec_box_equals(const uint8_t *full, uint32_t full_width, const struct codec_box *box,
                      const uint8_t *pixels);

/*
 * A box inside width x height: the n-th of a fixed series that starts with corners, edges and
 * single pixels.
 */
struct codec_box codec_box_at(uint32_t n, uint32_t width, uint32_t height);

#endif
