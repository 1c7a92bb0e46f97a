/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the packer's tests share: packers, their samples' pixels, and files that are changed by
 * hand.
 */
#ifndef TESTS_PACKS_PACKER_SUPPORT_H
#define TESTS_PACKS_PACKER_SUPPORT_H

#include "tests/support/images.h"
#include "packs/packer.h"

/* Make a packer with these options. Limits that are 0 get their defaults. */
struct mr_packer *packer_make(const struct mr_packer_options *options);

/* Pack, which must not fail. */
struct mr_packed_sample packer_pack(struct mr_packer *packer, const uint8_t *bytes, size_t len);

/*
 * All pixels of a sample, decoded as by a loader; free them with free(). The test fails if the
 * sample cannot be decoded.
 */
uint8_t *packer_pixels(const struct mr_packed_image *image, const uint8_t *bytes);

/* A copy with n bytes of `more` inserted at `at`. The test frees it. */
struct mr_test_image packer_insert(const struct mr_test_image *file, size_t at, const void *more,
                                   size_t n);

/* The kinds of JPEG that every test tries; a NULL follows the last one. */
const struct mr_test_jpeg *packer_kind(uint32_t i);

#endif
