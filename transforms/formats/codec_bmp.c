/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes BMP as Pillow does: palettes of 1, 4 and 8 bits, plain or run-length encoded; colours of
 * 16, 24 and 32 bits, with the bit masks that Pillow knows. Alpha is dropped. A file with too few
 * bytes for its pixels is damaged, whatever box is asked for.
 *
 * Invariant: sizes and places in a file are compared with len in open(), or, for runs, where they
 * are used.
 */
#include "transforms/formats/codec_bmp.h"

#include "base/checked.h"
#include "base/image_format.h"
#include "transforms/formats/box_rows.h"

#include <inttypes.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#define CHANNELS 3
#define FILE_HEADER_BYTES 14
#define MIN_HEADER_BYTES 12

enum { PLAIN = 0, RLE8 = 1, RLE4 = 2, MASKS = 3 }; /* biCompression */

struct bmp {
    struct mr_codec_limits limits;
    const uint8_t *bytes;
    size_t len;
    uint32_t width;
    uint32_t height;
    bool top_down;
    uint32_t bits;
    uint32_t compression;
    uint64_t data_at;
    uint64_t row_bytes;
    uint8_t palette[256][CHANNELS];
    uint8_t shift[CHANNELS]; /* of each colour in a pixel of 16 or 32 bits, and its largest value */
    uint8_t largest[CHANNELS];
    struct mr_box_rows rows;
};

static mr_status bmp_create(const struct mr_codec_limits *limits, void **state_out, mr_error *error)
{
    struct bmp *bmp = calloc(1, sizeof *bmp);
    if (!bmp)
        return mr_error_memory(error, sizeof *bmp);
    bmp->limits = *limits;
    *state_out = bmp;
    return MR_OK;
}

static void bmp_destroy(void *state)
{
    struct bmp *bmp = state;
    mr_box_rows_fini(&bmp->rows);
    free(bmp);
}

static uint32_t bmp_close(void *state)
{
    struct bmp *bmp = state;
    mr_box_rows_clear(&bmp->rows);
    return 0;
}

/*
 * The header. Bytes past the end of the file are read as 0; read_header() compares the header's own
 * length with the file's.
 */

static uint32_t read_u16(const struct bmp *bmp, size_t at)
{
    return at + 2 <= bmp->len ? (uint32_t)bmp->bytes[at] | (uint32_t)bmp->bytes[at + 1] << 8 : 0;
}

static uint32_t read_u32(const struct bmp *bmp, size_t at)
{
    return read_u16(bmp, at) | read_u16(bmp, at + 2) << 16;
}

static bool has_runs(const struct bmp *bmp)
{
    return bmp->compression == RLE8 || bmp->compression == RLE4;
}

static mr_status refuse_value(mr_error *error, const char *what, uint32_t value)
{
    return mr_error_set(error, MR_ERR_DAMAGED, "BMP: %s %" PRIu32 " is not supported", what, value);
}

static mr_status read_header(struct bmp *bmp, uint32_t *header_bytes_out, uint32_t *n_colours_out,
                             mr_error *error)
{
    uint32_t header_bytes = read_u32(bmp, FILE_HEADER_BYTES);
    bool old = header_bytes == MIN_HEADER_BYTES; /* OS/2's */
    if (bmp->len < FILE_HEADER_BYTES + 4)
        return mr_error_set(error, MR_ERR_DAMAGED, "BMP: the file ends in its header");
    if (!old && header_bytes != 40 && header_bytes != 52 && header_bytes != 56 &&
        header_bytes != 64 && header_bytes != 108 && header_bytes != 124)
        return refuse_value(error, "a header of length", header_bytes);
    if (bmp->len - FILE_HEADER_BYTES < header_bytes)
        return mr_error_set(error, MR_ERR_DAMAGED, "BMP: the file ends in its header");
    uint32_t height = old ? read_u16(bmp, 20) : read_u32(bmp, 22);
    bmp->width = old ? read_u16(bmp, 18) : read_u32(bmp, 18);
    bmp->top_down = !old && height >> 24 == 0xff;
    bmp->height = bmp->top_down ? 0u - height : height;
    bmp->bits = read_u16(bmp, old ? 24 : 28);
    bmp->compression = old ? PLAIN : read_u32(bmp, 30);
    uint32_t n_colours = old ? 0 : read_u32(bmp, 46);
    *header_bytes_out = header_bytes;
    *n_colours_out = n_colours == 0 && bmp->bits <= 8 ? 1u << bmp->bits : n_colours;
    if (bmp->width == 0 || bmp->height == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "BMP: a side of 0 pixels");
    mr_status status = mr_codec_limits_check_pixels(&bmp->limits, bmp->width, bmp->height, error);
    uint32_t pixel_bytes = has_runs(bmp) ? CHANNELS + 1 : CHANNELS;
    if (status == MR_OK)
        status = mr_codec_limits_check_image(&bmp->limits, bmp->width, bmp->height, pixel_bytes, 0,
                                             error);
    return status;
}

