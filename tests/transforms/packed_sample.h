/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEGs as samples of a pack, made by libjpeg's own reading of coefficients and the tiles' encoder,
 * so that decoders are tested without the packer. What fails here ends the test program.
 */
#ifndef TESTS_TRANSFORMS_PACKED_SAMPLE_H
#define TESTS_TRANSFORMS_PACKED_SAMPLE_H

#include "base/packed_image.h"
#include "tests/support/images.h"

#include <stdbool.h>

struct packed_sample {
    struct mr_packed_image image; /* leads into the struct, which must not move */
    struct mr_packed_template template;
    uint32_t *rows;
    uint8_t *marks;
    uint8_t *bytes; /* image.len of them, and MR_TILE_SLACK behind */
};

/* encoding: MR_PACKED_DCT. False where an MCU would have too many blocks; nothing is to be freed
 * then. */
bool packed_sample_make(const struct mr_test_image *jpeg, enum mr_packed_encoding encoding,
                        struct packed_sample *sample_out);
/* H,W,3 pixels, which are copied. */
void packed_sample_raw(const uint8_t *pixels, uint32_t width, uint32_t height,
                       struct packed_sample *sample_out);
/* A file as it is, and with marks. False where it can have none; nothing is to be freed then. */
void packed_sample_file(const struct mr_test_image *file, struct packed_sample *sample_out);
bool packed_sample_marked(const struct mr_test_image *file, struct packed_sample *sample_out);
void packed_sample_free(struct packed_sample *sample);

/*
 * A JPEG of the same layout with other numbers: some coefficients become anything that 15 bits and
 * a sign can hold, and every value of the quantisation tables anything that 16 bits can. Coded
 * arithmetically, since Huffman codes stop at ten bits.
 */
struct mr_test_image packed_sample_extreme(const struct mr_test_image *jpeg, uint64_t seed);

/*
 * What a test program's main() returns at once: 77, with the reason, where libjpeg's insides are
 * not known; 1 where they are and packed JPEGs cannot be decoded all the same; 0: the tests can
 * run.
 */
int packed_sample_cannot_run(void);

#endif
