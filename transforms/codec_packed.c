/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a packed JPEG with libjpeg-turbo. After the header (packed_header.h), transform_row() replaces the functions
 * of libjpeg that decode and transform a row of MCUs: it expands the tiles that the box needs and makes samples of
 * them. Upsampling and colour stay libjpeg's, and so does the count of rows that are skipped.
 *
 * The places of those functions are private to libjpeg. So this file knows the versions whose insides it was written
 * for, and packed_selftest.c tries the library that is there.
 *
 * Invariant: bytes may hold anything, so every size in them is checked before it is used.
 */
#include "transforms/codec_packed.h"

#include "transforms/jpeg_box.h"
#include "transforms/simd/kernels.h"
#include "transforms/packed.h"
#include "transforms/packed_header.h"
#include "transforms/tile_format.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* Versions whose insides are as below; what a later one changes is not known. */
#if defined(LIBJPEG_TURBO_VERSION_NUMBER) && LIBJPEG_TURBO_VERSION_NUMBER >= 2000000 &&                                \
    LIBJPEG_TURBO_VERSION_NUMBER < 4000000
#define KNOWN_VERSION true
#else
#define KNOWN_VERSION false
#endif

/* The starts of libjpeg's private structs of these names (jpegint.h). */
struct entropy_decoder {
    void (*start_pass)(j_decompress_ptr cinfo);
    boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *blocks);
};

struct d_coef_controller {
    void (*start_input_pass)(j_decompress_ptr cinfo);
    int (*consume_data)(j_decompress_ptr cinfo);
    void (*start_output_pass)(j_decompress_ptr cinfo);
    int (*decompress_data)(j_decompress_ptr cinfo, JSAMPIMAGE planes);
};

struct inverse_dct {
    void (*start_pass)(j_decompress_ptr cinfo);
    void (*inverse_dct[MAX_COMPONENTS])(j_decompress_ptr cinfo, jpeg_component_info *component, JCOEFPTR block,
                                        JSAMPARRAY rows, JDIMENSION column);
};

typedef bool expand_tile(const uint8_t *tile, size_t len, uint32_t n_blocks, uint32_t first, uint32_t last,
                         int16_t (*out)[64]);

struct packed {
    struct mr_jpeg_box box; /* first: its address is the state's */
    struct mr_codec_limits limits;
    const struct mr_kernel_ops *kernels;
    bool libjpeg_idct; /* use libjpeg's inverse DCT, whatever the kernels have */
    struct mr_packed_header header;
    uint32_t n_warnings;

    const struct mr_packed_image *image;
    struct mr_packed_layout layout;
    expand_tile *expand;
    void (*idct_pair)(const int16_t *first, const int16_t *second, const uint16_t quant[64], uint8_t *const *rows,
                      size_t at); /* NULL: libjpeg's */
    const uint8_t *bytes;         /* [offset, offset + len) of the sample */
    size_t len;
    uint64_t offset;

    uint32_t first_column, last_column; /* MCUs that the box needs */
    uint32_t first_row, last_row;
    const uint8_t *sizes; /* of the row's tiles, 16 bits each */
    const uint8_t *tile;  /* the next one of the row */

