/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pillow's antialiased filters along one axis: which input positions make an output position, with
 * which 22-bit weights.
 */
#ifndef TRANSFORMS_AXIS_H
#define TRANSFORMS_AXIS_H

#include "transforms/interpolation.h"
#include "transforms/scratch.h"

/* A weight of 1; Pillow's PRECISION_BITS for 8-bit channels. */
#define MR_WEIGHT_BITS 22

/*
 * Sets of loops other than plain C take an axis whose outputs are a multiple of this (the last one
 * is repeated), whose taps are a multiple of 4 (with zero weights), and which has no more than so
 * many taps and inputs.
 */
#define MR_AXIS_LANES 16
#define MR_AXIS_MAX_TAPS 512
#define MR_AXIS_MAX_IN (1 << 24)

struct mr_axis {
    bool identity; /* nothing is resampled: one tap with a weight of 1, output i is input i (n -
                      1 - i when reversed) */
    bool reversed;
    bool overshoots; /* some weights are below 0, so sums must be clipped at both ends */
    uint32_t n;      /* outputs */
    uint32_t max_taps;
    uint32_t pitch;  /* outputs that the tables have room for */
    uint32_t *start; /* first tap of each output, relative to the span's first position */
    uint32_t *count; /* taps of each output */
    int32_t *weight; /* of tap k of output i: weight[k * pitch + i]; 0 from count to the most
                        taps of any output */
    struct mr_scratch starts; /* behind the three pointers */
    struct mr_scratch counts;
    struct mr_scratch weights;
    struct mr_scratch shares; /* of one output, before they are rounded */
};

/* What an axis is made of. Integers are doubles where they are only calculated with. */
struct mr_axis_filter {
    enum mr_interpolation interpolation;
    double scale;   /* input positions per output position */
    double support; /* half the width of the filter, in input positions */
    double inverse; /* positions of the filter per input position */
    double lo;      /* the output position that output 0 shows */
    double step;    /* from one output to the next: 1, or -1 when reversed */
    int32_t in;     /* input positions */
    int32_t first;  /* input position that starts are relative to */
    uint32_t most;  /* taps that there is room for, no fewer than any output has */
};

/*
 * Starts, counts and weights of all outputs up to axis->pitch, and axis->max_taps: the loops of a
 * set that is not plain C. They know bilinear, box and bicubic; the other filters need a sine, or a
 * sum from the first output on.
 */
typedef void mr_axis_fill(struct mr_axis *axis, const struct mr_axis_filter *filter);

void mr_axis_fini(struct mr_axis *axis);

/*
 * Input positions [*first_out, *end_out) that outputs [lo, lo + n) of a resize from in to out
 * positions read; n >= 1. /
 */
void mr_axis_span(enum mr_interpolation interpolation, int64_t in, int64_t out, int64_t lo,
                  int64_t n, int64_t *first_out, int64_t *end_out);

/* May sets other than plain C take this axis? */
bool mr_axis_is_usual(enum mr_interpolation interpolation, int64_t in, int64_t out);

/*
 * Taps of outputs [lo, lo + n), n >= 1, inside [0, out). reversed: last one first. fill: NULL, or
 * that of another set, for a usual axis. Without fill, uniform asks that every output have max_taps
 * taps, by zero weights, none of them outside the span. Memory grows and is kept; the struct starts
 * as zeros.
 */
mr_status mr_axis_build(struct mr_axis *axis, enum mr_interpolation interpolation, int64_t in,
                        int64_t out, int64_t lo, int64_t n, bool reversed, bool uniform,
                        mr_axis_fill *fill, mr_error *error);

#endif
