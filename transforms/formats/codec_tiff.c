/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes the first image of a TIFF with libtiff, as Pillow does: strips and tiles, and of each the
 * rows that the box needs. Pillow itself turns a TIFF by its orientation, so this codec gives
 * upright images.
 */
#include "transforms/formats/codec_tiff.h"

#include "base/checked.h"
#include "base/image_format.h"
#include "transforms/formats/box_rows.h"
#include "transforms/formats/tiff_file.h"

#include <stdlib.h>
#include <string.h>

#define CHANNELS 3
#define MAX_PLANES 4
#define LIBTIFF_PIXEL_BYTES 4
/*
 * What libtiff may ask for in addition to a strip's bytes and to what the limits count: its own
 * state and that of the decompressors. The largest is libjpeg's, for the widest JPEG.
 */
#define LIBTIFF_BYTES ((uint64_t)16 << 20)

struct box {
    uint32_t x, y, width, height;
};

struct tiff_codec {
    struct mr_codec_limits limits;
    struct mr_tiff_file file;
    uint8_t colours[256][CHANNELS]; /* indexed by samples of up to 8 bits, grey or of a palette */
    struct mr_box_rows pieces;      /* one for each plane */
    struct mr_box_rows stored;      /* the box before it is turned */
    struct mr_box_rows rows;
};

static mr_status tiff_create(const struct mr_codec_limits *limits, void **state_out,
                             mr_error *error)
{
    struct tiff_codec *tiff = calloc(1, sizeof *tiff);
    if (!tiff)
        return mr_error_memory(error, sizeof *tiff);
    tiff->limits = *limits;
    *state_out = tiff;
    return MR_OK;
}

static void tiff_destroy(void *state)
{
    struct tiff_codec *tiff = state;
    mr_tiff_file_close(&tiff->file);
    mr_box_rows_fini(&tiff->pieces);
    mr_box_rows_fini(&tiff->stored);
    mr_box_rows_fini(&tiff->rows);
    free(tiff);
}

static uint32_t tiff_close(void *state)
{
    struct tiff_codec *tiff = state;
    mr_tiff_file_close(&tiff->file);
    mr_box_rows_clear(&tiff->pieces);
    mr_box_rows_clear(&tiff->stored);
    mr_box_rows_clear(&tiff->rows);
    return 0;
}

/* Does the orientation turn the image by a quarter, so its sides are exchanged? */
static bool is_turned(const struct tiff_codec *tiff)
{
    return tiff->file.orientation >= 5;
}

static uint32_t n_planes(const struct tiff_codec *tiff)
{
    const struct mr_tiff_file *file = &tiff->file;
    if (!file->planar || (file->colours != MR_TIFF_RGB && file->colours != MR_TIFF_CMYK))
        return 1;
    return file->colours == MR_TIFF_CMYK || file->premultiplied ? 4 : 3;
}

/* Bytes of one piece, of all planes. */
static uint64_t count_piece_bytes(const struct tiff_codec *tiff)
{
    const struct mr_tiff_file *file = &tiff->file;
    uint64_t n = file->by_libtiff ? (uint64_t)file->width * LIBTIFF_PIXEL_BYTES : file->row_bytes;
    return mr_checked_mul_u64(n, (uint64_t)file->piece_height * n_planes(tiff), &n) ? n
                                                                                    : UINT64_MAX;
}

static void make_colours(struct tiff_codec *tiff)
{
    const struct mr_tiff_file *file = &tiff->file;
    uint32_t n = file->bits < 8 ? 1u << file->bits : 256;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t grey = i * 255 / (n - 1);
        for (uint32_t k = 0; k < CHANNELS; k++) {
            if (file->colours == MR_TIFF_PALETTE)
                tiff->colours[i][k] = (uint8_t)(file->palette[k][i] >> 8);
            else
                tiff->colours[i][k] =
                    (uint8_t)(file->colours == MR_TIFF_WHITE_0 ? 255 - grey : grey);
        }
    }
}

static mr_status check_memory(const struct tiff_codec *tiff, mr_error *error)
{
    const struct mr_tiff_file *file = &tiff->file;
    uint64_t other_bytes;
    if (!mr_checked_add_u64(count_piece_bytes(tiff), file->library_bytes, &other_bytes))
        other_bytes = UINT64_MAX;
    return mr_codec_limits_check_image(&tiff->limits, file->width, file->height,
                                       file->orientation > 1 ? 2 * CHANNELS : CHANNELS, other_bytes,
                                       error);
}