/*
 * Pillow ignores a palette of greys, or of black and white. So indices past its end are greys too,
 * or white.
 */
static void extend_greys(struct bmp *bmp, uint32_t n_colours)
{
    uint32_t step = n_colours <= 2 ? 255 : 1;
    for (uint32_t i = 0; i < n_colours; i++) {
        for (int k = 0; k < CHANNELS; k++)
            if (bmp->palette[i][k] != i * step)
                return;
    }
    for (uint32_t i = n_colours; i < 256; i++)
        memset(bmp->palette[i], step == 1 ? (int)i : 255, CHANNELS);
}

/* The palette follows the header. Colours that it lacks are black. */
static mr_status read_palette(struct bmp *bmp, uint32_t header_bytes, uint32_t n_colours,
                              mr_error *error)
{
    size_t entry_bytes = header_bytes == MIN_HEADER_BYTES ? 3 : 4;
    size_t at = FILE_HEADER_BYTES + header_bytes;
    if (n_colours > 256)
        return refuse_value(error, "a palette of size", n_colours);
    memset(bmp->palette, 0, sizeof bmp->palette);
    for (uint32_t i = 0; i < n_colours && bmp->len - at >= entry_bytes; i++, at += entry_bytes) {
        for (int k = 0; k < CHANNELS; k++)
            bmp->palette[i][k] = bmp->bytes[at + 2 - k];
    }
    extend_greys(bmp, n_colours);
    /*
     * Some writers give the end of the header as the place of the pixels, though the palette is
     * there.
     */
    if (bmp->data_at == FILE_HEADER_BYTES + header_bytes || bmp->data_at == 0)
        bmp->data_at = FILE_HEADER_BYTES + header_bytes + entry_bytes * n_colours;
    return MR_OK;
}

/*
 * Bits, then the masks of red, green, blue and alpha that Pillow knows. With 24 and 32 bits each
 * mask is a whole byte.
 */
static const uint32_t known_masks[][5] = {
    {32, 0xff0000, 0xff00, 0xff, 0},
    {32, 0xff000000, 0xff0000, 0xff00, 0},
    {32, 0xff000000, 0xff00, 0xff, 0},
    {32, 0xff000000, 0xff0000, 0xff00, 0xff},
    {32, 0xff, 0xff00, 0xff0000, 0xff000000},
    {32, 0xff0000, 0xff00, 0xff, 0xff000000},
    {32, 0xff000000, 0xff00, 0xff, 0xff0000},
    {32, 0, 0, 0, 0}, /* blue, green, red */
    {24, 0xff0000, 0xff00, 0xff, 0},
    {16, 0xf800, 0x7e0, 0x1f, 0},
    {16, 0x7c00, 0x3e0, 0x1f, 0},
};

static void use_masks(struct bmp *bmp, const uint32_t masks[CHANNELS])
{
    for (int i = 0; i < CHANNELS; i++) {
        bmp->shift[i] = (uint8_t)__builtin_ctz(masks[i]);
        bmp->largest[i] = (uint8_t)(masks[i] >> bmp->shift[i]);
    }
}

static mr_status read_masks(struct bmp *bmp, uint32_t header_bytes, mr_error *error)
{
    static const uint32_t bgr[CHANNELS] = {0xff0000, 0xff00, 0xff},
                          bgr15[CHANNELS] = {0x7c00, 0x3e0, 0x1f};
    size_t at = FILE_HEADER_BYTES + 40;
    if (bmp->data_at == 0)
        bmp->data_at = FILE_HEADER_BYTES + header_bytes +
                       (bmp->compression == MASKS && header_bytes == 40 ? 12 : 0);
    use_masks(bmp, bmp->bits == 16 ? bgr15 : bgr);
    if (bmp->compression == PLAIN)
        return MR_OK;
    uint32_t masks[4] = {read_u32(bmp, at), read_u32(bmp, at + 4), read_u32(bmp, at + 8)};
    masks[3] = bmp->bits == 32 && header_bytes >= 56 ? read_u32(bmp, at + 12) : 0;
    for (size_t i = 0; i < sizeof known_masks / sizeof *known_masks; i++) {
        if (known_masks[i][0] != bmp->bits || memcmp(known_masks[i] + 1, masks, sizeof masks) != 0)
            continue;
        use_masks(bmp, masks[0] | masks[1] ? masks : bgr);
        return MR_OK;
    }
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "BMP: the masks %" PRIx32 " %" PRIx32 " %" PRIx32 " of %" PRIu32
                        " bits are not supported",
                        masks[0], masks[1], masks[2], bmp->bits);
}

