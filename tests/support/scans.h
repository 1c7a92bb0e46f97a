/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Baseline JPEGs written without an encoder: random coefficients in Huffman codes that encoders do
 * not make, with any run, any size, codes of 16 bits. A failure here ends the test program.
 */
#ifndef TESTS_SUPPORT_SCANS_H
#define TESTS_SUPPORT_SCANS_H

#include "tests/support/images.h"

enum mr_test_code {
    MR_TEST_CODE_FLAT, /* the same length for all symbols */
    /* two or three bits for symbols of small values, which are nearly all symbols */
    MR_TEST_CODE_SHORT,
    MR_TEST_CODE_LONG /* 16 bits for nearly all symbols */
};

struct mr_test_scan {
    uint32_t width, height;
    uint32_t seed;
    uint32_t n_components;  /* 1, 3 or 4 */
    uint8_t sampling[4][2]; /* 0: 1x1 */
    uint32_t restart;       /* MCUs, 0: none */
    enum mr_test_code code;
    bool dc_only;
    bool dc_grows; /* the first component's DC coefficients leave 16 bits */
};

struct mr_test_image mr_test_scan(const struct mr_test_scan *options);

/* Where the entropy-coded bytes of a JPEG's first scan begin. */
size_t mr_test_scan_start(const struct mr_test_image *image);

#endif
