/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a packed JPEG with libjpeg-turbo. After the header (packed_header.h), jpeg_feed.h stands
 * in for libjpeg's decoder, with the blocks of the tiles that the box needs.
 *
 * Invariant: bytes may hold anything, so every size in them is checked before it is used.
 */
#include "transforms/codec_packed.h"

#include "transforms/jpeg/jpeg_feed.h"
#include "transforms/simd/kernels.h"
#include "transforms/packed.h"
#include "transforms/packed_header.h"
#include "transforms/tile_format.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

struct packed {
    struct mr_jpeg_box box; /* first: its address is the state's */
    struct mr_codec_limits limits;
    const struct mr_kernel_ops *kernels;
    bool libjpeg_idct; /* use libjpeg's inverse DCT even if the kernels have one */
    struct mr_packed_header header;
    uint32_t n_warnings;

    const struct mr_packed_image *image;
    struct mr_packed_layout layout;
    const uint8_t *bytes; /* [offset, offset + len) of the sample */
    size_t len;
    uint64_t offset;

    const uint8_t *sizes; /* of the row's tiles, 16 bits each */
    const uint8_t *tile;  /* the next one of the row */

    struct mr_jpeg_feed feed;
};

static uint32_t load_u16(const uint8_t *at)
{
    return (uint32_t)at[0] | (uint32_t)at[1] << 8;
}

/* Errors. */

static void on_message(j_common_ptr common, int level)
{
    struct packed *packed = common->client_data;
    if (level < 0)
        packed->n_warnings++;
}

static _Noreturn void fail_row(struct packed *packed, uint32_t row)
{
    struct mr_jpeg_box *box = &packed->box;
    snprintf(box->words, sizeof box->words, "row %" PRIu32 " of the pack's sample is damaged", row);
    mr_jpeg_box_escape(box, MR_ERR_DAMAGED);
}

/* As in codec_jpeg.c, each image gets a new decompressor. */
static void read_header(struct mr_jpeg_box *box)
{
    struct packed *packed = box->cinfo.client_data;
    jpeg_create_decompress(&box->cinfo);
    mr_packed_header_read(&packed->header, &box->cinfo, packed->image);
}

/* Feeding libjpeg. */

/* Altered bytes may still be valid tiles, of other pixels. */
static bool sum_fits(const struct packed *packed, uint32_t row)
{
    const struct mr_packed_image *image = packed->image;
    size_t len = image->rows[row + 1] - image->rows[row];
    return !image->sums ||
           image->sums[row] == (uint32_t)packed->kernels->xxh3(
                                   packed->bytes + (image->rows[row] - packed->offset), len);
}

/* A row's tiles must fill the row exactly, and must be the tiles that were packed. */
static void start_row(struct packed *packed, uint32_t row)
{
    const uint32_t *rows = packed->image->rows;
    const uint32_t n_tiles = packed->layout.n_tiles;
    const uint8_t *sizes = packed->bytes + (rows[row] - packed->offset);
    size_t need = n_tiles * sizeof(uint16_t), before = 0;
    for (uint32_t i = 0; i < n_tiles; i++) {
        if (i == packed->feed.first_column / MR_PACKED_TILE_MCUS)
            before = need;
        need += load_u16(sizes + 2 * i);
    }
    if (need != rows[row + 1] - rows[row] || !sum_fits(packed, row))
        fail_row(packed, row);
    packed->sizes = sizes;
    packed->tile = sizes + before;
}

/*
 * Expand the tile that contains column, from that column on, as far as the box needs it. Returns
 * the number of MCUs.
 */
static uint32_t take_tile(void *state, uint32_t row, uint32_t column)
{
    struct packed *packed = state;
    const struct mr_packed_layout *layout = &packed->layout;
    uint32_t index = column / MR_PACKED_TILE_MCUS, start = index * MR_PACKED_TILE_MCUS,
             n_blocks = layout->n_blocks;
    uint32_t n = layout->n_columns - start, end = packed->feed.last_column + 1 - start;
    n = n < MR_PACKED_TILE_MCUS ? n : MR_PACKED_TILE_MCUS;
    end = end < n ? end : n;
    if (column == packed->feed.first_column)
        start_row(packed, row);
    size_t len = load_u16(packed->sizes + 2 * (size_t)index);
    if (!packed->kernels->expand_dct(packed->tile, len, n * n_blocks, (column - start) * n_blocks,
                                     end * n_blocks, packed->feed.blocks))
        fail_row(packed, row);
    packed->tile += len;
    return end - (column - start);
}

