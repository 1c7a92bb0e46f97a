/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The pieces of the packed rows that a worker makes. They are copied when a row's read begins,
 * since the slot may be published again before it ends; then the row is dropped.
 */
#ifndef LOADER_WORKERS_PACKED_ROWS_H
#define LOADER_WORKERS_PACKED_ROWS_H

#include "loader/workers/sample_job.h"

struct mr_packed_rows {
    uint64_t n_most; /* pieces of a row */
    uint32_t n[MR_N_TAGS];
    struct mr_token_piece pieces[]; /* n_most for each tag */
};

/* *rows_out is NULL if rows are not packed. Free it with free(). */
mr_status mr_packed_rows_create(const struct mr_slot_layout *layout,
                                struct mr_packed_rows **rows_out, mr_error *error);
/* Copy the pieces of the job's row, and list them as its only part. */
void mr_packed_rows_list(struct mr_packed_rows *rows, const struct mr_sample_job *job,
                         const struct mr_sample_kind *kind, struct mr_part_list *list_out);

static inline const struct mr_token_piece *mr_packed_rows_at(const struct mr_packed_rows *rows,
                                                             uint32_t tag)
{
    return rows->pieces + tag * rows->n_most;
}

#endif
