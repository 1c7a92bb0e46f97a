/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the table of a batch's columns. */
#include "pinned/column.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

struct mr_column *mr_columns_add(struct mr_columns *columns, const char *name, mr_dtype dtype,
                                 uint32_t ndim, const int64_t *shape)
{
    assert(columns->n < MR_COLUMNS_MAX);
    struct mr_column *column = &columns->column[columns->n++];
    *column = (struct mr_column){.dtype = dtype, .ndim = ndim, .row_bytes = mr_dtype_size(dtype)};
    snprintf(column->name, sizeof column->name, "%s", name);
    for (uint32_t i = 0; i < ndim; i++) {
        column->shape[i] = shape[i];
        column->row_bytes *= (uint64_t)shape[i];
    }
    return column;
}

struct mr_column *mr_columns_add_ragged(struct mr_columns *columns, const char *name,
                                        mr_dtype dtype, uint32_t ndim, const int64_t *shape)
{
    struct mr_column *column = mr_columns_add(columns, name, dtype, ndim, shape);
    snprintf(column->offsets_name, sizeof column->offsets_name, "%.*s.offsets",
             MR_COLUMN_NAME - 9, name);
    return column;
}

uint64_t mr_column_unit_bytes(const struct mr_column *column)
{
    uint64_t bytes = mr_dtype_size((mr_dtype)column->dtype);
    for (uint32_t i = 1; i < column->ndim; i++)
        bytes *= (uint64_t)column->shape[i];
    return bytes;
}

uint32_t mr_columns_find(const struct mr_columns *columns, const char *name)
{
    for (uint32_t i = 0; i < columns->n; i++)
        if (strcmp(columns->column[i].name, name) == 0)
            return i;
    return MR_NO_COLUMN;
}
