/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Most JPEGs have one scan of Huffman codes. Decoding these codes takes most of the time, so it is
 * done once, for the tiles and for the pixels. Our scan decoder feeds both (jpeg_feed.h). If it
 * meets codes that it does not handle, libjpeg decodes them, and record_mcu(), which replaces
 * libjpeg's decode_mcu, copies each MCU's blocks to the tiles. All other JPEGs are read by
 * jpeg_read_coefficients().
 *
 * The packed sample is compared with these pixels, so their inverse DCT is always libjpeg's.
 *
 * Invariant: blocks beyond the image's edge are packed unchanged. They fill the last MCUs and
 * change no pixel, but a restored file needs them to have the same coefficients.
 */
#include "packs/packer_jpeg.h"

#include "base/checked.h"
#include "transforms/jpeg/jpeg_feed.h"
#include "transforms/jpeg/scan_file.h"
#include "transforms/jpeg_file.h"
#include "transforms/packed_header.h"
#include "transforms/packed_selftest.h"
#include "packs/packer_tiles.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>

/*
 * The start of libjpeg's private struct jpeg_entropy_decoder. mr_packed_selftest_check() has
 * verified this layout.
 */
struct entropy_decoder {
    void (*start_pass)(j_decompress_ptr cinfo);
    boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *mcu);
};

struct mr_packer_jpeg {
    struct mr_jpeg_file file; /* first, so a pointer to its box is also one to this struct */
    bool streams;             /* one pass */
    bool own;                 /* our decoder is tried first */
    bool gave_up;             /* our decoder met codes that it does not handle */
    boolean (*decode_mcu)(j_decompress_ptr cinfo, JBLOCKROW *mcu);
    jvirt_barray_ptr *arrays;      /* not in one pass */
    struct mr_packer_tiles *tiles; /* of run() */
    const struct mr_kernel_ops *kernels;
    struct mr_jpeg_scan_codes codes;
    struct mr_jpeg_scan scan;
    struct mr_jpeg_feed feed;
};

static struct mr_packer_jpeg *jpeg_from_cinfo(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

static struct mr_packer_jpeg *jpeg_from_box(struct mr_jpeg_box *box)
{
    return box->cinfo.client_data;
}

/* Warnings, and data that end too early, are errors: such a file is stored unchanged. */

static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        mr_jpeg_box_fail(cinfo);
}

static void on_data_end(struct mr_jpeg_file *file)
{
    ERREXIT(&file->box.cinfo, JWRN_JPEG_EOF);
}

/* Create, destroy. */

mr_status mr_packer_jpeg_create(const struct mr_codec_limits *limits,
                                struct mr_packer_jpeg **jpeg_out, mr_error *error)
{
    size_t len = mr_align_up(sizeof(struct mr_packer_jpeg), _Alignof(struct mr_packer_jpeg));
    struct mr_packer_jpeg *jpeg = aligned_alloc(_Alignof(struct mr_packer_jpeg), len);
    *jpeg_out = jpeg;
    if (!jpeg)
        return mr_error_memory(error, len);
    memset(jpeg, 0, len);
    jpeg->kernels = mr_kernels_best();
    const struct mr_codec_limits resolved = mr_codec_limits_resolve(limits);
    mr_jpeg_file_init(&jpeg->file, &resolved, on_message, on_data_end);
    return MR_OK;
}

void mr_packer_jpeg_destroy(struct mr_packer_jpeg *jpeg)
{
    if (!jpeg)
        return;
    mr_jpeg_box_fini(&jpeg->file.box);
    free(jpeg);
}

void mr_packer_jpeg_close(struct mr_packer_jpeg *jpeg)
{
    jpeg_destroy_decompress(&jpeg->file.box.cinfo);
}

/* Open. */

/* True for one scan with its components in the order of the header. */
static bool can_stream(const struct jpeg_decompress_struct *cinfo)
{
    bool streams = !cinfo->progressive_mode && !cinfo->arith_code &&
                   cinfo->comps_in_scan == cinfo->num_components;
    for (int i = 0; streams && i < cinfo->num_components; i++)
        streams = cinfo->cur_comp_info[i] == &cinfo->comp_info[i];
    return streams;
}

