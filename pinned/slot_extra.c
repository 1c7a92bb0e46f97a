/* SPDX-License-Identifier: Apache-2.0 */
/* Rows of byte arrays: a worker writes each at its own place, then the host moves them together. */
#include "pinned/slot_extra.h"

#include <string.h>

uint32_t *mr_slot_extra_lengths(const struct mr_slot_view *view, uint32_t column)
{
    return (void *)(view->data + view->layout->columns.column[column].lengths_off);
}

void mr_slot_extra_put(const struct mr_slot_view *view, uint32_t column, uint32_t place,
                       const uint8_t *bytes, uint64_t len)
{
    const struct mr_column *c = &view->layout->columns.column[column];
    uint64_t fits = len < c->row_bytes ? len : c->row_bytes;
    if (fits > 0)
        memcpy(view->data + c->off + place * c->row_bytes, bytes, fits);
    mr_slot_extra_lengths(view, column)[place] = (uint32_t)fits;
}

static void join_rows(const struct mr_slot_view *view, uint32_t id, uint32_t n)
{
    const struct mr_column *column = &view->layout->columns.column[id];
    int64_t *offsets = (void *)(view->data + column->offsets_off);
    uint8_t *values = view->data + column->off;
    const uint32_t *lengths = mr_slot_extra_lengths(view, id);
    uint64_t at = 0, unit = mr_column_unit_bytes(column);
    for (uint32_t i = 0; i < n; i++) {
        uint64_t len = lengths[i] < column->row_bytes ? lengths[i] : column->row_bytes;
        offsets[i] = (int64_t)(at / unit);
        memmove(values + at, values + i * column->row_bytes, len);
        at += len;
    }
    for (uint64_t i = n; i <= view->layout->batch_size; i++)
        offsets[i] = (int64_t)(at / unit);
}

void mr_slot_extra_join(const struct mr_slot_view *view, uint32_t n)
{
    const struct mr_columns *columns = &view->layout->columns;
    for (uint32_t i = 0; i < columns->n; i++)
        if (mr_column_is_ragged(&columns->column[i]))
            join_rows(view, i, n);
}

const int64_t *mr_slot_extra_offsets(const struct mr_slot_view *view, uint32_t column)
{
    return (const void *)(view->data + view->layout->columns.column[column].offsets_off);
}