static mr_status tiff_open(void *state, const uint8_t *bytes, size_t len,
                           struct mr_image_head *head_out, mr_error *error)
{
    struct tiff_codec *tiff = state;
    struct mr_tiff_file *file = &tiff->file;
    mr_status status = mr_tiff_file_open(file, &tiff->limits, bytes, len, error);
    if (status != MR_OK)
        return status;
    status = check_memory(tiff, error);
    if (status != MR_OK) {
        mr_tiff_file_close(file);
        return status;
    }
    make_colours(tiff);
    *head_out = (struct mr_image_head){is_turned(tiff) ? file->height : file->width,
                                       is_turned(tiff) ? file->width : file->height, 1};
    return MR_OK;
}

/* Samples to RGB. */

/* Where a row's samples are: sample s of pixel x is at first[s] + x * step. */
struct samples {
    const uint8_t *first[MAX_PLANES];
    size_t step;
};

static uint8_t clip_byte(int32_t value)
{
    return value < 0 ? 0 : value < 255 ? (uint8_t)value : 255;
}

/* Grey of 12, 16 or 32 bits. */
static uint8_t read_grey(const struct mr_tiff_file *file, const uint8_t *row, size_t x)
{
    uint16_t half;
    uint32_t word;
    float number;
    if (file->bits == 12) {
        const uint8_t *p = row + x / 2 * 3;
        return clip_byte(x % 2 ? (p[1] & 15) << 8 | p[2] : p[0] << 4 | p[1] >> 4);
    }
    if (file->bits == 16) {
        memcpy(&half, row + x * 2, sizeof half);
        return file->number == MR_TIFF_SIGNED && half > INT16_MAX ? 0 : clip_byte(half);
    }
    memcpy(&word, row + x * 4, sizeof word);
    memcpy(&number, row + x * 4, sizeof number);
    if (file->number == MR_TIFF_FLOAT)
        return number >= 255.0f ? 255 : number > 0.0f ? (uint8_t)number : 0;
    if (file->number == MR_TIFF_SIGNED && word > INT32_MAX)
        return 0;
    return word < 255 ? (uint8_t)word : 255;
}

static uint8_t undo_alpha(uint32_t colour, uint32_t alpha)
{
    uint32_t value = alpha == 0 ? 0 : colour * 255 / alpha;
    return value < 255 ? (uint8_t)value : 255;
}

static uint8_t scale_ink(uint32_t ink, uint32_t black)
{
    uint32_t product = ink * (255 - black) + 128;
    product = ((product >> 8) + product) >> 8;
    return (uint8_t)(255 - black - product);
}

/*
 * Pillow's tables hold these products in units of 1 / 64. A half is added, then they are cut
 * towards zero.
 */
static int32_t scale_ycc(double factor, uint32_t value)
{
    return (int32_t)(factor * ((int32_t)value - 128) * 64 + 0.5);
}

static int32_t floor_64th(int32_t value)
{
    return (value - (value & 63)) / 64;
}

static void put_ycc(const uint8_t *ycc, uint8_t *out)
{
    int32_t y = ycc[0];
    out[0] = clip_byte(y + floor_64th(scale_ycc(1.402, ycc[2])));
    out[1] = clip_byte(y + floor_64th(scale_ycc(-0.34414, ycc[1]) + scale_ycc(-0.71414, ycc[2])));
    out[2] = clip_byte(y + floor_64th(scale_ycc(1.772, ycc[1])));
}

/* The high byte of a colour of 16 bits, as Pillow takes it. */
static uint32_t read_colour(const struct mr_tiff_file *file, const struct samples *row, uint32_t s,
                            size_t x)
{
    const uint8_t *p = row->first[s] + x * row->step;
    uint16_t half;
    if (file->bits == 8)
        return *p;
    memcpy(&half, p, sizeof half);
    return half >> 8;
}

static void put_colour(const struct mr_tiff_file *file, const struct samples *row, size_t x,
                       uint8_t *out)
{
    uint32_t fourth =
        file->premultiplied || file->colours == MR_TIFF_CMYK ? read_colour(file, row, 3, x) : 0;
    for (uint32_t k = 0; k < CHANNELS; k++) {
        uint32_t value = read_colour(file, row, k, x);
        if (file->colours == MR_TIFF_CMYK)
            out[k] = scale_ink(value, fourth);
        else
            out[k] = file->premultiplied ? undo_alpha(value, fourth) : (uint8_t)value;
    }
}

