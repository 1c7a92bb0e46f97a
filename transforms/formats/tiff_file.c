/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads the header and the first directory. The values of a tag stay where they are in the file, so nothing is
 * allocated by what a file says.
 *
 * Invariant: a struct mr_tiff_values lies inside the file, whatever the file says.
 */
#include "transforms/formats/tiff_file.h"

#include <inttypes.h>

#define ENTRY_BYTES 12
#define MAX_SAMPLES 6
/* Each takes some 20 microseconds to begin. */
#define MAX_PIECES 262144
/* How often a byte may be part of a strip or tile, on the average. */
#define MAX_USES 16

enum tag {
    IMAGE_WIDTH,
    IMAGE_LENGTH,
    BITS_PER_SAMPLE,
    COMPRESSION,
    PHOTOMETRIC,
    FILL_ORDER,
    STRIP_OFFSETS,
    ORIENTATION,
    SAMPLES_PER_PIXEL,
    ROWS_PER_STRIP,
    STRIP_BYTE_COUNTS,
    PLANAR,
    PREDICTOR,
    COLOUR_MAP,
    TILE_WIDTH,
    TILE_LENGTH,
    TILE_OFFSETS,
    TILE_BYTE_COUNTS,
    EXTRA_SAMPLES,
    SAMPLE_FORMAT,
    JPEG_TABLES,
    N_TAGS
};

static const uint16_t tag_numbers[N_TAGS] = {
    [IMAGE_WIDTH] = 256,    [IMAGE_LENGTH] = 257,      [BITS_PER_SAMPLE] = 258,   [COMPRESSION] = 259,
    [PHOTOMETRIC] = 262,    [FILL_ORDER] = 266,        [STRIP_OFFSETS] = 273,     [ORIENTATION] = 274,
    [ROWS_PER_STRIP] = 278, [SAMPLES_PER_PIXEL] = 277, [STRIP_BYTE_COUNTS] = 279, [PLANAR] = 284,
    [PREDICTOR] = 317,      [COLOUR_MAP] = 320,        [TILE_WIDTH] = 322,        [TILE_LENGTH] = 323,
    [TILE_OFFSETS] = 324,   [TILE_BYTE_COUNTS] = 325,  [EXTRA_SAMPLES] = 338,     [SAMPLE_FORMAT] = 339,
    [JPEG_TABLES] = 347,
};

static uint32_t read_number(const struct mr_tiff_file *file, size_t at, uint32_t n_bytes)
{
    uint32_t value = 0;
    for (uint32_t i = 0; i < n_bytes; i++)
        value |= (uint32_t)file->bytes[at + i] << 8 * (file->big_endian ? n_bytes - 1 - i : i);
    return value;
}

uint32_t mr_tiff_file_value(const struct mr_tiff_file *file, const struct mr_tiff_values *values, uint32_t i)
{
    return read_number(file, values->at + (size_t)i * values->bytes, values->bytes);
}

static mr_status refuse(mr_error *error, const char *what)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %s", what);
}

static mr_status refuse_value(mr_error *error, const char *what, uint32_t value)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %s %" PRIu32 " is not supported", what, value);
}

/* Up to four bytes of values stand in the entry itself. */
static mr_status read_entry(const struct mr_tiff_file *file, size_t at, struct mr_tiff_values *values, mr_error *error)
{
    static const uint8_t type_bytes[] = {[1] = 1, [3] = 2, [4] = 4, [7] = 1};
    uint32_t type = read_number(file, at + 2, 2), n = read_number(file, at + 4, 4);
    if (type >= sizeof type_bytes || type_bytes[type] == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: tag %" PRIu32 " has type %" PRIu32, read_number(file, at, 2),
                            type);
    uint64_t len = (uint64_t)n * type_bytes[type];
    size_t place = len <= 4 ? at + 8 : read_number(file, at + 8, 4);
    if (place > file->len || len > file->len - place)
        return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: tag %" PRIu32 " lies beyond the file",
                            read_number(file, at, 2));
    *values = (struct mr_tiff_values){place, n, n > 0 ? type_bytes[type] : 0};
    return MR_OK;
}

static mr_status read_directory(struct mr_tiff_file *file, struct mr_tiff_values tags[N_TAGS], mr_error *error)
{
    size_t at = read_number(file, 4, 4);
    if (at > file->len || file->len - at < 2)
        return refuse(error, "the directory lies beyond the file");
    uint32_t n = read_number(file, at, 2);
    at += 2;
    if ((file->len - at) / ENTRY_BYTES < n)
        return refuse(error, "the directory lies beyond the file");
    for (; n > 0; n--, at += ENTRY_BYTES) {
        uint32_t number = read_number(file, at, 2);
        for (int tag = 0; tag < N_TAGS; tag++) {
            mr_status status = tag_numbers[tag] == number ? read_entry(file, at, &tags[tag], error) : MR_OK;
            if (status != MR_OK)
                return status;
        }
    }
    return MR_OK;
}