mr_status mr_packer_jpeg_open(struct mr_packer_jpeg *jpeg, const uint8_t *bytes, size_t len,
                              enum mr_packer_jpeg_way way, struct mr_image_head *head_out,
                              mr_error *error)
{
    jpeg->gave_up = false;
    const enum mr_codec_jpeg_decoder decoder = mr_packed_selftest_decoder();
    jpeg->own = way == MR_PACKER_JPEG_ONE_PASS && decoder != MR_CODEC_JPEG_STOCK;
    mr_status status = mr_jpeg_file_read(&jpeg->file, bytes, len, error);
    if (status != MR_OK)
        return status;
    jpeg->streams = way != MR_PACKER_JPEG_WHOLE && can_stream(&jpeg->file.box.cinfo);
    return mr_jpeg_file_check(&jpeg->file, !jpeg->streams, head_out, error);
}

/* Start. */

/* Called under mr_jpeg_box_guard(): leave the guarded function if status is a failure. */
static void escape_on_failure(struct mr_packer_jpeg *jpeg, mr_status status, const mr_error *error)
{
    struct mr_jpeg_box *box = &jpeg->file.box;
    if (status == MR_OK)
        return;
    snprintf(box->words, sizeof box->words, "%.*s", (int)sizeof box->words - 1, error->text);
    mr_jpeg_box_escape(box, status);
}

static void commit_mcu(struct mr_packer_jpeg *jpeg)
{
    mr_error error;
    escape_on_failure(jpeg, mr_packer_tiles_commit(jpeg->tiles, &error), &error);
}

/* Called in place of libjpeg's decode_mcu: calls it, then copies the blocks. */
static boolean record_mcu(j_decompress_ptr cinfo, JBLOCKROW *mcu)
{
    struct mr_packer_jpeg *jpeg = jpeg_from_cinfo((j_common_ptr)cinfo);
    if (!jpeg->decode_mcu(cinfo, mcu))
        return FALSE;
    int16_t(*blocks)[64] = mr_packer_tiles_next(jpeg->tiles);
    for (int i = 0; i < cinfo->blocks_in_MCU; i++)
        memcpy(blocks[i], mcu[i][0], sizeof blocks[i]);
    commit_mcu(jpeg);
    return TRUE;
}

/* Our decoder decodes a whole tile at once. */
static uint32_t decode_tile(void *state, uint32_t row, uint32_t column)
{
    struct mr_packer_jpeg *jpeg = state;
    struct mr_jpeg_feed *feed = &jpeg->feed;
    mr_error error;
    uint32_t n = feed->n_columns - column;
    n = n < MR_PACKED_TILE_MCUS ? n : MR_PACKED_TILE_MCUS;
    if (!mr_jpeg_scan_store(&jpeg->scan, n, feed->blocks)) {
        jpeg->gave_up = true;
        mr_jpeg_box_escape(&jpeg->file.box, MR_ERR_DAMAGED);
    }
    assert(row == jpeg->tiles->row && column == jpeg->tiles->column);
    escape_on_failure(
        jpeg, mr_packer_tiles_add(jpeg->tiles, n, (const int16_t(*)[64])feed->blocks, &error),
        &error);
    return n;
}

static const struct mr_jpeg_feed_source scans = {.take = decode_tile};

static void start_stream(struct mr_jpeg_box *box)
{
    struct mr_packer_jpeg *jpeg = jpeg_from_box(box);
    j_decompress_ptr cinfo = &box->cinfo;
    box->x = box->y = 0;
    box->width = cinfo->image_width;
    box->height = box->rows_left = cinfo->image_height;
    box->whole_rows = true;
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo);
    mr_jpeg_box_crop(box);
    if (jpeg->own && mr_scan_file_start(&jpeg->scan, &jpeg->codes, cinfo, jpeg->kernels)) {
        jpeg->feed.source = &scans;
        mr_jpeg_feed_start(&jpeg->feed, box);
        return;
    }
    struct entropy_decoder *entropy = (struct entropy_decoder *)(void *)cinfo->entropy;
    jpeg->decode_mcu = entropy->decode_mcu;
    entropy->decode_mcu = record_mcu;
}

/*
 * If the last bits of a progressive file are missing, libjpeg smooths between blocks. The decoder
 * of packs does not, so the pixels would differ.
 */
