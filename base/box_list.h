/* SPDX-License-Identifier: Apache-2.0 */
/* The boxes of one sample, as its annotation has them: before any transform. */
#ifndef BASE_BOX_LIST_H
#define BASE_BOX_LIST_H

#include <assert.h>
#include <stdint.h>

#include "base/error.h"

struct mr_box_row {
    float x1, y1, x2, y2; /* pixels of the image as it is stored */
    float area;           /* as the annotation states it, else that of the box */
    uint32_t is_crowd;    /* 0 or 1 */
    int64_t label;
};
static_assert(sizeof(struct mr_box_row) == 32, "rows are stored in packs");

struct mr_box_list {
    struct mr_box_row *rows;
    uint32_t n;
    uint32_t capacity;
    uint32_t is_relative; /* 1: x1, y1, x2, y2 are darknet's centre x, centre y, width and height,
                             as fractions of the image's sides; area is not set */
};

/* Append a row of zeros. On MR_ERR_NO_MEMORY the list is unchanged. A call may move the rows. */
mr_status mr_box_list_add(struct mr_box_list *list, struct mr_box_row **row_out, mr_error *error);
/* The list has no boxes; its memory stays. */
void mr_box_list_clear(struct mr_box_list *list);
void mr_box_list_fini(struct mr_box_list *list);

/*
 * Turn a relative list into pixels; other lists stay as they are. In float32, each operation
 * rounded: x1 = (x - w / 2) * width, x2 = (x + w / 2) * width, y1 and y2 alike, and area =
 * (x2 - x1) * (y2 - y1). So darknet computes left, right, top and bottom.
 */
void mr_box_list_scale(struct mr_box_list *list, uint32_t width, uint32_t height);

/* Set area to (x2 - x1) * (y2 - y1), in float32. */
void mr_box_row_set_area(struct mr_box_row *row);

#endif
