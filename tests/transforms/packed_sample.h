/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEGs as samples of a pack, made from the coefficients that libjpeg reads and with the encoder of
 * tiles, so decoders are tested without the packer. A failure in here ends the test program.
 */
#ifndef TESTS_TRANSFORMS_PACKED_SAMPLE_H
#define TESTS_TRANSFORMS_PACKED_SAMPLE_H

#include "base/packed_image.h"
#include "tests/support/images.h"

#include <stdbool.h>

struct packed_sample {
    struct mr_packed_image image; /* points into the struct, which must not move */
    struct mr_packed_template template;
    uint32_t *rows;
    uint8_t *marks;
    uint8_t *bytes; /* image.len of them, followed by MR_TILE_SLACK */
};

/*
 * encoding: MR_PACKED_DCT. False if an MCU would have too many blocks; then nothing has to be
 * freed.
 */
bool packed_sample_make(const struct mr_test_image *jpeg, enum mr_packed_encoding encoding,
                        struct packed_sample *sample_out);
/* H,W,3 pixels, which are copied. */
void packed_sample_raw(const uint8_t *pixels, uint32_t width, uint32_t height,
                       struct packed_sample *sample_out);
/* A file as it is, and with marks. False if it can have none; then nothing has to be freed. */
void packed_sample_file(const struct mr_test_image *file, struct packed_sample *sample_out);
bool packed_sample_marked(const struct mr_test_image *file, struct packed_sample *sample_out);
void packed_sample_free(struct packed_sample *sample);

/*
 * A JPEG of the same layout with other numbers: some coefficients become anything that 15 bits and
 * a sign can hold, and all values of the quantisation tables anything that 16 bits can. It is coded
 * arithmetically, because Huffman codes stop at ten bits.
 */
struct mr_test_image packed_sample_extreme(const struct mr_test_image *jpeg, uint64_t seed);

/*
 * What a test program's main() returns at once: 77, with the reason, if libjpeg's internals are
 * unknown; 1 if they are known but packed JPEGs cannot be decoded; 0: the tests can run.
 */
int packed_sample_cannot_run(void);

#endif
