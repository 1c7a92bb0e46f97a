/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes TIFF as Pillow does, of a file's first image: strips and tiles, the rows of each as far as the box needs
 * them. Pillow itself turns a TIFF by its orientation, so the image that this codec gives is upright already.
 *
 * Why not libtiff: its static archive wants zstd, lzma, jbig and LERC, which is C++, for the static worker helper, and
 * it allocates by what a file says.
 */
#include "transforms/formats/codec_tiff.h"

#include "base/checked.h"
#include "base/image_format.h"
#include "transforms/formats/box_rows.h"
#include "transforms/formats/tiff_file.h"
#include "transforms/formats/tiff_jpeg.h"
#include "transforms/formats/tiff_unpack.h"

#include <stdlib.h>
#include <string.h>

#define CHANNELS 3
#define MAX_PLANES 4

struct box {
    uint32_t x, y, width, height;
};

struct tiff {
    struct mr_codec_limits limits;
    struct mr_tiff_file file;
    struct mr_tiff_unpack *unpack;
    struct mr_tiff_jpeg *jpeg;
    uint8_t colours[256][CHANNELS]; /* by samples of up to 8 bits, grey or of a palette */
    struct mr_box_rows pieces;      /* one for each plane */
    struct mr_box_rows stored;      /* the box before it is turned */
    struct mr_box_rows rows;
};

static mr_status tiff_create(const struct mr_codec_limits *limits, void **state_out, mr_error *error)
{
    struct tiff *tiff = calloc(1, sizeof *tiff);
    if (!tiff)
        return mr_error_memory(error, sizeof *tiff);
    mr_status status = mr_tiff_unpack_create(&tiff->unpack, error);
    if (status == MR_OK)
        status = mr_tiff_jpeg_create(&tiff->jpeg, error);
    if (status != MR_OK) {
        mr_tiff_unpack_destroy(tiff->unpack);
        free(tiff);
        return status;
    }
    tiff->limits = *limits;
    *state_out = tiff;
    return MR_OK;
}

static void tiff_destroy(void *state)
{
    struct tiff *tiff = state;
    mr_tiff_unpack_destroy(tiff->unpack);
    mr_tiff_jpeg_destroy(tiff->jpeg);
    mr_box_rows_fini(&tiff->pieces);
    mr_box_rows_fini(&tiff->stored);
    mr_box_rows_fini(&tiff->rows);
    free(tiff);
}

static uint32_t tiff_close(void *state)
{
    struct tiff *tiff = state;
    mr_box_rows_clear(&tiff->pieces);
    mr_box_rows_clear(&tiff->stored);
    mr_box_rows_clear(&tiff->rows);
    return 0;
}

/* Sides that are exchanged: orientations that turn by a quarter. */
static bool is_turned(const struct tiff *tiff)
{
    return tiff->file.orientation >= 5;
}

static uint32_t n_planes(const struct tiff *tiff)
{
    const struct mr_tiff_file *file = &tiff->file;
    if (!file->planar || (file->colours != MR_TIFF_RGB && file->colours != MR_TIFF_CMYK))
        return 1;
    return file->colours == MR_TIFF_CMYK || file->premultiplied ? 4 : 3;
}

/* Are the samples in the file just as they are needed? */
static bool is_in_place(const struct tiff *tiff)
{
    return tiff->file.compression == MR_TIFF_PLAIN && !tiff->file.reversed;
}

/* For one plane: a piece, and a row more that is put in order. */
static uint64_t piece_bytes_of(const struct tiff *tiff)
{
    uint64_t n;
    uint64_t n_rows = (uint64_t)tiff->file.piece_height + 1;
    return mr_checked_mul_u64(mr_tiff_file_row_bytes(&tiff->file), n_rows, &n) ? n : UINT64_MAX;
}

static void make_colours(struct tiff *tiff)
{
    const struct mr_tiff_file *file = &tiff->file;
    uint32_t n = file->bits < 8 ? 1u << file->bits : 256;
    for (uint32_t i = 0; i < n; i++) {
        uint32_t grey = i * 255 / (n - 1);
        for (uint32_t k = 0; k < CHANNELS; k++) {
            if (file->colours == MR_TIFF_PALETTE && file->bits <= 8)
                tiff->colours[i][k] = (uint8_t)(mr_tiff_file_value(file, &file->colour_map, k * n + i) >> 8);
            else
                tiff->colours[i][k] = (uint8_t)(file->colours == MR_TIFF_WHITE_0 ? 255 - grey : grey);
        }
    }
}