static const struct mr_jpeg_feed_source tiles = {.take = take_tile};

/* Are all rows of the box there? */
static mr_status check_rows(const struct packed *packed, mr_error *error)
{
    const struct mr_jpeg_box *box = &packed->box;
    const uint32_t *rows = packed->image->rows;
    struct mr_box need = {.x = box->x, .y = box->y, .width = box->width, .height = box->height};
    uint32_t first, last;
    mr_packed_rows(packed->image, &packed->layout, need, &first, &last);
    uint64_t start = rows[first], end = rows[last + 1];
    if (start >= packed->offset && end - packed->offset <= packed->len)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "rows %" PRIu32 " to %" PRIu32
                        " of the pack's sample were not read completely",
                        first, last);
}

static void start_box(struct mr_jpeg_box *box)
{
    struct packed *packed = box->cinfo.client_data;
    jpeg_start_decompress(&box->cinfo);
    mr_jpeg_box_crop(box);
    mr_jpeg_feed_start(&packed->feed, box);
    assert(packed->feed.n_columns == packed->layout.n_columns &&
           packed->feed.n_rows == packed->layout.n_rows);
    mr_jpeg_box_skip(box);
}

/* The codec. */

static mr_status packed_create(const struct mr_codec_limits *limits, void **state_out,
                               mr_error *error)
{
    struct packed *packed = aligned_alloc(_Alignof(struct packed), sizeof *packed);
    if (!packed)
        return mr_error_memory(error, sizeof *packed);
    memset(packed, 0, sizeof *packed);
    packed->limits = *limits;
    packed->kernels = mr_kernels_best();
    mr_jpeg_box_init(&packed->box);
    packed->box.errors.emit_message = on_message;
    mr_packed_header_init(&packed->header);
    *state_out = packed;
    return MR_OK;
}

static void packed_destroy(void *state)
{
    struct packed *packed = state;
    mr_jpeg_box_fini(&packed->box);
    free(packed);
}

void mr_codec_packed_use(void *state, const struct mr_kernel_ops *kernels)
{
    struct packed *packed = state;
    packed->kernels = kernels;
}

void mr_codec_packed_use_libjpeg_idct(void *state, bool libjpeg_idct)
{
    struct packed *packed = state;
    packed->libjpeg_idct = libjpeg_idct;
}

mr_status mr_codec_packed_open(void *state, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error)
{
    struct packed *packed = state;
    const struct mr_kernel_ops *kernels = packed->kernels;
    packed->image = image;
    packed->bytes = bytes;
    packed->len = len;
    packed->offset = offset;
    packed->n_warnings = 0;
    packed->box.rows_left = 0;
    packed->feed.source = &tiles;
    packed->feed.idct_blocks = packed->libjpeg_idct ? NULL : kernels->idct_blocks;
    mr_packed_layout(image, &packed->layout);
    mr_status status = mr_jpeg_box_guard(&packed->box, read_header, error);
    if (status == MR_OK)
        status = mr_jpeg_box_check(&packed->box, &packed->limits, false, error);
    if (status != MR_OK) {
        jpeg_destroy_decompress(&packed->box.cinfo);
        return status;
    }
    *head_out = (struct mr_image_head){
        .width = image->width, .height = image->height, .orientation = image->orientation};
    return MR_OK;
}

static mr_status packed_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                              mr_error *error)
{
    struct packed *packed = state;
    struct mr_jpeg_box *box = &packed->box;
    box->x = x;
    box->y = y;
    box->width = width;
    box->height = height;
    mr_status status = check_rows(packed, error);
    if (status == MR_OK)
        status = mr_jpeg_box_guard(box, start_box, error);
    box->rows_left = status == MR_OK ? height : 0;
    return status;
}

static mr_status packed_rows(void *state, const uint8_t **rows_out, uint32_t max_rows,
                             uint32_t *n_out, mr_error *error)
{
    return mr_jpeg_box_rows(state, rows_out, max_rows, n_out, error);
}

static uint32_t packed_close(void *state)
{
    struct packed *packed = state;
    jpeg_destroy_decompress(&packed->box.cinfo);
    return packed->n_warnings;
}

const struct mr_codec_ops mr_codec_packed = {
    .name = "packed",
    .create = packed_create,
    .destroy = packed_destroy,
    .begin = packed_begin,
    .rows = packed_rows,
    .close = packed_close,
};
