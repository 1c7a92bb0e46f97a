/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The images of tests/data/make_image_calls.py: photograph-like, flat, noise, and so on, in sizes
 * from 1 x 1 on.
 */
#ifndef TESTS_TRANSFORMS_KIND_IMAGE_H
#define TESTS_TRANSFORMS_KIND_IMAGE_H

#include "transforms/image_ops/image.h"

#include <stdint.h>

enum { KIND_IMAGE_SIZES = 8 };

/* Width and height; the last is the largest. */
extern const uint32_t kind_image_sizes[KIND_IMAGE_SIZES][2];

/* n_channels 1: the red one. The caller frees the pixels. */
struct mr_image kind_image_make(const char *kind, const uint32_t size[2], uint32_t n_channels);

#endif