static mr_status check_pixel_bytes(struct bmp *bmp, mr_error *error)
{
    bmp->row_bytes = ((uint64_t)bmp->width * bmp->bits + 31) / 32 * 4;
    uint64_t last = ((uint64_t)bmp->width * bmp->bits + 7) / 8, need;
    if (!mr_checked_mul_u64(bmp->row_bytes, bmp->height - 1, &need) ||
        !mr_checked_add_u64(need, last, &need))
        need = UINT64_MAX;
    uint64_t have = bmp->data_at < bmp->len ? bmp->len - bmp->data_at : 0;
    if (have >= (has_runs(bmp) ? 1 : need))
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "BMP: %" PRIu64 " bytes of pixels where %" PRIu64 " are needed", have,
                        need);
}

static mr_status read_file(struct bmp *bmp, mr_error *error)
{
    uint32_t header_bytes = 0, n_colours = 0;
    mr_status status = read_header(bmp, &header_bytes, &n_colours, error);
    if (status != MR_OK)
        return status;
    bool palette = bmp->bits == 1 || bmp->bits == 4 || bmp->bits == 8;
    if (!palette && bmp->bits != 16 && bmp->bits != 24 && bmp->bits != 32)
        return refuse_value(error, "a depth of", bmp->bits);
    if (bmp->compression > MASKS || (has_runs(bmp) && !palette) ||
        (bmp->compression == MASKS && palette))
        return refuse_value(error, "compression", bmp->compression);
    bmp->data_at = read_u32(bmp, 10);
    status = palette ? read_palette(bmp, header_bytes, n_colours, error)
                     : read_masks(bmp, header_bytes, error);
    return status == MR_OK ? check_pixel_bytes(bmp, error) : status;
}

static mr_status bmp_open(void *state, const uint8_t *bytes, size_t len,
                          struct mr_image_head *head_out, mr_error *error)
{
    struct bmp *bmp = state;
    bmp->bytes = bytes;
    bmp->len = len;
    mr_status status = read_file(bmp, error);
    if (status == MR_OK)
        *head_out = (struct mr_image_head){bmp->width, bmp->height, 1};
    return status;
}

/* Pixels of rows without runs. */

static uint32_t read_index(const struct bmp *bmp, const uint8_t *row, uint32_t x)
{
    size_t bit = (size_t)x * bmp->bits;
    return row[bit / 8] >> (8 - bmp->bits - bit % 8) & ((1u << bmp->bits) - 1);
}

static void read_colour(const struct bmp *bmp, const uint8_t *row, uint32_t x, uint8_t *out)
{
    const uint8_t *pixel = row + (size_t)x * (bmp->bits / 8);
    for (int i = 0; i < CHANNELS; i++) {
        uint32_t value =
            (uint32_t)(pixel[0] | pixel[1] << 8) >> bmp->shift[i] % 16 & bmp->largest[i];
        out[i] =
            bmp->bits == 16 ? (uint8_t)(value * 255 / bmp->largest[i]) : pixel[bmp->shift[i] / 8];
    }
}

static uint32_t row_in_file(const struct bmp *bmp, uint32_t y)
{
    return bmp->top_down ? y : bmp->height - 1 - y;
}

static void read_row(const struct bmp *bmp, uint32_t y, uint32_t x, uint32_t width, uint8_t *out)
{
    const uint8_t *row = bmp->bytes + bmp->data_at + row_in_file(bmp, y) * bmp->row_bytes;
    for (uint32_t i = 0; i < width; i++, out += CHANNELS) {
        if (bmp->bits <= 8)
            memcpy(out, bmp->palette[read_index(bmp, row, x + i)], CHANNELS);
        else
            read_colour(bmp, row, x + i, out);
    }
}

/* Runs: the whole image is expanded to indices, in the order of the file's rows. */

struct runs {
    const uint8_t *bytes;
    size_t len;
    size_t at;
    uint8_t *indices;
    uint64_t n; /* written so far */
    uint64_t n_all;
    uint64_t width;
    uint64_t x; /* as the encoder counts; may be past the end of a row */
    bool four_bits;
};

static void put_indices(struct runs *runs, uint64_t n, uint8_t even, uint8_t odd)
{
    uint64_t left = runs->n_all - runs->n;
    for (uint64_t i = 0; i < n && i < left; i++)
        runs->indices[runs->n + i] = i % 2 == 0 ? even : odd;
    runs->n += n < left ? n : left;
}

