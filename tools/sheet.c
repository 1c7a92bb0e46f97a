/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws the contact sheet with libgd. gd's built-in fonts have one byte per character, so each
 * non-ASCII character of a UTF-8 name is drawn as one '?'.
 */
#include "tools/sheet.h"

#include <gd.h>
#include <gdfontmb.h>
#include <gdfonts.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tools/temporary_file.h"
#include "tools/say.h"
#include "tools/word_wrap.h"

enum {
    TILE_MIN = 112,  /* a smaller tile is enlarged by a whole factor until its longer edge has at
                        least this size */
    TILE_MAX = 448,  /* a larger tile is reduced to this longer edge */
    TILES_MAX = 256, /* the most tiles on a sheet */
    GAP = 8,
    BACKGROUND = 0xffffff,
    EMPTY = 0xd0d0d0,
    INK = 0x202020,
    GRAY = 0x606060,
    BRIGHT = 0x606060,  /* boxes have at least this */
    HALVES = 0xfefefe,  /* each channel's bits that a division by two keeps */
    MASK_IGNORED = 255, /* the index that is left as it is */
    BOX_LINE = 2,
};

struct mr_sheet {
    gdImagePtr image;
    gdImagePtr tile; /* one tile in its original size */
    gdFontPtr font;  /* for labels */
    gdFontPtr small;
    struct mr_sheet_shape shape;
    int columns;
    int width; /* of a tile as drawn */
    int height;
};

static int row_height(const struct mr_sheet *sheet)
{
    return sheet->height + sheet->font->h + (int)sheet->shape.n_lines * sheet->small->h + GAP;
}

static void choose_tile(struct mr_sheet *sheet)
{
    uint32_t width = sheet->shape.tile_width, height = sheet->shape.tile_height;
    uint32_t edge = width > height ? width : height;

    if (edge > TILE_MAX) {
        width = (uint32_t)((uint64_t)width * TILE_MAX / edge);
        height = (uint32_t)((uint64_t)height * TILE_MAX / edge);
    } else if (edge < TILE_MIN) {
        uint32_t factor = (TILE_MIN + edge - 1) / edge;
        width *= factor;
        height *= factor;
    }
    sheet->width = width > 0 ? (int)width : 1;
    sheet->height = height > 0 ? (int)height : 1;
}

/* How many characters of the small font fit below a tile. */
static size_t count_columns(const struct mr_sheet *sheet)
{
    return (size_t)(sheet->width / sheet->small->w);
}

uint32_t mr_sheet_count_lines(const struct mr_sheet_shape *shape, const char *words)
{
    struct mr_sheet sheet = {.shape = *shape, .small = gdFontGetSmall()};
    choose_tile(&sheet);
    size_t n = mr_word_wrap_count(words, count_columns(&sheet));
    return n < MR_SHEET_MAX_LINES ? (uint32_t)n : MR_SHEET_MAX_LINES;
}

static void choose_columns(struct mr_sheet *sheet)
{
    int n = (int)sheet->shape.n_tiles, best = INT_MAX;

    sheet->columns = (int)sheet->shape.n_columns;
    if (sheet->columns > 0)
        return;
    for (int columns = 1; columns <= n; columns++) {
        int rows = (n + columns - 1) / columns;
        int difference = abs(columns * (sheet->width + GAP) - rows * row_height(sheet));
        if (difference < best) {
            best = difference;
            sheet->columns = columns;
        }
    }
}

struct mr_sheet *mr_sheet_create(const struct mr_sheet_shape *shape)
{
    struct mr_sheet *sheet = calloc(1, sizeof *sheet);

    if (sheet == NULL) {
        mr_say_error("out of memory");
        return NULL;
    }
    sheet->shape = *shape;
    if (sheet->shape.n_tiles > TILES_MAX)
        sheet->shape.n_tiles = TILES_MAX;
    sheet->font = gdFontGetMediumBold();
    sheet->small = gdFontGetSmall();
    choose_tile(sheet);
    choose_columns(sheet);
    int rows = ((int)sheet->shape.n_tiles + sheet->columns - 1) / sheet->columns;
    sheet->image = gdImageCreateTrueColor(GAP + sheet->columns * (sheet->width + GAP),
                                          GAP + rows * row_height(sheet));
    sheet->tile = gdImageCreateTrueColor((int)shape->tile_width, (int)shape->tile_height);
    if (sheet->image == NULL || sheet->tile == NULL) {
        mr_say_error("no memory for a sheet of %d x %d tiles of %d x %d pixels", sheet->columns,
                     rows, sheet->width, sheet->height);
        mr_sheet_destroy(sheet);
        return NULL;
    }
    gdImageFilledRectangle(sheet->image, 0, 0, gdImageSX(sheet->image) - 1,
                           gdImageSY(sheet->image) - 1, BACKGROUND);
    return sheet;
}

