/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an image shows beyond its edges, along one axis: torchvision's padding modes, which are
 * numpy.pad's.
 */
#ifndef TRANSFORMS_PADDING_H
#define TRANSFORMS_PADDING_H

#include <stdint.h>

/* mr_transform_padding_modes (transform.h) has their names. */
enum mr_padding_mode {
    MR_PADDING_CONSTANT,
    MR_PADDING_EDGE,
    MR_PADDING_REFLECT,   /* c b a b c b a: the edge is not repeated */
    MR_PADDING_SYMMETRIC, /* b a a b c c b */
    MR_N_PADDING_MODES
};

/* The pixel, 0 to n - 1, that place i shows, however far outside; -1: the constant. */
int64_t mr_padding_place(enum mr_padding_mode mode, int64_t n, int64_t i);

/*
 * The pixels *first_out to *end_out - 1 that places `at` to at + len - 1 show, len above 0; both 0
 * if none.
 */
void mr_padding_span(enum mr_padding_mode mode, int64_t n, int64_t at, int64_t len,
                     int64_t *first_out, int64_t *end_out);

#endif
