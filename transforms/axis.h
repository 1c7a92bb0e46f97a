/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pillow's antialiased bilinear filter along one axis: which input positions make an output position, with which
 * 22-bit weights.
 */
#ifndef TRANSFORMS_AXIS_H
#define TRANSFORMS_AXIS_H

#include "transforms/scratch.h"

/* A weight of 1; Pillow's PRECISION_BITS for 8-bit channels. */
#define MR_WEIGHT_BITS 22

struct mr_axis {
    bool identity; /* nothing is resampled: no taps are kept, output i is input i (n - 1 - i when reversed) */
    bool reversed;
    uint32_t n; /* outputs */
    uint32_t max_taps;
    uint32_t stride; /* weights from one output to the next */
    uint32_t *start; /* first tap of each output, relative to the span's first position */
    uint32_t *count; /* taps of each output */
    int32_t *weight;
    struct mr_scratch starts; /* behind the three pointers */
    struct mr_scratch counts;
    struct mr_scratch weights;
    struct mr_scratch shares; /* of one output, before they are rounded */
};

void mr_axis_fini(struct mr_axis *axis);

/* Input positions [*first_out, *end_out) that outputs [lo, lo + n) of a resize from in to out positions read; n >= 1.
 */
void mr_axis_span(int64_t in, int64_t out, int64_t lo, int64_t n, int64_t *first_out, int64_t *end_out);

/*
 * Taps of outputs [lo, lo + n), n >= 1, inside [0, out). reversed: last one first. uniform: every output has max_taps
 * taps, by zero weights, none of them outside the span. Memory grows and is kept; the struct starts as zeros.
 */
mr_status mr_axis_build(struct mr_axis *axis, int64_t in, int64_t out, int64_t lo, int64_t n, bool reversed,
                        bool uniform, mr_error *error);

#endif
