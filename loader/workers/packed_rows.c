/* SPDX-License-Identifier: Apache-2.0 */
/* Copies the pieces of packed rows from slots. */
#include "loader/workers/packed_rows.h"

#include <stdlib.h>

mr_status mr_packed_rows_create(const struct mr_slot_layout *layout,
                                struct mr_packed_rows **rows_out, mr_error *error)
{
    struct mr_packed_rows *rows = *rows_out = NULL;
    size_t bytes = sizeof *rows + MR_N_TAGS * layout->n_pieces * sizeof *rows->pieces;
    if (layout->n_pieces == 0)
        return MR_OK;
    rows = *rows_out = malloc(bytes);
    if (!rows)
        return mr_error_memory(error, bytes);
    rows->n_most = layout->n_pieces;
    return MR_OK;
}

void mr_packed_rows_list(struct mr_packed_rows *rows, const struct mr_sample_job *job,
                         const struct mr_sample_kind *kind, struct mr_part_list *list_out)
{
    struct mr_token_piece *pieces = rows->pieces + job->tag * rows->n_most;
    rows->n[job->tag] = mr_slot_get_pieces(&job->view, job->place, pieces);
    *list_out = (struct mr_part_list){.pieces = pieces, .n_pieces = rows->n[job->tag]};
    mr_part_list_add(list_out, (struct mr_extent){.file = MR_FILE_PIECES, .len = kind->data_bytes},
                     kind->data_bytes, MR_FOR_IMAGE);
}
