/* SPDX-License-Identifier: Apache-2.0 */
/* A contact sheet: tiles with a line of text below each, as a PNG. Only sheet.c knows libgd. */
#ifndef TOOLS_SHEET_H
#define TOOLS_SHEET_H

#include <stdbool.h>
#include <stdint.h>

struct mr_sheet;

struct mr_sheet_shape {
    uint32_t n_tiles;
    uint32_t tile_width; /* of the source pixels */
    uint32_t tile_height;
    uint32_t channels; /* 1 or 3 */
};

/* An empty sheet; tiles are enlarged or reduced so that the sheet is readable. NULL after a message. */
struct mr_sheet *mr_sheet_create(const struct mr_sheet_shape *shape);
/* Put a tile of interleaved u8 pixels; NULL draws an empty one. Text is cut to the tile's width. */
void mr_sheet_put(struct mr_sheet *sheet, uint32_t tile, const uint8_t *pixels, const char *text);
/* Write the PNG into a temporary file, then rename it. False after a message. */
bool mr_sheet_store(struct mr_sheet *sheet, const char *path);
void mr_sheet_destroy(struct mr_sheet *sheet);
/* Size of the whole in pixels. */
void mr_sheet_size(const struct mr_sheet *sheet, uint32_t *width_out, uint32_t *height_out);

#endif
