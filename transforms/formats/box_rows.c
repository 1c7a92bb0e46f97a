/* SPDX-License-Identifier: Apache-2.0 */
/* Memory for a box of pixels, reused unless it is large. */
#include "transforms/formats/box_rows.h"

mr_status mr_box_rows_reserve(struct mr_box_rows *rows, uint64_t n_bytes, mr_error *error)
{
    rows->height = 0;
    rows->next_row = 0;
    mr_status status = mr_scratch_reserve(&rows->memory, n_bytes, 1, error);
    rows->bytes = rows->memory.memory;
    return status;
}

void mr_box_rows_place(struct mr_box_rows *rows, size_t offset, size_t stride, uint32_t height)
{
    rows->first = rows->bytes + offset;
    rows->stride = stride;
    rows->height = height;
}

mr_status mr_box_rows_give(struct mr_box_rows *rows, const uint8_t **rows_out, uint32_t max_rows,
                           uint32_t *n_out, mr_error *error)
{
    uint32_t left = rows->height - rows->next_row;
    uint32_t n = max_rows < left ? max_rows : left;
    if (n == 0)
        return mr_error_set(error, MR_ERR_STATE, "no rows are left in the box");
    for (uint32_t i = 0; i < n; i++)
        rows_out[i] = rows->first + (rows->next_row + i) * rows->stride;
    rows->next_row += n;
    *n_out = n;
    return MR_OK;
}

void mr_box_rows_clear(struct mr_box_rows *rows)
{
    rows->height = 0;
    rows->next_row = 0;
    if (rows->memory.len_allocated > MR_SCRATCH_KEEP_BYTES)
        mr_box_rows_fini(rows);
}

void mr_box_rows_fini(struct mr_box_rows *rows)
{
    mr_scratch_fini(&rows->memory);
    *rows = (struct mr_box_rows){0};
}
