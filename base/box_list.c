/* SPDX-License-Identifier: Apache-2.0 */
/* Keeps the boxes of one sample. */
#include "base/box_list.h"

#include <stdlib.h>

enum { FIRST_ROWS = 16 };

mr_status mr_box_list_add(struct mr_box_list *list, struct mr_box_row **row_out, mr_error *error)
{
    if (list->n == list->capacity) {
        size_t capacity = list->capacity ? (size_t)list->capacity * 2 : FIRST_ROWS;
        struct mr_box_row *rows =
            capacity > UINT32_MAX ? NULL : reallocarray(list->rows, capacity, sizeof *rows);
        if (!rows)
            return mr_error_memory(error, capacity * sizeof *rows);
        list->rows = rows;
        list->capacity = (uint32_t)capacity;
    }
    *row_out = &list->rows[list->n++];
    **row_out = (struct mr_box_row){0};
    return MR_OK;
}

void mr_box_list_clear(struct mr_box_list *list)
{
    list->n = 0;
    list->is_relative = 0;
}

void mr_box_list_fini(struct mr_box_list *list)
{
    free(list->rows);
    *list = (struct mr_box_list){0};
}

void mr_box_row_set_area(struct mr_box_row *row)
{
    row->area = (row->x2 - row->x1) * (row->y2 - row->y1);
}

void mr_box_list_scale(struct mr_box_list *list, uint32_t width, uint32_t height)
{
    float w = (float)width, h = (float)height;
    for (uint32_t i = 0; list->is_relative && i < list->n; i++) {
        struct mr_box_row *row = &list->rows[i], was = *row;
        row->x1 = (was.x1 - was.x2 / 2) * w;
        row->x2 = (was.x1 + was.x2 / 2) * w;
        row->y1 = (was.y1 - was.y2 / 2) * h;
        row->y2 = (was.y1 + was.y2 / 2) * h;
        mr_box_row_set_area(row);
    }
    list->is_relative = 0;
}