static uint32_t first_value(const struct mr_tiff_file *file, const struct mr_tiff_values *values, uint32_t otherwise)
{
    return values->n > 0 ? mr_tiff_file_value(file, values, 0) : otherwise;
}

/* All the same, as far as they are looked at; 0 if not. */
static uint32_t common_value(const struct mr_tiff_file *file, const struct mr_tiff_values *values, uint32_t otherwise)
{
    uint32_t value = first_value(file, values, otherwise);
    for (uint32_t i = 1; i < values->n && i < MAX_SAMPLES; i++) {
        if (mr_tiff_file_value(file, values, i) != value)
            return 0;
    }
    return value;
}

/* Colours, bits and extra samples together, as far as Pillow knows them. */
static bool is_known(const struct mr_tiff_file *file, uint32_t n_extra, uint32_t extra)
{
    bool grey = file->colours == MR_TIFF_WHITE_0 || file->colours == MR_TIFF_BLACK_0;
    bool plain = file->number == MR_TIFF_UNSIGNED && !file->reversed;
    if (file->planar && file->bits != 8)
        return false;
    if (file->bits <= 8 && file->n_samples == 1 && (grey || file->colours == MR_TIFF_PALETTE))
        return file->number == MR_TIFF_UNSIGNED ||
               (file->number == MR_TIFF_SIGNED && file->colours == MR_TIFF_BLACK_0 && file->bits == 8 &&
                !file->reversed);
    if (grey && file->n_samples == 1 && !file->reversed) {
        if (file->number == MR_TIFF_FLOAT)
            return file->bits == 32;
        if (file->number == MR_TIFF_UNSIGNED)
            return file->bits == 16 ? file->colours == MR_TIFF_BLACK_0 || !file->big_endian
                                    : file->colours == MR_TIFF_BLACK_0 && !file->big_endian;
        return file->colours == MR_TIFF_BLACK_0;
    }
    if (file->colours == MR_TIFF_BLACK_0 || file->colours == MR_TIFF_PALETTE)
        return plain && file->bits == 8 && file->n_samples == 2 && n_extra == 1 && (extra == 0 || extra == 2);
    if (file->colours == MR_TIFF_CMYK)
        return plain && file->n_samples == 4 + n_extra && extra == 0 &&
               (file->bits == 8 || (file->bits == 16 && n_extra == 0));
    if (file->colours != MR_TIFF_RGB || file->number != MR_TIFF_UNSIGNED || file->bits < 8 || file->bits > 16)
        return false;
    bool alpha_unsaid = file->n_samples == 4 && n_extra == 0;
    if (file->reversed)
        return file->bits == 8 && file->n_samples == 3;
    return (file->n_samples == 3 + n_extra && n_extra <= (file->bits == 8 ? 3u : 1u) && (extra <= 2 || extra == 999)) ||
           alpha_unsaid;
}

static mr_status read_pixels(struct mr_tiff_file *file, const struct mr_tiff_values tags[N_TAGS], mr_error *error)
{
    file->compression = first_value(file, &tags[COMPRESSION], MR_TIFF_PLAIN);
    bool differs = file->compression == MR_TIFF_LZW || file->compression == MR_TIFF_DEFLATE ||
                   file->compression == MR_TIFF_OLD_DEFLATE;
    if (!differs && file->compression != MR_TIFF_PLAIN && file->compression != MR_TIFF_PACKBITS &&
        file->compression != MR_TIFF_JPEG)
        return refuse_value(error, "compression", file->compression);
    file->colours = first_value(file, &tags[PHOTOMETRIC], MR_TIFF_WHITE_0);
    file->ycc = file->colours == MR_TIFF_YCC && file->compression == MR_TIFF_JPEG;
    if (file->ycc)
        file->colours = MR_TIFF_RGB;
    if (file->colours > MR_TIFF_CMYK || file->colours == 4)
        return refuse_value(error, "colour space", file->colours);
    file->number = common_value(file, &tags[SAMPLE_FORMAT], MR_TIFF_UNSIGNED);
    if (file->number < MR_TIFF_UNSIGNED || file->number > MR_TIFF_FLOAT)
        return refuse_value(error, "sample format", file->number);
    file->bits = common_value(file, &tags[BITS_PER_SAMPLE], 1);
    if (file->bits > 32 || (file->bits & (file->bits - 1)) != 0 || file->bits == 0)
        return refuse_value(error, "a depth of bits", file->bits);
    file->predictor = differs ? first_value(file, &tags[PREDICTOR], 1) : 1;
    if (file->predictor < 1 || file->predictor > 3 || (file->predictor == 2 && file->bits < 8) ||
        (file->predictor == 3 && file->number != MR_TIFF_FLOAT))
        return refuse_value(error, "predictor", file->predictor);
    file->reversed = first_value(file, &tags[FILL_ORDER], 1) == 2;
    if (file->reversed && file->compression != MR_TIFF_PLAIN)
        return refuse(error, "compressed bytes of reversed bits are not supported");
    file->planar = first_value(file, &tags[PLANAR], 1) == 2;
    file->n_samples = first_value(file, &tags[SAMPLES_PER_PIXEL], 1);
    if (file->n_samples < 1 || file->n_samples > MAX_SAMPLES)
        return refuse_value(error, "a number of samples", file->n_samples);
    uint32_t n_extra = tags[EXTRA_SAMPLES].n, extra = first_value(file, &tags[EXTRA_SAMPLES], 0);
    if (!is_known(file, n_extra, extra))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "TIFF: %" PRIu32 " samples of %" PRIu32 " bits in colour space %" PRIu32
                            " are not supported in this arrangement",
                            file->n_samples, file->bits, file->colours);
    file->premultiplied = file->colours == MR_TIFF_RGB && n_extra > 0 && extra == 1;
    bool plain_samples = !file->planar && file->bits == 8 && n_extra == 0 && file->number == MR_TIFF_UNSIGNED &&
                         file->colours != MR_TIFF_PALETTE && (!file->ycc || file->n_samples == 3);
    if (file->compression == MR_TIFF_JPEG && !plain_samples)
        return refuse(error, "a JPEG of these samples is not supported");
    file->jpeg_tables = tags[JPEG_TABLES];
    file->colour_map = tags[COLOUR_MAP];
    if (file->colours == MR_TIFF_PALETTE && (file->colour_map.n < 3u << file->bits || file->colour_map.bytes != 2))
        return refuse(error, "the palette is incomplete");
    return MR_OK;
}