    _Alignas(64) int16_t blocks[MR_TILE_MAX_BLOCKS][64]; /* of one tile, expanded */
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

/* As in codec_jpeg.c, each image has a decompressor of its own. */
static void read_header(struct mr_jpeg_box *box)
{
    struct packed *packed = box->cinfo.client_data;
    jpeg_create_decompress(&box->cinfo);
    mr_packed_header_read(&packed->header, &box->cinfo, packed->image);
}

/* Feeding libjpeg. */

/* A row's tiles must fill it exactly. */
static void start_row(struct packed *packed, uint32_t row)
{
    const uint32_t *rows = packed->image->rows;
    const uint32_t n_tiles = packed->layout.n_tiles;
    const uint8_t *sizes = packed->bytes + (rows[row] - packed->offset);
    size_t need = n_tiles * sizeof(uint16_t), before = 0;
    for (uint32_t i = 0; i < n_tiles; i++) {
        if (i == packed->first_column / MR_PACKED_TILE_MCUS)
            before = need;
        need += load_u16(sizes + 2 * i);
    }
    if (need != rows[row + 1] - rows[row])
        fail_row(packed, row);
    packed->sizes = sizes;
    packed->tile = sizes + before;
}

/* Expand the tile that column lies in, from there on, as far as the box needs it; returns the number of MCUs. */
static uint32_t next_tile(struct packed *packed, uint32_t row, uint32_t column)
{
    const struct mr_packed_layout *layout = &packed->layout;
    uint32_t index = column / MR_PACKED_TILE_MCUS, start = index * MR_PACKED_TILE_MCUS, n_blocks = layout->n_blocks;
    uint32_t n = layout->n_columns - start, end = packed->last_column + 1 - start;
    n = n < MR_PACKED_TILE_MCUS ? n : MR_PACKED_TILE_MCUS;
    end = end < n ? end : n;
    if (row < packed->first_row || row > packed->last_row) {
        /* libjpeg makes pixels of it, which the margin keeps away from the box. */
        memset(packed->blocks, 0, sizeof packed->blocks);
        return end - (column - start);
    }
    size_t len = load_u16(packed->sizes + 2 * (size_t)index);
    if (!packed->expand(packed->tile, len, n * n_blocks, (column - start) * n_blocks, end * n_blocks, packed->blocks))
        fail_row(packed, row);
    packed->tile += len;
    return end - (column - start);
}

/* The inverse DCT of a row of blocks, which go to rows from column at on. */
static void transform_blocks(struct packed *packed, int c, int16_t *const *blocks, uint32_t n, JSAMPARRAY rows,
                             JDIMENSION at)
{
    j_decompress_ptr cinfo = &packed->box.cinfo;
    const struct inverse_dct *idct = (const struct inverse_dct *)cinfo->idct;
    const uint16_t *quant = packed->image->template->quant[c];
    uint32_t i = 0;
    for (; packed->idct_pair && i + 2 <= n; i += 2, at += 2 * DCTSIZE)
        packed->idct_pair(blocks[i], blocks[i + 1], quant, rows, at);
    for (; i < n; i++, at += DCTSIZE)
        idct->inverse_dct[c](cinfo, &cinfo->comp_info[c], blocks[i], rows, at);
}

/*
 * n MCUs of one component, whose first block of an MCU is the first-th. The image ends before its last MCUs do: blocks
 * behind its edges are left out, since libjpeg has no room for those on the right.
 */
static void transform_component(struct packed *packed, int c, uint32_t first, uint32_t row, uint32_t column, uint32_t n,
                                JSAMPARRAY plane)
{
    const jpeg_component_info *component = &packed->box.cinfo.comp_info[c];
    const uint32_t h = packed->image->template->h[c], v = packed->image->template->v[c];
    const uint32_t wide = component->width_in_blocks - column * h, high = component->height_in_blocks - row * v;
    const JDIMENSION at = (column - packed->first_column) * h * DCTSIZE;
    for (uint32_t y = 0; y < v && y < high; y++) {
        int16_t *blocks[MR_PACKED_TILE_MCUS * 4];
        uint32_t n_blocks = 0;
        for (uint32_t m = 0; m < n; m++)
            for (uint32_t x = 0; x < h; x++)
                blocks[n_blocks++] = packed->blocks[m * packed->layout.n_blocks + first + y * h + x];
        transform_blocks(packed, c, blocks, n_blocks < wide ? n_blocks : wide, plane + y * DCTSIZE, at);
    }
}

/* In place of libjpeg's own: a row of MCUs to samples of each component, from the first column that is wanted. */
static int transform_row(j_decompress_ptr cinfo, JSAMPIMAGE planes)
{
    struct packed *packed = cinfo->client_data;
    const struct mr_packed_template *template = packed->image->template;
    uint32_t row = cinfo->input_iMCU_row;
    if (row >= packed->first_row && row <= packed->last_row)
        start_row(packed, row);
    for (uint32_t column = packed->first_column, n; column <= packed->last_column; column += n) {
        n = next_tile(packed, row, column);
        for (uint32_t c = 0, first = 0; c < template->n_components; c++) {
            transform_component(packed, (int)c, first, row, column, n, planes[c]);
            first += template->h[c] * template->v[c];
        }
    }
    cinfo->output_iMCU_row++;
    cinfo->input_iMCU_row++;
    return cinfo->input_iMCU_row < cinfo->total_iMCU_rows ? JPEG_ROW_COMPLETED : JPEG_SCAN_COMPLETED;
}

/* In place of the entropy decoder, which is only asked to skip rows; libjpeg counts them. */
static boolean skip_mcu(j_decompress_ptr cinfo, JBLOCKROW *blocks)
{
    (void)cinfo;
    (void)blocks;
    return TRUE;
}

static void feed_libjpeg(struct packed *packed)
{
    j_decompress_ptr cinfo = &packed->box.cinfo;
    assert(cinfo->MCUs_per_row == packed->layout.n_columns && cinfo->total_iMCU_rows == packed->layout.n_rows);
    assert((uint32_t)cinfo->blocks_in_MCU == packed->layout.n_blocks);
    packed->first_column = packed->box.left / packed->layout.mcu_width;
    packed->last_column = (packed->box.right - 1) / packed->layout.mcu_width;
    ((struct entropy_decoder *)cinfo->entropy)->decode_mcu = skip_mcu;
    ((struct d_coef_controller *)cinfo->coef)->decompress_data = transform_row;
}

/* Are the rows of the box there? */
static mr_status find_rows(struct packed *packed, mr_error *error)
{
    const struct mr_jpeg_box *box = &packed->box;
    const uint32_t *rows = packed->image->rows;
    struct mr_box need = {.x = box->x, .y = box->y, .width = box->width, .height = box->height};
    mr_packed_rows(packed->image, &packed->layout, need, &packed->first_row, &packed->last_row);
    uint64_t start = rows[packed->first_row], end = rows[packed->last_row + 1];
    if (start >= packed->offset && end - packed->offset <= packed->len)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "rows %" PRIu32 " to %" PRIu32 " of the pack's sample were not read as a whole",
                        packed->first_row, packed->last_row);
}

