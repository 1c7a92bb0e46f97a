/* SPDX-License-Identifier: Apache-2.0 */
/* The files of tests/data/formats.json, with what Pillow decodes of them. */
#ifndef TESTS_SUPPORT_FORMAT_CORPUS_H
#define TESTS_SUPPORT_FORMAT_CORPUS_H

#include "tests/support/images.h"

struct mr_format_example {
    char name[64];
    struct mr_test_image file;
    uint32_t width;
    uint32_t height;
    uint32_t orientation;
    uint32_t crc; /* of width x height x 3 bytes */
};

/* Ends the program on failure. Ownership: the caller's, for mr_format_corpus_free(). */
struct mr_format_example *mr_format_corpus_load(size_t *n_out);
void mr_format_corpus_free(struct mr_format_example *examples, size_t n);

#endif
