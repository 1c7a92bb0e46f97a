/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A contact sheet as a PNG: tiles with a label and a few lines of text below each. Only sheet.c
 * uses libgd.
 */
#ifndef TOOLS_SHEET_H
#define TOOLS_SHEET_H

#include <stdbool.h>
#include <stdint.h>

struct mr_sheet;

enum { MR_SHEET_MAX_LINES = 6 };

struct mr_sheet_shape {
    uint32_t n_tiles;
    uint32_t n_columns;  /* 0: as many as make the sheet most nearly square */
    uint32_t tile_width; /* of the largest picture's pixels */
    uint32_t tile_height;
    uint32_t channels; /* 1 or 3 */
    uint32_t n_lines;  /* of text below each label */
};

/* Interleaved u8 pixels; NULL: none. */
struct mr_sheet_picture {
    const uint8_t *pixels;
    uint32_t width;
    uint32_t height;
    const void *mask; /* an index of each pixel, drawn as a translucent colour; NULL: none. 255 and
                         negative indices are not drawn */
    uint32_t mask_bytes; /* of an index: 1 (u8), 2 (i16), 8 (i64) */
};

/*
 * How many lines these words need below a tile, at most MR_SHEET_MAX_LINES. Only the tile's size in
 * shape is used.
 */
uint32_t mr_sheet_count_lines(const struct mr_sheet_shape *shape, const char *words);

/*
 * Create an empty sheet. Tiles are enlarged or reduced so that the sheet is readable. NULL after a
 * message.
 */
struct mr_sheet *mr_sheet_create(const struct mr_sheet_shape *shape);
/*
 * Draw a tile; a smaller picture is at its top left. The label is cut to the tile's width. The
 * words are broken into the lines of the shape, between calls if possible; "..." replaces what does
 * not fit.
 */
void mr_sheet_put(struct mr_sheet *sheet, uint32_t tile, const struct mr_sheet_picture *picture,
                  const char *label, const char *words);
/*
 * Draw a box over a tile's picture: x1, y1, x2, y2 in pixels of the picture, in the colour of a
 * class. The text is drawn inside if it fits. A box without an area is left out.
 */
void mr_sheet_put_box(struct mr_sheet *sheet, uint32_t tile, const float box[4], int64_t class_,
                      const char *text);
/* Write the PNG into a temporary file, then rename it. False after a message. */
bool mr_sheet_store(struct mr_sheet *sheet, const char *path);
void mr_sheet_destroy(struct mr_sheet *sheet);
/* Size of the sheet in pixels. */
void mr_sheet_size(const struct mr_sheet *sheet, uint32_t *width_out, uint32_t *height_out);

#endif