static void read_scans(struct mr_jpeg_box *box)
{
    struct mr_packer_jpeg *jpeg = jpeg_from_box(box);
    jpeg->arrays = jpeg_read_coefficients(&box->cinfo);
    if (mr_jpeg_file_has_every_bit(&jpeg->file))
        return;
    snprintf(box->words, sizeof box->words, "the last scans of the progressive JPEG are missing");
    mr_jpeg_box_escape(box, MR_ERR_UNSUPPORTED);
}

mr_status mr_packer_jpeg_start(struct mr_packer_jpeg *jpeg, struct mr_packed_template *template_out,
                               bool *gives_pixels_out, mr_error *error)
{
    mr_status status =
        mr_jpeg_box_guard(&jpeg->file.box, jpeg->streams ? start_stream : read_scans, error);
    *gives_pixels_out = jpeg->streams;
    return status == MR_OK ? mr_packed_header_describe(&jpeg->file.box.cinfo, template_out, error)
                           : status;
}

/* Run. */

static mr_status run_stream(struct mr_packer_jpeg *jpeg, uint8_t *pixels, mr_error *error)
{
    struct mr_jpeg_box *box = &jpeg->file.box;
    const uint8_t *rows[MR_CODEC_ROWS];
    size_t stride = (size_t)box->width * 3;
    while (box->rows_left > 0) {
        uint32_t n = 0;
        mr_status status = mr_jpeg_box_rows(box, rows, MR_CODEC_ROWS, &n, error);
        if (status != MR_OK)
            return status;
        for (uint32_t i = 0; i < n; i++, pixels += stride)
            memcpy(pixels, rows[i], stride);
    }
    if (jpeg->tiles->row == jpeg->tiles->layout.n_rows)
        return MR_OK;
    return mr_error_set(error, MR_ERR_UNSUPPORTED,
                        "libjpeg gave %" PRIu32 " of %" PRIu32 " rows of its blocks",
                        jpeg->tiles->row, jpeg->tiles->layout.n_rows);
}

/* Pass one row of MCUs from libjpeg's arrays to the tiles. */
static void copy_row(struct mr_packer_jpeg *jpeg, uint32_t row)
{
    j_decompress_ptr cinfo = &jpeg->file.box.cinfo;
    struct mr_packer_tiles *tiles = jpeg->tiles;
    JBLOCKARRAY rows[MR_PACKED_MAX_COMPONENTS];
    uint32_t n = (uint32_t)cinfo->num_components, h[MR_PACKED_MAX_COMPONENTS],
             v[MR_PACKED_MAX_COMPONENTS];
    for (uint32_t c = 0; c < n; c++) {
        h[c] = n == 1 ? 1 : (uint32_t)cinfo->comp_info[c].h_samp_factor;
        v[c] = n == 1 ? 1 : (uint32_t)cinfo->comp_info[c].v_samp_factor;
        rows[c] = cinfo->mem->access_virt_barray((j_common_ptr)cinfo, jpeg->arrays[c], row * v[c],
                                                 v[c], FALSE);
    }
    for (uint32_t column = 0; column < tiles->layout.n_columns; column++) {
        int16_t(*block)[64] = mr_packer_tiles_next(tiles);
        for (uint32_t c = 0; c < n; c++)
            for (uint32_t y = 0; y < v[c]; y++, block += h[c])
                memcpy(block, rows[c][y] + (size_t)column * h[c], h[c] * sizeof *block);
        commit_mcu(jpeg);
    }
}

static void copy_arrays(struct mr_jpeg_box *box)
{
    struct mr_packer_jpeg *jpeg = jpeg_from_box(box);
    for (uint32_t row = 0; row < jpeg->tiles->layout.n_rows; row++)
        copy_row(jpeg, row);
}

mr_status mr_packer_jpeg_run(struct mr_packer_jpeg *jpeg, struct mr_packer_tiles *tiles,
                             uint8_t *pixels, mr_error *error)
{
    jpeg->tiles = tiles;
    if (jpeg->streams)
        return run_stream(jpeg, pixels, error);
    return mr_jpeg_box_guard(&jpeg->file.box, copy_arrays, error);
}

bool mr_packer_jpeg_gave_up(const struct mr_packer_jpeg *jpeg)
{
    return jpeg->gave_up;
}
