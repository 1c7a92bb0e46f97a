/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pillow's antialiased filters along one axis: which input positions make an output position, and
 * with which 22-bit weights.
 */
#ifndef TRANSFORMS_AXIS_H
#define TRANSFORMS_AXIS_H

#include "transforms/interpolation.h"
#include "transforms/scratch.h"

/* A weight of 1; Pillow's PRECISION_BITS for 8-bit channels. */
#define MR_WEIGHT_BITS 22

/*
 * What sets of loops other than plain C need: outputs padded to a multiple of MR_AXIS_LANES (the
 * last one is repeated), taps padded to a multiple of 4 (with zero weights), and at most this many
 * taps and inputs.
 */
#define MR_AXIS_LANES 16
#define MR_AXIS_MAX_TAPS 512
#define MR_AXIS_MAX_IN (1 << 24)

struct mr_axis {
    bool identity; /* nothing is resampled: one tap with a weight of 1; output i is input i, or n -
                      1 - i if reversed */
    bool reversed;
    bool overshoots; /* some weights are below 0, so sums must be clipped at both ends */
    uint32_t n;      /* outputs */
    uint32_t max_taps;
    uint32_t pitch;  /* outputs that the tables have room for */
    uint32_t *start; /* first tap of each output, relative to the span's first position */
    uint32_t *count; /* taps of each output */
    int32_t *weight; /* of tap k of output i: weight[k * pitch + i]; 0 after the output's taps, up
                        to the most taps of any output */
    struct mr_scratch starts; /* the memory of the three arrays */
    struct mr_scratch counts;
    struct mr_scratch weights;
    struct mr_scratch shares; /* of one output, before they are rounded */
};

/* What an axis is computed from. Integers that are only calculated with are doubles. */
struct mr_axis_filter {
    enum mr_interpolation interpolation;
    double scale;   /* input positions per output position */
    double support; /* half the width of the filter, in input positions */
    double inverse; /* positions of the filter per input position */
    double lo;      /* the output position that output 0 shows */
    double step;    /* from one output to the next: 1, or -1 when reversed */
    int32_t in;     /* input positions */
    int32_t first;  /* input position that starts are relative to */
    uint32_t most;  /* taps that there is room for; no output has more */
};

/*
 * The loops of a vector set: fill starts, counts and weights of all outputs up to axis->pitch, and
 * axis->max_taps. They know bilinear, box and bicubic. The other filters need a sine, or a sum from
 * the first output on.
 */
typedef void mr_axis_fill(struct mr_axis *axis, const struct mr_axis_filter *filter);

void mr_axis_fini(struct mr_axis *axis);

/*
 * The input positions [*first_out, *end_out) that outputs [lo, lo + n) read in a resize from in to
 * out positions; n >= 1.
 */
void mr_axis_span(enum mr_interpolation interpolation, int64_t in, int64_t out, int64_t lo,
                  int64_t n, int64_t *first_out, int64_t *end_out);

/* Can sets other than plain C use this axis? */
bool mr_axis_is_usual(enum mr_interpolation interpolation, int64_t in, int64_t out);

/*
 * Build the taps of outputs [lo, lo + n), n >= 1, inside [0, out). reversed: last one first. fill:
 * NULL, or another set's, for a usual axis. uniform, if fill is NULL: pad every output to max_taps
 * with zero weights, none of them outside the span. The memory grows and stays allocated. *axis
 * starts as zeros.
 */
mr_status mr_axis_build(struct mr_axis *axis, enum mr_interpolation interpolation, int64_t in,
                        int64_t out, int64_t lo, int64_t n, bool reversed, bool uniform,
                        mr_axis_fill *fill, mr_error *error);

#endif
