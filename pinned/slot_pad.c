/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Pads the rows of a batch in place.
 *
 * Invariant: no element is overwritten before it has been moved. A line moves to a higher address
 * the more, the later it is in its row. So the lines that move up are moved first, from the last
 * one, and then those that move down, from the first one. A row ends before the next one begins,
 * also after the move.
 */
#include "pinned/slot_pad.h"

#include <string.h>

/* A row of `planes` images, each of `height` lines. */
struct form {
    uint64_t planes;
    uint64_t height;
    uint64_t line_bytes;
};

/* A row that has a length and no width is one line. */
static struct form form_of(const struct mr_column *column, uint64_t height, uint64_t width)
{
    uint32_t n_open = 0;
    struct form form = {.planes = 1,
                        .height = height,
                        .line_bytes = width * mr_dtype_size((mr_dtype)column->dtype)};
    for (uint32_t i = 0; i < column->ndim; i++) {
        n_open += column->shape[i] == 0;
        if (column->shape[i] != 0)
            *(n_open == 0 ? &form.planes : &form.line_bytes) *= (uint64_t)column->shape[i];
    }
    if (n_open == 1) {
        form.line_bytes *= height;
        form.height = 1;
    }
    return form;
}

static uint64_t row_bytes(const struct form *form)
{
    return form->planes * form->height * form->line_bytes;
}

uint64_t mr_slot_pad_row_bytes(const struct mr_column *column, const uint32_t padded[2])
{
    const struct form form = form_of(column, padded[0], padded[1]);
    return row_bytes(&form);
}

static void fill(const struct mr_column *column, uint8_t *out, uint64_t len)
{
    const int64_t value = column->pad_value; /* an integer's first bytes; of a float only 0 */
    size_t element = mr_dtype_size((mr_dtype)column->dtype);
    if (value == 0 || element == 1)
        memset(out, (int)value, len);
    else
        for (uint64_t i = 0; i < len; i += element)
            memcpy(out + i, &value, element);
}

/* One row's move. */
struct move {
    const struct mr_column *column;
    struct form from, to;
    uint8_t *source, *target;
};

static uint8_t *source_line(const struct move *move, uint64_t k)
{
    return move->source + k * move->from.line_bytes;
}

/* Where line k of the source goes; after the last line, where the row ends. */
static uint8_t *target_line(const struct move *move, uint64_t k)
{
    uint64_t plane = k / move->from.height, y = k % move->from.height;
    return move->target + (plane * move->to.height + y) * move->to.line_bytes;
}

/* Move line k, and fill what is between it and the next one. */
static void move_line(const struct move *move, uint64_t k)
{
    uint8_t *out = target_line(move, k), *end = target_line(move, k + 1);
    memmove(out, source_line(move, k), move->from.line_bytes);
    out += move->from.line_bytes;
    fill(move->column, out, (uint64_t)(end - out));
}

static void move_row(const struct move *move)
{
    uint64_t n = move->from.planes * move->from.height, n_down = n;
    if (n == 0) /* no sample */
        fill(move->column, move->target, row_bytes(&move->to));
    while (n_down > 0 && target_line(move, n_down - 1) >= source_line(move, n_down - 1))
        move_line(move, --n_down);
    for (uint64_t k = 0; k < n_down; k++)
        move_line(move, k);
}

/* Height and width of row i, or its length and 1. */
static void size_of(const struct mr_slot_view *view, uint32_t i, uint32_t size_out[2])
{
    const uint32_t *size = mr_slot_row(view, MR_COLUMN_SIZE, i);
    size_out[0] = size[0];
    size_out[1] = view->layout->columns.column[MR_COLUMN_SIZE].ndim > 0 ? size[1] : 1;
}

static void pad_column(const struct mr_slot_view *view, const struct mr_column *column, uint32_t n)
{
    const struct form to = form_of(column, view->slot->padded[0], view->slot->padded[1]);
    uint8_t *rows = view->data + column->off;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size[2];
        size_of(view, i, size);
        move_row(&(struct move){.column = column,
                                .from = form_of(column, size[0], size[1]),
                                .to = to,
                                .source = rows + i * column->row_bytes,
                                .target = rows + i * row_bytes(&to)});
    }
}

void mr_slot_pad_rows(const struct mr_slot_view *view, uint32_t n)
{
    const struct mr_columns *columns = &view->layout->columns;
    if (!columns->column[MR_COLUMN_IMAGE].pads)
        return;
    uint32_t *padded = view->slot->padded;
    padded[0] = padded[1] = 0;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t size[2];
        size_of(view, i, size);
        for (uint32_t k = 0; k < 2; k++)
            padded[k] = size[k] > padded[k] ? size[k] : padded[k];
    }
    for (uint32_t c = 0; c < columns->n; c++)
        if (columns->column[c].pads)
            pad_column(view, &columns->column[c], n);
}
