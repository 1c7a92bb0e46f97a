/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The MCUs of a crop whose rows can each be entered separately. The next rows are decoded in turn,
 * symbol by symbol, each from its own place, and wait until they are taken. If rows are too wide
 * for that, they are decoded one after the other, in the parts that are taken.
 */
#ifndef TRANSFORMS_JPEG_SCAN_ROWS_H
#define TRANSFORMS_JPEG_SCAN_ROWS_H

#include "transforms/jpeg/jpeg_scan.h"

/* Rows that are decoded ahead fill at most this many bytes. */
#define MR_SCAN_ROWS_BYTES ((size_t)512 * 1024)

struct mr_scan_rows_crop {
    uint32_t first_row, last_row;
    uint32_t n_mcus; /* of each row */
    /* Start scan before the crop's first MCU of a row. False: something is odd. */
    bool (*enter)(void *state, struct mr_jpeg_scan *scan, uint32_t row);
    void *state;
};

/* A row in progress. */
struct mr_scan_rows_lane {
    struct mr_jpeg_scan scan;
    struct mr_scan_lane loop; /* what the kernels know of it */
    uint32_t n_left;          /* MCUs after those of loop */
    uint32_t n_begun;         /* MCUs that loop began with */
};

/* Starts as zeros; used for one image after the other. */
struct mr_scan_rows {
    const struct mr_kernel_ops *kernels;
    const struct mr_scan_mcu *mcu;
    struct mr_scan_rows_crop crop;
    uint32_t n_ahead;                              /* rows decoded at once; 0: parts of one row */
    uint32_t next_row;                             /* the first row that no lane has begun */
    struct mr_scan_rows_lane lanes[MR_SCAN_LANES]; /* row r's is r % n_ahead, or the first */
    int16_t (*blocks)[64];                         /* a row for each lane; only grows */
    size_t n_blocks;                               /* blocks that have room */
};

void mr_scan_rows_fini(struct mr_scan_rows *rows);

/* mcu, and whatever crop points to, must stay valid while rows are taken. */
void mr_scan_rows_start(struct mr_scan_rows *rows, const struct mr_kernel_ops *kernels,
                        const struct mr_scan_mcu *mcu, const struct mr_scan_rows_crop *crop);

/*
 * The blocks of n MCUs of the crop's row, from the MCU with number `first` on: in room, which is
 * large enough, or elsewhere, valid until the next call. Rows are taken in order, and so are the
 * MCUs of a row. NULL: something is odd, and no more can be taken.
 */
int16_t (*mr_scan_rows_take(struct mr_scan_rows *rows, uint32_t row, uint32_t first, uint32_t n,
                            int16_t (*room)[64]))[64];

#endif
