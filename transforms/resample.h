/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stage of the geometry, row by row: input rows go in as they arrive, output rows come out as soon as their last
 * tap is there. Results are Pillow's, bit for bit: horizontal pass first, rounded to u8, then the vertical one.
 */
#ifndef TRANSFORMS_RESAMPLE_H
#define TRANSFORMS_RESAMPLE_H

#include "transforms/axis.h"
#include "transforms/geometry.h"
#include "transforms/store.h"

/* The inner loops. Chosen once; a faster set overwrites entries. */
struct mr_resample_ops {
    /*
     * Two interleaved input rows through the horizontal filter at once; the axis is uniform and no identity. planar:
     * the output rows hold x->n values of each channel in turn instead of interleaved pixels. scratch: in_width x
     * channels.
     */
    void (*horizontal)(const struct mr_axis *x, uint32_t channels, bool planar, uint32_t in_width,
                       const uint8_t *const in[2], uint8_t *const out[2], uint64_t *scratch);
    /* out[i] = sum of weight[k] * rows[k][i], rounded, for i < len. */
    void (*vertical)(const uint8_t *const *rows, const int32_t *weight, uint32_t n_taps, uint32_t len, uint8_t *out);
};

/* The set for this machine. */
const struct mr_resample_ops *mr_resample_ops_default(void);

struct mr_resample {
    const struct mr_resample_ops *ops;
    const struct mr_stage *stage;
    struct mr_store *store;
    uint32_t channels;
    uint32_t n_planes; /* of rows after the horizontal pass: as the store wants them */
    struct mr_axis x;
    struct mr_axis y;
    uint32_t in_width;  /* pixels of an input row */
    uint32_t n_pushed;  /* input rows taken */
    uint32_t n_emitted; /* live output rows made */
    uint32_t n_held;    /* 1: an input row waits in held for a second one */
    size_t ring_stride; /* bytes */
    uint32_t ring_rows;
    struct mr_scratch held;  /* a copy of that row */
    struct mr_scratch ring;  /* rows after the horizontal pass */
    struct mr_scratch pairs; /* two input rows side by side */
    struct mr_scratch taps;  /* pointers to the rows of one output row */
};

/* The struct starts as zeros; memory grows to the largest stage seen and is kept. */
void mr_resample_fini(struct mr_resample *resample);

/* Start a stage whose output goes to store. What is zero whatever comes is written now. */
mr_status mr_resample_begin(struct mr_resample *resample, const struct mr_stage *stage, uint32_t channels,
                            struct mr_store *store, mr_error *error);

/* The next rows of stage->need, top down, stage->need.height in all. They are not read after the call. */
void mr_resample_push(struct mr_resample *resample, const uint8_t *const *rows, uint32_t n_rows);

#endif