void mr_sheet_destroy(struct mr_sheet *sheet)
{
    if (sheet == NULL)
        return;
    if (sheet->image != NULL)
        gdImageDestroy(sheet->image);
    if (sheet->tile != NULL)
        gdImageDestroy(sheet->tile);
    free(sheet);
}

/* The colour of an index in Pascal VOC's palette, which takes its bits in turns. */
static int find_colour(uint64_t index)
{
    int colour = 0;

    for (int bit = 7; bit >= 0; bit--, index >>= 3)
        colour |= gdTrueColor((int)(index & 1) << bit, (int)(index >> 1 & 1) << bit,
                              (int)(index >> 2 & 1) << bit);
    return colour;
}

static int64_t read_index(const struct mr_sheet_picture *picture, size_t i)
{
    switch (picture->mask_bytes) {
    case 1: return ((const uint8_t *)picture->mask)[i];
    case 2: return ((const int16_t *)picture->mask)[i];
    default: return ((const int64_t *)picture->mask)[i];
    }
}

/* The mean of each pixel and the colour of its index. */
static void tint_tile(struct mr_sheet *sheet, const struct mr_sheet_picture *picture)
{
    size_t i = 0;

    for (int y = 0; y < (int)picture->height; y++) {
        for (int x = 0; x < (int)picture->width; x++, i++) {
            int64_t index = read_index(picture, i);
            int pixel = gdImageGetPixel(sheet->tile, x, y), colour = find_colour((uint64_t)index);
            if (index >= 0 && index != MASK_IGNORED)
                gdImageSetPixel(sheet->tile, x, y,
                                (pixel & colour) + (((pixel ^ colour) & HALVES) >> 1));
        }
    }
}

static void fill_tile(struct mr_sheet *sheet, const struct mr_sheet_picture *picture)
{
    uint32_t channels = sheet->shape.channels;
    const uint8_t *pixels = picture->pixels;

    gdImageFilledRectangle(sheet->tile, 0, 0, gdImageSX(sheet->tile) - 1,
                           gdImageSY(sheet->tile) - 1, BACKGROUND);
    for (int y = 0; y < (int)picture->height; y++) {
        for (int x = 0; x < (int)picture->width; x++, pixels += channels)
            gdImageSetPixel(sheet->tile, x, y,
                            gdTrueColor(pixels[0], pixels[channels / 2], pixels[channels - 1]));
    }
    if (picture->mask != NULL)
        tint_tile(sheet, picture);
}

static void draw_tile(struct mr_sheet *sheet, int x, int y)
{
    int from_width = gdImageSX(sheet->tile), from_height = gdImageSY(sheet->tile);

    if (sheet->width < from_width)
        gdImageCopyResampled(sheet->image, sheet->tile, x, y, 0, 0, sheet->width, sheet->height,
                             from_width, from_height);
    else
        gdImageCopyResized(sheet->image, sheet->tile, x, y, 0, 0, sheet->width, sheet->height,
                           from_width, from_height);
}

/* Draw the characters that fit into a width. */
static void draw_text(struct mr_sheet *sheet, gdFontPtr font, int x, int y, int width,
                      const char *text)
{
    int end = x + width;

    for (; *text != '\0' && x + font->w <= end; text++) {
        unsigned char c = (unsigned char)*text;
        if ((c & 0xc0) == 0x80)
            continue; /* inside a UTF-8 character */
        gdImageChar(sheet->image, font, x, y, c < 0x20 || c >= 0x7f ? '?' : c, INK);
        x += font->w;
    }
}

static void draw_line(struct mr_sheet *sheet, int x, int y, const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++, x += sheet->small->w)
        gdImageChar(sheet->image, sheet->small, x, y, (unsigned char)text[i], GRAY);
}