static void put_run(struct runs *runs, uint64_t n, uint8_t value)
{
    if (runs->x + n > runs->width)
        n = runs->x < runs->width ? runs->width - runs->x : 0;
    put_indices(runs, n, runs->four_bits ? value >> 4 : value,
                runs->four_bits ? value & 15 : value);
    runs->x += n;
}

/* Copy n indices, which are padded to an even place in the file. False if the file ends. */
static bool put_literal(struct runs *runs, uint32_t n)
{
    uint64_t left = runs->n_all - runs->n;
    uint32_t n_put = n < left ? n : (uint32_t)left;
    uint32_t n_bytes = runs->four_bits ? (n_put + 1) / 2 : n_put;
    if (n_bytes > runs->len - runs->at)
        return false;
    for (uint32_t i = 0; i < n_put; i++) {
        uint8_t byte = runs->bytes[runs->at + (runs->four_bits ? i / 2 : i)];
        uint8_t value = !runs->four_bits ? byte : i % 2 == 0 ? byte >> 4 : byte & 15;
        put_indices(runs, 1, value, value);
    }
    runs->at += n_bytes;
    runs->at += runs->at % 2;
    runs->x += n;
    return runs->at <= runs->len;
}

/* False at the end of the picture or of the file. */
static bool put_next(struct runs *runs)
{
    if (runs->len - runs->at < 2)
        return false;
    uint8_t n = runs->bytes[runs->at], value = runs->bytes[runs->at + 1];
    runs->at += 2;
    if (n > 0) {
        put_run(runs, n, value);
    } else if (value == 0) {
        put_indices(runs, (runs->width - runs->n % runs->width) % runs->width, 0, 0);
        runs->x = 0;
    } else if (value == 2 && runs->len - runs->at >= 2) {
        put_indices(runs, runs->bytes[runs->at] + runs->bytes[runs->at + 1] * runs->width, 0, 0);
        runs->at += 2;
        runs->x = runs->n % runs->width;
    } else {
        return value > 2 && put_literal(runs, value);
    }
    return true;
}

static mr_status read_runs(const struct bmp *bmp, uint8_t *indices, mr_error *error)
{
    struct runs runs = {
        .bytes = bmp->bytes, .len = bmp->len, .at = bmp->data_at, .indices = indices};
    runs.n_all = (uint64_t)bmp->width * bmp->height;
    runs.width = bmp->width;
    runs.four_bits = bmp->compression == RLE4;
    while (runs.n < runs.n_all && put_next(&runs))
        continue;
    if (runs.n == runs.n_all)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "BMP: the runs end after %" PRIu64 " of %" PRIu64 " pixels", runs.n,
                        runs.n_all);
}

static mr_status bmp_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                           mr_error *error)
{
    struct bmp *bmp = state;
    size_t stride = (size_t)width * CHANNELS;
    uint64_t n_bytes = (uint64_t)stride * height;
    uint64_t n_indices = has_runs(bmp) ? (uint64_t)bmp->width * bmp->height : 0;
    mr_status status = mr_box_rows_reserve(&bmp->rows, n_bytes + n_indices, error);
    uint8_t *indices = status == MR_OK ? bmp->rows.bytes + n_bytes : NULL;
    if (status == MR_OK && has_runs(bmp))
        status = read_runs(bmp, indices, error);
    if (status != MR_OK)
        return status;
    uint8_t *out = bmp->rows.bytes;
    for (uint32_t i = 0; i < height; i++, out += stride) {
        if (!has_runs(bmp)) {
            read_row(bmp, y + i, x, width, out);
            continue;
        }
        const uint8_t *row = indices + (uint64_t)row_in_file(bmp, y + i) * bmp->width + x;
        for (uint32_t k = 0; k < width; k++)
            memcpy(out + (size_t)k * CHANNELS, bmp->palette[row[k]], CHANNELS);
    }
    mr_box_rows_place(&bmp->rows, 0, stride, height);
    return MR_OK;
}

static mr_status bmp_rows(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out,
                          mr_error *error)
{
    struct bmp *bmp = state;
    return mr_box_rows_give(&bmp->rows, rows_out, max_rows, n_out, error);
}

const struct mr_codec_ops mr_codec_bmp = {
    .name = MR_IMAGE_FORMAT_BMP,
    .create = bmp_create,
    .destroy = bmp_destroy,
    .open = bmp_open,
    .begin = bmp_begin,
    .rows = bmp_rows,
    .close = bmp_close,
};