static mr_status tiff_open(void *state, const uint8_t *bytes, size_t len, struct mr_image_head *head_out,
                           mr_error *error)
{
    struct tiff *tiff = state;
    struct mr_tiff_file *file = &tiff->file;
    mr_status status = mr_tiff_file_read(file, bytes, len, error);
    if (status == MR_OK)
        status = mr_codec_limits_check_pixels(&tiff->limits, file->width, file->height, error);
    if (status != MR_OK)
        return status;
    uint64_t piece_bytes = 0;
    if (!is_in_place(tiff) && !mr_checked_mul_u64(piece_bytes_of(tiff), n_planes(tiff), &piece_bytes))
        piece_bytes = UINT64_MAX;
    status = mr_codec_limits_check_image(&tiff->limits, file->width, file->height,
                                         file->orientation > 1 ? 2 * CHANNELS : CHANNELS, piece_bytes, error);
    if (status != MR_OK)
        return status;
    make_colours(tiff);
    *head_out = (struct mr_image_head){is_turned(tiff) ? file->height : file->width,
                                       is_turned(tiff) ? file->width : file->height, 1};
    return MR_OK;
}

/* A strip or tile as plain samples. */

static void reverse_bits(uint8_t *out, const uint8_t *in, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        uint32_t byte = in[i];
        byte = (byte & 0x55) << 1 | (byte >> 1 & 0x55);
        byte = (byte & 0x33) << 2 | (byte >> 2 & 0x33);
        out[i] = (uint8_t)(byte << 4 | byte >> 4);
    }
}

static uint32_t read_sample(const struct mr_tiff_file *file, const uint8_t *p)
{
    uint32_t n = file->bits / 8, value = 0;
    for (uint32_t i = 0; i < n; i++)
        value |= (uint32_t)p[i] << 8 * (file->big_endian ? n - 1 - i : i);
    return value;
}

static void write_sample(const struct mr_tiff_file *file, uint8_t *p, uint32_t value)
{
    uint32_t n = file->bits / 8;
    for (uint32_t i = 0; i < n; i++)
        p[i] = (uint8_t)(value >> 8 * (file->big_endian ? n - 1 - i : i));
}

/* Each sample was stored as its difference from the pixel on its left. */
static void undo_differences(const struct mr_tiff_file *file, uint8_t *row, size_t row_bytes)
{
    size_t sample = file->bits / 8, pixel = sample * (file->planar ? 1 : file->n_samples);
    for (size_t at = pixel; at + sample <= row_bytes; at += sample)
        write_sample(file, row + at, read_sample(file, row + at) + read_sample(file, row + at - pixel));
}

/* Floats: first the highest bytes of the whole row, and so on; each byte as the difference from the pixel's on its
 * left. */
static void undo_float_differences(const struct mr_tiff_file *file, uint8_t *row, size_t row_bytes, uint8_t *spare)
{
    size_t pixel = file->planar ? 1 : file->n_samples, n = row_bytes / 4;
    for (size_t at = pixel; at < row_bytes; at++)
        row[at] = (uint8_t)(row[at] + row[at - pixel]);
    memcpy(spare, row, row_bytes);
    for (size_t i = 0; i < n; i++) {
        for (size_t k = 0; k < 4; k++)
            row[i * 4 + (file->big_endian ? k : 3 - k)] = spare[k * n + i];
    }
}

static mr_status read_jpeg(struct tiff *tiff, const uint8_t *bytes, size_t len, uint32_t n_rows, uint8_t *out,
                           mr_error *error)
{
    const struct mr_tiff_file *file = &tiff->file;
    struct mr_tiff_jpeg_strip strip = {.bytes = bytes, .len = len, .ycc = file->ycc};
    strip.tables_len = (size_t)file->jpeg_tables.n * file->jpeg_tables.bytes;
    strip.tables = strip.tables_len > 0 ? file->bytes + file->jpeg_tables.at : NULL;
    strip.width = file->piece_width;
    strip.n_samples = file->n_samples;
    return mr_tiff_jpeg_run(tiff->jpeg, &strip, n_rows, out, error);
}