static void draw_words(struct mr_sheet *sheet, int x, int y, const char *words)
{
    static const char more[] = "...";
    size_t columns = count_columns(sheet), n_more = strlen(more);

    for (uint32_t i = 0; i < sheet->shape.n_lines; i++, y += sheet->small->h) {
        size_t len = mr_word_wrap_next(&words, columns);
        const char *line = words - len;
        bool is_cut = i + 1 == sheet->shape.n_lines && *words != '\0' && columns > n_more;
        if (is_cut && len > columns - n_more)
            len = columns - n_more;
        draw_line(sheet, x, y, line, len);
        if (is_cut)
            draw_line(sheet, x + (int)len * sheet->small->w, y, more, n_more);
    }
}

static void place_tile(const struct mr_sheet *sheet, uint32_t tile, int *x_out, int *y_out)
{
    *x_out = GAP + (int)tile % sheet->columns * (sheet->width + GAP);
    *y_out = GAP + (int)tile / sheet->columns * row_height(sheet);
}

void mr_sheet_put(struct mr_sheet *sheet, uint32_t tile, const struct mr_sheet_picture *picture,
                  const char *label, const char *words)
{
    int x, y;

    if (tile >= sheet->shape.n_tiles)
        return;
    place_tile(sheet, tile, &x, &y);
    if (picture->pixels != NULL) {
        fill_tile(sheet, picture);
        draw_tile(sheet, x, y);
    } else {
        gdImageFilledRectangle(sheet->image, x, y, x + sheet->width - 1, y + sheet->height - 1,
                               EMPTY);
    }
    draw_text(sheet, sheet->font, x, y + sheet->height, sheet->width, label);
    draw_words(sheet, x, y + sheet->height + sheet->font->h, words);
}

/* Scale a side of a box to a tile's pixels as drawn: 0 to drawn, rounded up or down. */
static int place_side(float at, uint32_t size, int drawn, bool up)
{
    float scaled = at * (float)drawn / (float)size;
    int whole = scaled > 0 ? scaled < (float)drawn ? (int)scaled : drawn : 0;

    return up && whole < drawn && scaled > (float)whole ? whole + 1 : whole;
}

static int count_characters(const char *text)
{
    int n = 0;

    for (; *text != '\0'; text++)
        n += ((unsigned char)*text & 0xc0) != 0x80;
    return n;
}

void mr_sheet_put_box(struct mr_sheet *sheet, uint32_t tile, const float box[4], int64_t class_,
                      const char *text)
{
    const struct mr_sheet_shape *shape = &sheet->shape;
    gdFontPtr font = sheet->small;
    int x, y, colour = find_colour((uint64_t)class_ + 1) | BRIGHT; /* 0 is black */

    if (tile >= shape->n_tiles || !(box[2] > box[0] && box[3] > box[1]))
        return;
    place_tile(sheet, tile, &x, &y);
    int left = x + place_side(box[0], shape->tile_width, sheet->width, false);
    int top = y + place_side(box[1], shape->tile_height, sheet->height, false);
    int right = x + place_side(box[2], shape->tile_width, sheet->width, true) - 1;
    int bottom = y + place_side(box[3], shape->tile_height, sheet->height, true) - 1;
    for (int i = 0; i < BOX_LINE && left + i <= right - i && top + i <= bottom - i; i++)
        gdImageRectangle(sheet->image, left + i, top + i, right - i, bottom - i, colour);
    left += BOX_LINE, top += BOX_LINE;
    int end = left + count_characters(text) * font->w;
    if (*text == '\0' || end > right - BOX_LINE || top + font->h > bottom - BOX_LINE)
        return;
    gdImageFilledRectangle(sheet->image, left, top, end - 1, top + font->h - 1, colour);
    draw_text(sheet, font, left, top, end - left, text);
}

bool mr_sheet_store(struct mr_sheet *sheet, const char *path)
{
    int size = 0;
    void *png = gdImagePngPtr(sheet->image, &size);

    if (png == NULL) {
        mr_say_error("%s: the sheet cannot be encoded as PNG", path);
        return false;
    }
    bool good = mr_temporary_file_store(path, png, (size_t)size);
    gdFree(png);
    return good;
}

void mr_sheet_size(const struct mr_sheet *sheet, uint32_t *width_out, uint32_t *height_out)
{
    *width_out = (uint32_t)gdImageSX(sheet->image);
    *height_out = (uint32_t)gdImageSY(sheet->image);
}
