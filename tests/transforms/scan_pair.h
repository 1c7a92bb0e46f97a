/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes one JPEG with libjpeg alone and with our decoder of scans: pixels, statuses, messages and
 * warnings must be the same.
 */
#ifndef TESTS_TRANSFORMS_SCAN_PAIR_H
#define TESTS_TRANSFORMS_SCAN_PAIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "transforms/codec_limits.h"

struct mr_kernel_ops;

struct scan_box {
    uint32_t x, y, width, height;
};

struct scan_pair {
    void *stock, *own;   /* states of mr_codec_jpeg */
    uint32_t n_compared; /* boxes */
    uint32_t n_own;      /* of them, not decoded again by libjpeg */
};

void scan_pair_init(struct scan_pair *pair, const struct mr_codec_limits *limits,
                    const struct mr_kernel_ops *kernels);
void scan_pair_fini(struct scan_pair *pair);

/* Decode a box in both ways; NULL: everything. Returns NULL if they agree, or the difference. */
const char *scan_pair_compare(struct scan_pair *pair, const uint8_t *bytes, size_t len,
                              const struct scan_box *box);

/* A box inside width x height that depends on number. */
struct scan_box scan_pair_box(uint32_t number, uint32_t width, uint32_t height);

#endif