static void start_box(struct mr_jpeg_box *box)
{
    jpeg_start_decompress(&box->cinfo);
    mr_jpeg_box_crop(box);
    feed_libjpeg(box->cinfo.client_data);
    mr_jpeg_box_skip(box);
}

/* The codec. */

static mr_status packed_create(const struct mr_codec_limits *limits, void **state_out, mr_error *error)
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

bool mr_codec_packed_knows_libjpeg(void)
{
    return KNOWN_VERSION;
}

mr_status mr_codec_packed_open(void *state, const struct mr_packed_image *image, const uint8_t *bytes, size_t len,
                               uint64_t offset, struct mr_image_head *head_out, mr_error *error)
{
    struct packed *packed = state;
    const struct mr_kernel_ops *kernels = packed->kernels;
    packed->image = image;
    packed->bytes = bytes;
    packed->len = len;
    packed->offset = offset;
    packed->n_warnings = 0;
    packed->box.rows_left = 0;
    packed->idct_pair = packed->libjpeg_idct ? NULL : kernels->idct_pair;
    packed->expand = image->encoding == MR_PACKED_DCT ? kernels->expand_dct : kernels->expand_dct8;
    mr_packed_layout(image, &packed->layout);
    mr_status status = mr_jpeg_box_guard(&packed->box, read_header, error);
    if (status == MR_OK)
        status = mr_jpeg_box_check(&packed->box, &packed->limits, false, error);
    if (status != MR_OK) {
        jpeg_destroy_decompress(&packed->box.cinfo);
        return status;
    }
    *head_out =
        (struct mr_image_head){.width = image->width, .height = image->height, .orientation = image->orientation};
    return MR_OK;
}

static mr_status packed_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height, mr_error *error)
{
    struct packed *packed = state;
    struct mr_jpeg_box *box = &packed->box;
    box->x = x;
    box->y = y;
    box->width = width;
    box->height = height;
    mr_status status = find_rows(packed, error);
    if (status == MR_OK)
        status = mr_jpeg_box_guard(box, start_box, error);
    box->rows_left = status == MR_OK ? height : 0;
    return status;
}

static mr_status packed_rows(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out, mr_error *error)
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