/* The first n_rows of piece i (whole: it has no more): *out_out, in the file or in the memory of plane. */
static mr_status read_piece(struct tiff *tiff, uint32_t i, uint32_t n_rows, bool whole, uint32_t plane,
                            const uint8_t **out_out, mr_error *error)
{
    const struct mr_tiff_file *file = &tiff->file;
    size_t row_bytes = mr_tiff_file_row_bytes(file), need = row_bytes * n_rows;
    size_t at = mr_tiff_file_value(file, &file->offsets, i);
    size_t len = at < file->len ? file->len - at : 0;
    size_t stored = file->compression == MR_TIFF_PLAIN ? need : mr_tiff_file_value(file, &file->lengths, i);
    if (len == 0 || stored > len)
        return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: a strip or tile lies beyond the file");
    const uint8_t *bytes = file->bytes + at;
    *out_out = bytes;
    if (is_in_place(tiff))
        return MR_OK;
    uint8_t *out = tiff->pieces.bytes + plane * piece_bytes_of(tiff);
    *out_out = out;
    if (file->compression == MR_TIFF_PLAIN) {
        reverse_bits(out, bytes, need);
        return MR_OK;
    }
    if (file->compression == MR_TIFF_JPEG)
        return read_jpeg(tiff, bytes, stored, n_rows, out, error);
    mr_status status = mr_tiff_unpack_run(tiff->unpack, file->compression, bytes, stored, out, need, whole, error);
    for (uint32_t y = 0; status == MR_OK && file->predictor > 1 && y < n_rows; y++) {
        if (file->predictor == 2)
            undo_differences(file, out + y * row_bytes, row_bytes);
        else
            undo_float_differences(file, out + y * row_bytes, row_bytes, out + file->piece_height * row_bytes);
    }
    return status;
}

/* Samples to RGB. */

/* Where a row's samples are: of pixel x and sample s at first[s] + x * step. */
struct samples {
    const uint8_t *first[MAX_PLANES];
    size_t step;
};

