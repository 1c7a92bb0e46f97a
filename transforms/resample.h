/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One stage of the geometry, row by row: input rows go in as they arrive, output rows come out as
 * soon as their last tap is there. Results are Pillow 13's, bit for bit: one pass, rounded to u8,
 * then the other. The sizes decide which one comes first.
 */
#ifndef TRANSFORMS_RESAMPLE_H
#define TRANSFORMS_RESAMPLE_H

#include "transforms/geometry.h"
#include "transforms/simd/kernels.h"
#include "transforms/tensor_write.h"

struct mr_resample {
    const struct mr_kernel_ops *kernels; /* for usual axes; NULL: the best for this machine */
    const struct mr_kernel_ops *used;    /* in this stage */
    const struct mr_stage *stage;
    struct mr_tensor_writer *writer;
    uint32_t channels;
    struct mr_axis x;
    struct mr_axis y;
    bool vertical_first;
    struct mr_resample_horizontal horizontal;
    struct mr_resample_vertical vertical;
    uint8_t *out;    /* where the writer takes row 0, from its first live column */
    size_t out_step; /* from there to the next row's; 0 if all rows use one scratch row */
    size_t before;   /* bytes of an output row that show nothing, before and after the live ones */
    size_t after;
    size_t live_bytes;
    bool in_place;      /* the writer has nothing to do once a row is there */
    size_t row_bytes;   /* of an input row */
    uint32_t n_pushed;  /* input rows taken */
    uint32_t n_in_ring; /* those of them that are in the ring; the others wait */
    uint32_t n_emitted; /* live output rows made */
    uint32_t n_strips;  /* in the ring, a power of two */
    uint8_t *first_strip;
    size_t strip_bytes;
    const uint8_t **strips; /* the ring's, twice in a row, so an output row's are contiguous */
    const uint8_t *waiting[MR_STRIP_ROWS];
    size_t held_bytes;      /* of a held row: as many as the loops read */
    struct mr_scratch held; /* copies of rows that wait, or that are too short for the loops */
    uint8_t *late_strip;    /* vertical_first: a strip of the horizontal pass, and after it ... */
    uint8_t *late_rows;     /* ... rows of the vertical pass, which wait for it */
    size_t late_bytes;      /* of one of these rows */
    struct mr_scratch late;
    struct mr_scratch ring; /* the strips */
    struct mr_scratch horizontal_tables;
    struct mr_scratch vertical_tables;
    struct mr_scratch order; /* pointers to them */
    struct padded {          /* of a padded stage */
        uint32_t *columns;   /* for each live column, the input column that it shows */
        uint32_t *first;     /* for each input row, the first live row that shows it; or NO_ROW */
        uint32_t *next;      /* for each live row, the next live row that shows the same */
        uint8_t *row;        /* one live row */
        struct mr_scratch tables;
        struct mr_scratch rows;
    } padded;
};

/* The struct starts as zeros. Its memory grows to the largest stage and stays allocated. */
void mr_resample_fini(struct mr_resample *resample);

/* Start a stage whose output goes to writer. Rows that no input changes are written now. */
mr_status mr_resample_begin(struct mr_resample *resample, const struct mr_stage *stage,
                            uint32_t channels, struct mr_tensor_writer *writer, mr_error *error);

/*
 * The next rows of stage->need, top down, stage->need.height in all. They are not read after the
 * call.
 */
void mr_resample_push(struct mr_resample *resample, const uint8_t *const *rows, uint32_t n_rows);

#endif