static void put_row(const struct tiff_codec *tiff, const struct samples *row, size_t x,
                    uint32_t width, uint8_t *out)
{
    const struct mr_tiff_file *file = &tiff->file;
    bool colour = file->colours == MR_TIFF_RGB || file->colours == MR_TIFF_CMYK;
    if (file->colours == MR_TIFF_RGB && file->bits == 8 && row->step == CHANNELS) {
        memcpy(out, row->first[0] + x * CHANNELS, (size_t)width * CHANNELS);
        return;
    }
    for (size_t end = x + width; x < end; x++, out += CHANNELS) {
        if (colour)
            put_colour(file, row, x, out);
        else if (file->colours == MR_TIFF_YCC)
            put_ycc(row->first[0] + x * row->step, out);
        else if (file->bits == 8)
            memcpy(out, tiff->colours[row->first[0][x * row->step]], CHANNELS);
        else if (file->bits < 8)
            memcpy(out,
                   tiff->colours[row->first[0][x * file->bits / 8] >>
                                     (8 - file->bits - x * file->bits % 8) &
                                 ((1u << file->bits) - 1)],
                   CHANNELS);
        else
            memset(out, read_grey(file, row->first[0], x), CHANNELS);
    }
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The part of a box inside a rectangle of the image. */
static struct box cut_box(const struct box *box, uint32_t left, uint32_t top, uint32_t width,
                          uint32_t height)
{
    struct box cut = {.x = box->x > left ? box->x : left, .y = box->y > top ? box->y : top};
    cut.width = min_u32(box->x + box->width - left, width) + left - cut.x;
    cut.height = min_u32(box->y + box->height - top, height) + top - cut.y;
    return cut;
}

/* Write the part of a box that is in the piece at column and line. */
static mr_status put_piece(struct tiff_codec *tiff, uint32_t column, uint32_t line,
                           const struct box *box, uint8_t *out, mr_error *error)
{
    struct mr_tiff_file *file = &tiff->file;
    uint32_t left = column * file->piece_width, top = line * file->piece_height;
    struct box cut = cut_box(box, left, top, file->piece_width, file->piece_height);
    uint32_t sample_bytes = file->bits <= 8 ? 1 : file->bits / 8;
    size_t stride = (size_t)box->width * CHANNELS,
           plane_bytes = file->row_bytes * file->piece_height;
    struct samples row = {.step =
                              file->planar ? sample_bytes : (size_t)sample_bytes * file->n_samples};
    for (uint32_t plane = 0; plane < n_planes(tiff); plane++) {
        uint32_t i = (plane * file->down + line) * file->across + column;
        uint8_t *samples = tiff->pieces.bytes + plane * plane_bytes;
        mr_status status =
            mr_tiff_file_read_piece(file, i, cut.y + cut.height - top, samples, error);
        if (status != MR_OK)
            return status;
        row.first[plane] = samples + (cut.y - top) * file->row_bytes;
    }
    for (uint32_t s = 1; s < MAX_PLANES && !file->planar; s++)
        row.first[s] = row.first[0] + (s < file->n_samples ? s : 0) * (size_t)sample_bytes;
    out += (cut.y - box->y) * stride + (size_t)(cut.x - box->x) * CHANNELS;
    for (uint32_t i = 0; i < cut.height; i++, out += stride) {
        for (uint32_t s = 0; i > 0 && s < MAX_PLANES && row.first[s]; s++)
            row.first[s] += file->row_bytes;
        put_row(tiff, &row, cut.x - left, cut.width, out);
    }
    return MR_OK;
}

/* The same if libtiff makes the colours, for all pieces side by side. */
static mr_status put_colours(struct tiff_codec *tiff, uint32_t line, const struct box *box,
                             uint8_t *out, mr_error *error)
{
    struct mr_tiff_file *file = &tiff->file;
    uint32_t top = line * file->piece_height,
             n_rows = min_u32(file->piece_height, file->height - top);
    struct box cut = cut_box(box, 0, top, file->width, n_rows);
    mr_status status = mr_tiff_file_read_colours(file, top, n_rows, tiff->pieces.bytes, error);
    if (status != MR_OK)
        return status;
    out += (size_t)(cut.y - box->y) * box->width * CHANNELS;
    for (uint32_t y = cut.y - top; y < cut.y - top + cut.height; y++) {
        const uint8_t *in =
            tiff->pieces.bytes + ((size_t)y * file->width + cut.x) * LIBTIFF_PIXEL_BYTES;
        for (uint32_t x = 0; x < cut.width; x++, in += LIBTIFF_PIXEL_BYTES, out += CHANNELS)
            memcpy(out, in, CHANNELS);
    }
    return MR_OK;
}

/* Upright boxes and stored ones. */

static bool mirrors_x(uint32_t orientation)
{
    return orientation == 2 || orientation == 3 || orientation == 7 || orientation == 8;
}

static bool mirrors_y(uint32_t orientation)
{
    return orientation == 3 || orientation == 4 || orientation == 6 || orientation == 7;
}

static struct box find_stored(const struct tiff_codec *tiff, struct box box)
{
    const struct mr_tiff_file *file = &tiff->file;
    if (is_turned(tiff))
        box = (struct box){box.y, box.x, box.height, box.width};
    if (mirrors_x(file->orientation))
        box.x = file->width - box.x - box.width;
    if (mirrors_y(file->orientation))
        box.y = file->height - box.y - box.height;
    return box;
}

static void turn_box(const struct tiff_codec *tiff, const uint8_t *stored, struct box from,
                     uint8_t *out)
{
    uint32_t width = is_turned(tiff) ? from.height : from.width,
             height = is_turned(tiff) ? from.width : from.height;
    for (uint32_t y = 0; y < height; y++) {
        for (uint32_t x = 0; x < width; x++, out += CHANNELS) {
            uint32_t u = is_turned(tiff) ? y : x, v = is_turned(tiff) ? x : y;
            if (mirrors_x(tiff->file.orientation))
                u = from.width - 1 - u;
            if (mirrors_y(tiff->file.orientation))
                v = from.height - 1 - v;
            memcpy(out, stored + ((size_t)v * from.width + u) * CHANNELS, CHANNELS);
        }
    }
}

static mr_status put_pieces(struct tiff_codec *tiff, const struct box *box, uint8_t *out,
                            mr_error *error)
{
    const struct mr_tiff_file *file = &tiff->file;
    uint32_t first = box->x / file->piece_width,
             last = (box->x + box->width - 1) / file->piece_width;
    uint32_t line = box->y / file->piece_height,
             last_line = (box->y + box->height - 1) / file->piece_height;
    mr_status status = MR_OK;
    for (; status == MR_OK && line <= last_line; line++) {
        if (tiff->file.by_libtiff) {
            status = put_colours(tiff, line, box, out, error);
            continue;
        }
        for (uint32_t column = first; status == MR_OK && column <= last; column++)
            status = put_piece(tiff, column, line, box, out, error);
    }
    return status;
}

static mr_status tiff_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                            mr_error *error)
{
    struct tiff_codec *tiff = state;
    size_t stride = (size_t)width * CHANNELS;
    bool upright = tiff->file.orientation == 1;
    mr_status status = mr_box_rows_reserve(&tiff->pieces, count_piece_bytes(tiff), error);
    if (status == MR_OK)
        status = mr_box_rows_reserve(&tiff->rows, (uint64_t)stride * height, error);
    if (status == MR_OK && !upright)
        status = mr_box_rows_reserve(&tiff->stored, (uint64_t)stride * height, error);
    struct box stored = find_stored(tiff, (struct box){x, y, width, height});
    if (status == MR_OK)
        status = put_pieces(tiff, &stored, upright ? tiff->rows.bytes : tiff->stored.bytes, error);
    if (status != MR_OK)
        return status;
    if (!upright)
        turn_box(tiff, tiff->stored.bytes, stored, tiff->rows.bytes);
    mr_box_rows_place(&tiff->rows, 0, stride, height);
    return MR_OK;
}

static mr_status tiff_rows(void *state, const uint8_t **rows_out, uint32_t max_rows,
                           uint32_t *n_out, mr_error *error)
{
    struct tiff_codec *tiff = state;
    return mr_box_rows_give(&tiff->rows, rows_out, max_rows, n_out, error);
}

static uint64_t tiff_need(const void *state)
{
    const struct mr_tiff_file *file = &((const struct tiff_codec *)state)->file;
    return file->called ? file->library_bytes + file->len + LIBTIFF_BYTES : 0;
}

const struct mr_codec_ops mr_codec_tiff = {
    .name = MR_IMAGE_FORMAT_TIFF,
    .create = tiff_create,
    .destroy = tiff_destroy,
    .open = tiff_open,
    .begin = tiff_begin,
    .rows = tiff_rows,
    .close = tiff_close,
    .need = tiff_need,
};