static uint8_t clip_number(const struct mr_tiff_file *file, uint32_t value)
{
    if (file->number == MR_TIFF_FLOAT) {
        float number;
        memcpy(&number, &value, sizeof number);
        return number >= 255.0f ? 255 : number > 0.0f ? (uint8_t)number : 0;
    }
    if (file->number == MR_TIFF_SIGNED && value >> (file->bits - 1) != 0)
        return 0;
    return value < 255 ? (uint8_t)value : 255;
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

/* The high byte of a colour of 16 bits, as Pillow takes it. */
static uint32_t read_colour(const struct mr_tiff_file *file, const struct samples *row, uint32_t s, size_t x)
{
    const uint8_t *p = row->first[s] + x * row->step;
    return p[file->bits == 16 && !file->big_endian ? 1 : 0];
}

static void put_colour(const struct mr_tiff_file *file, const struct samples *row, size_t x, uint8_t *out)
{
    uint32_t fourth = file->premultiplied || file->colours == MR_TIFF_CMYK ? read_colour(file, row, 3, x) : 0;
    for (uint32_t k = 0; k < CHANNELS; k++) {
        uint32_t value = read_colour(file, row, k, x);
        if (file->colours == MR_TIFF_CMYK)
            out[k] = scale_ink(value, fourth);
        else
            out[k] = file->premultiplied ? undo_alpha(value, fourth) : (uint8_t)value;
    }
}

static void put_row(const struct tiff *tiff, const struct samples *row, size_t x, uint32_t width, uint8_t *out)
{
    const struct mr_tiff_file *file = &tiff->file;
    bool colour = file->colours == MR_TIFF_RGB || file->colours == MR_TIFF_CMYK;
    for (size_t end = x + width; x < end; x++, out += CHANNELS) {
        const uint8_t *p = row->first[0] + x * row->step;
        if (colour)
            put_colour(file, row, x, out);
        else if (file->bits == 8)
            memcpy(out, tiff->colours[*p], CHANNELS);
        else if (file->bits < 8)
            memcpy(out,
                   tiff->colours[row->first[0][x * file->bits / 8] >> (8 - file->bits - x * file->bits % 8) &
                                 ((1u << file->bits) - 1)],
                   CHANNELS);
        else
            memset(out, clip_number(file, read_sample(file, p)), CHANNELS);
    }
}

static uint32_t min_u32(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* What of a box lies in the piece at column and line. */
static mr_status put_piece(struct tiff *tiff, uint32_t column, uint32_t line, const struct box *box, uint8_t *out,
                           mr_error *error)
{
    const struct mr_tiff_file *file = &tiff->file;
    uint32_t left = column * file->piece_width, top = line * file->piece_height;
    uint32_t x = box->x > left ? box->x : left, y = box->y > top ? box->y : top;
    uint32_t width = min_u32(box->x + box->width - left, file->piece_width) + left - x;
    uint32_t height = min_u32(box->y + box->height - top, file->piece_height) + top - y;
    uint32_t n_rows = y + height - top;
    uint32_t n_there = file->tiled ? file->piece_height : min_u32(file->piece_height, file->height - top);
    uint32_t sample_bytes = file->bits < 8 ? 1 : file->bits / 8;
    size_t row_bytes = mr_tiff_file_row_bytes(file), stride = (size_t)box->width * CHANNELS;
    struct samples row = {.step = file->planar ? sample_bytes : (size_t)sample_bytes * file->n_samples};
    for (uint32_t plane = 0; plane < n_planes(tiff); plane++) {
        uint32_t i = (plane * file->down + line) * file->across + column;
        mr_status status = read_piece(tiff, i, n_rows, n_rows == n_there, plane, &row.first[plane], error);
        if (status != MR_OK)
            return status;
        row.first[plane] += (y - top) * row_bytes;
    }
    for (uint32_t s = 1; s < MAX_PLANES && !file->planar; s++)
        row.first[s] = row.first[0] + (s < file->n_samples ? s : 0) * (size_t)sample_bytes;
    out += (y - box->y) * stride + (size_t)(x - box->x) * CHANNELS;
    for (uint32_t i = 0; i < height; i++, out += stride) {
        for (uint32_t s = 0; i > 0 && s < MAX_PLANES && row.first[s]; s++)
            row.first[s] += row_bytes;
        put_row(tiff, &row, x - left, width, out);
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

static struct box find_stored(const struct tiff *tiff, struct box box)
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

static void turn_box(const struct tiff *tiff, const uint8_t *stored, struct box from, uint8_t *out)
{
    uint32_t width = is_turned(tiff) ? from.height : from.width, height = is_turned(tiff) ? from.width : from.height;
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

static mr_status put_pieces(struct tiff *tiff, const struct box *box, uint8_t *out, mr_error *error)
{
    const struct mr_tiff_file *file = &tiff->file;
    uint32_t first = box->x / file->piece_width, last = (box->x + box->width - 1) / file->piece_width;
    uint32_t line = box->y / file->piece_height, last_line = (box->y + box->height - 1) / file->piece_height;
    mr_status status = MR_OK;
    for (; line <= last_line; line++) {
        for (uint32_t column = first; status == MR_OK && column <= last; column++)
            status = put_piece(tiff, column, line, box, out, error);
    }
    return status;
}

static mr_status tiff_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height, mr_error *error)
{
    struct tiff *tiff = state;
    size_t stride = (size_t)width * CHANNELS;
    bool upright = tiff->file.orientation == 1;
    uint64_t piece_bytes = is_in_place(tiff) ? 0 : piece_bytes_of(tiff) * n_planes(tiff);
    mr_status status = mr_box_rows_reserve(&tiff->pieces, piece_bytes, error);
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

static mr_status tiff_rows(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out, mr_error *error)
{
    struct tiff *tiff = state;
    return mr_box_rows_give(&tiff->rows, rows_out, max_rows, n_out, error);
}

const struct mr_codec_ops mr_codec_tiff = {
    .name = MR_IMAGE_FORMAT_TIFF,
    .create = tiff_create,
    .destroy = tiff_destroy,
    .open = tiff_open,
    .begin = tiff_begin,
    .rows = tiff_rows,
    .close = tiff_close,
};
