/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the lanes of the kernels' loop busy with the rows of a crop. */
#include "transforms/jpeg/scan_rows.h"

#include "transforms/simd/kernels.h"

#include <stdlib.h>
#include <string.h>

#define ALIGN 64

void mr_scan_rows_fini(struct mr_scan_rows *rows)
{
    free(rows->blocks);
}

/* Make room for n rows of the crop. */
static bool reserve_rows(struct mr_scan_rows *rows, uint32_t n)
{
    size_t need = (size_t)n * rows->crop.n_mcus * rows->mcu->n_blocks;
    if (need * sizeof rows->blocks[0] > MR_SCAN_ROWS_BYTES)
        return false;
    if (need <= rows->n_blocks)
        return true;
    free(rows->blocks);
    rows->blocks = aligned_alloc(ALIGN, need * sizeof rows->blocks[0]);
    rows->n_blocks = rows->blocks ? need : 0;
    return rows->blocks != NULL;
}

void mr_scan_rows_start(struct mr_scan_rows *rows, const struct mr_kernel_ops *kernels,
                        const struct mr_scan_mcu *mcu, const struct mr_scan_rows_crop *crop)
{
    rows->kernels = kernels;
    rows->mcu = mcu;
    rows->crop = *crop;
    rows->next_row = crop->first_row;
    rows->n_ahead = MR_SCAN_LANES;
    while (rows->n_ahead > 1 && !reserve_rows(rows, rows->n_ahead))
        rows->n_ahead--;
    if (rows->n_ahead == 1)
        rows->n_ahead = 0;
}

/* Several rows. */

/* Let the loop continue with a lane; false if something is odd. */
static bool prepare_lane(struct mr_scan_rows_lane *lane)
{
    uint32_t n = mr_jpeg_scan_prepare(&lane->scan, lane->n_left);
    lane->n_begun = lane->loop.n_mcus = n;
    lane->n_left -= n;
    return n > 0;
}

static bool begin_row(struct mr_scan_rows *rows, uint32_t row)
{
    struct mr_scan_rows_lane *lane = &rows->lanes[row % rows->n_ahead];
    size_t row_blocks = (size_t)rows->crop.n_mcus * rows->mcu->n_blocks;
    lane->n_left = rows->crop.n_mcus;
    lane->loop = (struct mr_scan_lane){.reader = &lane->scan.reader,
                                       .block = rows->blocks + row % rows->n_ahead * row_blocks};
    return rows->crop.enter(rows->crop.state, &lane->scan, row) && prepare_lane(lane);
}

/* The loop stopped for a lane: its MCUs are complete, or it needs more bytes. */
static bool continue_lane(struct mr_scan_rows_lane *lane)
{
    if (!mr_jpeg_scan_pass(&lane->scan, lane->n_begun - lane->loop.n_mcus))
        return false;
    lane->n_left += lane->loop.n_mcus;
    return lane->n_left == 0 || prepare_lane(lane);
}

/* Decode all rows in progress, from row `first` on, until the loop stops for one of them. */
static bool run_rows(struct mr_scan_rows *rows, uint32_t first)
{
    struct mr_scan_rows_lane *lanes[MR_SCAN_LANES];
    struct mr_scan_lane *loops[MR_SCAN_LANES];
    uint32_t n = 0;
    for (uint32_t row = first; row < rows->next_row; row++) {
        struct mr_scan_rows_lane *lane = &rows->lanes[row % rows->n_ahead];
        if (lane->loop.n_mcus == 0)
            continue;
        lanes[n] = lane;
        loops[n++] = &lane->loop;
    }
    uint32_t which = rows->kernels->scan_lanes(loops, n, rows->mcu);
    return which < n && continue_lane(lanes[which]);
}

/* Complete a row whose first MCU is taken. The rows before it are no longer needed. */
static bool complete_row(struct mr_scan_rows *rows, uint32_t row)
{
    rows->next_row = rows->next_row < row ? row : rows->next_row;
    for (; rows->next_row <= rows->crop.last_row && rows->next_row - row < rows->n_ahead;
         rows->next_row++)
        if (!begin_row(rows, rows->next_row))
            return false;
    while (rows->lanes[row % rows->n_ahead].loop.n_mcus > 0)
        if (!run_rows(rows, row))
            return false;
    return true;
}

/* Parts of one row. */

static bool store_part(struct mr_scan_rows *rows, uint32_t row, uint32_t first, uint32_t n,
                       int16_t (*room)[64])
{
    struct mr_jpeg_scan *scan = &rows->lanes[0].scan;
    if (first == 0 && !rows->crop.enter(rows->crop.state, scan, row))
        return false;
    return mr_jpeg_scan_store(scan, n, room);
}

int16_t (*mr_scan_rows_take(struct mr_scan_rows *rows, uint32_t row, uint32_t first, uint32_t n,
                            int16_t (*room)[64]))[64]
{
    if (rows->n_ahead == 0)
        return store_part(rows, row, first, n, room) ? room : NULL;
    if (first == 0 && !complete_row(rows, row))
        return NULL;
    return rows->blocks +
           ((size_t)(row % rows->n_ahead) * rows->crop.n_mcus + first) * rows->mcu->n_blocks;
}
