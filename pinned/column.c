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

struct mr_column *mr_columns_add_ragged(struct mr_columns *columns, const struct mr_extra *extra)
{
    mr_dtype dtype = extra->dtype == MR_DTYPE_DEFAULT ? MR_U8 : (mr_dtype)extra->dtype;
    const int64_t shape[1] = {(int64_t)(extra->max_bytes / mr_dtype_size(dtype))};
    struct mr_column *column = mr_columns_add(columns, extra->name, dtype, 1, shape);
    static_assert(sizeof extra->offsets <= sizeof column->offsets_name, "names fit");
    memcpy(column->offsets_name, extra->offsets, sizeof extra->offsets);
    return column;
}

uint32_t mr_columns_find(const struct mr_columns *columns, const char *name)
{
    for (uint32_t i = 0; i < columns->n; i++)
        if (strcmp(columns->column[i].name, name) == 0)
            return i;
    return MR_NO_COLUMN;
}