uint64_t mr_tiff_file_row_bytes(const struct mr_tiff_file *file)
{
    uint64_t n_samples = (uint64_t)file->piece_width * (file->planar ? 1 : file->n_samples);
    return (n_samples * file->bits + 7) / 8;
}

/* A few strips may be the same bytes. Many that are long would take time that grows with the square of the file's size.
 */
static bool overlaps_much(const struct mr_tiff_file *file, uint32_t n)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < n; i++)
        sum += mr_tiff_file_value(file, &file->lengths, i);
    return sum / MAX_USES > file->len;
}

static mr_status read_pieces(struct mr_tiff_file *file, const struct mr_tiff_values tags[N_TAGS], mr_error *error)
{
    file->tiled = tags[STRIP_OFFSETS].n == 0;
    file->offsets = tags[file->tiled ? TILE_OFFSETS : STRIP_OFFSETS];
    file->lengths = tags[file->tiled ? TILE_BYTE_COUNTS : STRIP_BYTE_COUNTS];
    file->piece_width = file->tiled ? first_value(file, &tags[TILE_WIDTH], 0) : file->width;
    file->piece_height =
        first_value(file, &tags[file->tiled ? TILE_LENGTH : ROWS_PER_STRIP], file->tiled ? 0 : file->height);
    if (!file->tiled && file->piece_height > file->height)
        file->piece_height = file->height;
    if (file->piece_width == 0 || file->piece_height == 0)
        return refuse(error, "its strips or tiles have no size");
    file->across = (file->width - 1) / file->piece_width + 1;
    file->down = (file->height - 1) / file->piece_height + 1;
    uint64_t need = (uint64_t)file->across * file->down * (file->planar ? file->n_samples : 1);
    if (need > MAX_PIECES)
        return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %" PRIu64 " strips or tiles are above the limit of %d", need,
                            MAX_PIECES);
    if (file->offsets.n < need)
        return mr_error_set(error, MR_ERR_DAMAGED, "TIFF: %" PRIu32 " of %" PRIu64 " strips or tiles are there",
                            file->offsets.n, need);
    if (file->compression != MR_TIFF_PLAIN && file->lengths.n < need)
        return refuse(error, "its strips or tiles have no length");
    if (file->compression != MR_TIFF_PLAIN && overlaps_much(file, (uint32_t)need))
        return refuse(error, "its strips or tiles overlap too much");
    if (file->compression == MR_TIFF_PLAIN && mr_tiff_file_row_bytes(file) > file->len)
        return refuse(error, "a strip or tile lies beyond the file");
    return MR_OK;
}

mr_status mr_tiff_file_read(struct mr_tiff_file *file, const uint8_t *bytes, size_t len, mr_error *error)
{
    struct mr_tiff_values tags[N_TAGS] = {0};
    if (len < 8)
        return refuse(error, "the file ends in its header");
    *file = (struct mr_tiff_file){.bytes = bytes, .len = len, .big_endian = bytes[0] == 'M'};
    mr_status status = read_directory(file, tags, error);
    if (status != MR_OK)
        return status;
    file->width = first_value(file, &tags[IMAGE_WIDTH], 0);
    file->height = first_value(file, &tags[IMAGE_LENGTH], 0);
    if (file->width == 0 || file->height == 0)
        return refuse(error, "a side of 0 pixels");
    file->orientation = first_value(file, &tags[ORIENTATION], 1);
    if (file->orientation < 1 || file->orientation > 8)
        file->orientation = 1;
    status = read_pixels(file, tags, error);
    return status == MR_OK ? read_pieces(file, tags, error) : status;
}
