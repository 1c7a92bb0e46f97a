/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes JPEG with libjpeg-turbo and its accurate defaults (ISLOW, fancy upsampling): the pixels
 * are Pillow's. jpeg_box.h does what comes after the entropy decoder.
 *
 * If the caller allows it, jpeg_scan.h decodes baseline files of one scan in libjpeg's place
 * (jpeg_feed.h), as long as nothing in them is odd. At the first oddity the file starts again from
 * its first byte with libjpeg alone: rows that were already given out are decoded again and
 * dropped, and only libjpeg's warnings and verdict count.
 *
 * If the data end early, libjpeg only warns and continues with grey. Here that is damage, unless
 * the rows of the box are complete.
 */
#include "transforms/codec_jpeg.h"

#include "base/checked.h"
#include "base/image_format.h"
#include "transforms/jpeg/jpeg_feed.h"
#include "transforms/jpeg/scan_file.h"
#include "transforms/jpeg_file.h"
#include "transforms/simd/kernels.h"

#include <stdlib.h>
#include <string.h>

#include <jerror.h>

struct jpeg {
    struct mr_jpeg_file file; /* first: its address is the state's */
    uint32_t n_warnings;
    bool many_scans; /* progressive, or one scan per component: libjpeg reads the whole file before
                        the first row */
    uint32_t last_imcu_row; /* the last one that the box depends on */

    enum mr_codec_jpeg_decoder decoder; /* what the caller allows */
    const struct mr_kernel_ops *kernels;
    const uint8_t *bytes;
    size_t len;
    bool stock;    /* libjpeg alone decodes this file */
    bool own;      /* our decoder has begun the box */
    bool odd;      /* our decoder has given up */
    uint64_t mcus; /* of the scan, already consumed */
    struct mr_jpeg_scan_codes codes;
    struct mr_jpeg_scan scan;
    struct mr_jpeg_feed feed;
};

static struct jpeg *get_jpeg(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

/* Errors. */

/*
 * The entropy decoder has no more data for its MCU row. With one scan that row is needed now. With
 * several, the rows of the box may be above it.
 */
static void on_data_end(struct mr_jpeg_file *file)
{
    struct jpeg *jpeg = file->box.cinfo.client_data;
    j_decompress_ptr cinfo = &file->box.cinfo;
    if (jpeg->many_scans && cinfo->input_iMCU_row > jpeg->last_imcu_row)
        return;
    if (file->ran_out)
        cinfo->err->msg_code = JWRN_JPEG_EOF;
    mr_jpeg_box_fail((j_common_ptr)cinfo);
}

static void on_message(j_common_ptr common, int level)
{
    if (level >= 0)
        return;
    struct jpeg *jpeg = get_jpeg(common);
    jpeg->n_warnings++;
    if (common->err->msg_code == JWRN_HIT_MARKER && jpeg->file.box.cinfo.unread_marker == JPEG_EOI)
        on_data_end(&jpeg->file);
}

/* Create, destroy. */

static void jpeg_state_destroy(void *state)
{
    struct jpeg *jpeg = state;
    mr_jpeg_box_fini(&jpeg->file.box);
    free(jpeg);
}

static mr_status jpeg_state_create(const struct mr_codec_limits *limits, void **state_out,
                                   mr_error *error)
{
    size_t len = mr_align_up(sizeof(struct jpeg), _Alignof(struct jpeg));
    struct jpeg *jpeg = aligned_alloc(_Alignof(struct jpeg), len);
    if (!jpeg)
        return mr_error_memory(error, len);
    memset(jpeg, 0, len);
    jpeg->kernels = mr_kernels_best();
    mr_jpeg_file_init(&jpeg->file, limits, on_message, on_data_end);
    *state_out = jpeg;
    return MR_OK;
}

void mr_codec_jpeg_use(void *state, enum mr_codec_jpeg_decoder decoder,
                       const struct mr_kernel_ops *kernels)
{
    struct jpeg *jpeg = state;
    jpeg->decoder = decoder;
    jpeg->kernels = kernels;
}

bool mr_codec_jpeg_used_own(const void *state)
{
    const struct jpeg *jpeg = state;
    return jpeg->own && !jpeg->odd;
}

/* Open: the header and the limits. */

static mr_status open_file(struct jpeg *jpeg, struct mr_image_head *head_out, mr_error *error)
{
    struct mr_jpeg_file *file = &jpeg->file;
    jpeg->n_warnings = 0;
    file->box.rows_left = 0;
    mr_status status = mr_jpeg_file_read(file, jpeg->bytes, jpeg->len, error);
    if (status != MR_OK)
        return status;
    jpeg->many_scans = jpeg_has_multiple_scans(&file->box.cinfo);
    return mr_jpeg_file_check(file, jpeg->many_scans, head_out, error);
}

static mr_status jpeg_open(void *state, const uint8_t *bytes, size_t len,
                           struct mr_image_head *head_out, mr_error *error)
{
    struct jpeg *jpeg = state;
    jpeg->bytes = bytes;
    jpeg->len = len;
    jpeg->own = jpeg->odd = false;
    return open_file(jpeg, head_out, error);
}

/* Our decoder in libjpeg's place. */

static _Noreturn void give_up(struct jpeg *jpeg)
{
    jpeg->odd = true;
    mr_jpeg_box_escape(&jpeg->file.box, MR_ERR_DAMAGED);
}

/* Skip MCUs up to the n-th. */
static void skip_to(struct jpeg *jpeg, uint64_t n)
{
    if (!mr_jpeg_scan_skip(&jpeg->scan, n - jpeg->mcus))
        give_up(jpeg);
    jpeg->mcus = n;
}

static uint32_t take_mcus(void *state, uint32_t row, uint32_t column)
{
    struct jpeg *jpeg = state;
    struct mr_jpeg_feed *feed = &jpeg->feed;
    uint32_t n = feed->last_column + 1 - column;
    n = n < MR_PACKED_TILE_MCUS ? n : MR_PACKED_TILE_MCUS;
    skip_to(jpeg, (uint64_t)row * feed->n_columns + column);
    if (!mr_jpeg_scan_store(&jpeg->scan, n, feed->blocks))
        give_up(jpeg);
    jpeg->mcus += n;
    return n;
}

/* libjpeg would have decoded the whole row, so anything odd in the rest of it counts. */
static void end_row(void *state, uint32_t row)
{
    struct jpeg *jpeg = state;
    skip_to(jpeg, (row + UINT64_C(1)) * jpeg->feed.n_columns);
}

static const struct mr_jpeg_feed_source scans = {.take = take_mcus, .end_row = end_row};

static void start_scan(struct jpeg *jpeg)
{
    if (jpeg->stock ||
        !mr_scan_file_start(&jpeg->scan, &jpeg->codes, &jpeg->file.box.cinfo, jpeg->kernels))
        return;
    jpeg->own = true;
    jpeg->mcus = 0;
    jpeg->feed.source = &scans;
    jpeg->feed.idct_blocks = jpeg->decoder == MR_CODEC_JPEG_OWN ? jpeg->kernels->idct_blocks : NULL;
    mr_jpeg_feed_start(&jpeg->feed, &jpeg->file.box);
}

/* Begin: go to the first row of the box. */

static void start_box(struct mr_jpeg_box *box)
{
    struct jpeg *jpeg = box->cinfo.client_data;
    j_decompress_ptr cinfo = &box->cinfo;
    uint32_t last_row = box->y + box->height - 1 + MR_CODEC_JPEG_MARGIN;
    jpeg->last_imcu_row = last_row / ((uint32_t)cinfo->max_v_samp_factor * DCTSIZE);
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo); /* reads all scans if there are several */
    /*
     * If coefficient bits are missing, libjpeg smooths between blocks, also across cut edges. Then
     * only a decode from the top is exact.
     */
    box->whole_rows = jpeg->many_scans && !mr_jpeg_file_has_every_bit(&jpeg->file);
    mr_jpeg_box_crop(box);
    start_scan(jpeg);
    mr_jpeg_box_skip(box);
}

static mr_status begin_box(struct mr_jpeg_box *box, mr_error *error)
{
    mr_status status = mr_jpeg_box_guard(box, start_box, error);
    box->rows_left = status == MR_OK ? box->height : 0;
    return status;
}

/* Start the file again with libjpeg alone, and go to where n rows of the box were given out. */
static mr_status start_again(struct jpeg *jpeg, uint32_t n, mr_error *error)
{
    struct mr_jpeg_box *box = &jpeg->file.box;
    const uint8_t *rows[MR_CODEC_ROWS];
    struct mr_image_head head;
    jpeg->own = jpeg->odd = false;
    jpeg->stock = true;
    jpeg_destroy_decompress(&box->cinfo);
    mr_status status = open_file(jpeg, &head, error);
    if (status == MR_OK)
        status = begin_box(box, error);
    for (uint32_t got; status == MR_OK && n > 0; n -= got)
        status = mr_jpeg_box_rows(box, rows, n < MR_CODEC_ROWS ? n : MR_CODEC_ROWS, &got, error);
    return status;
}

static mr_status jpeg_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                            mr_error *error)
{
    struct jpeg *jpeg = state;
    struct mr_jpeg_box *box = &jpeg->file.box;
    box->x = x;
    box->y = y;
    box->width = width;
    box->height = height;
    jpeg->stock = jpeg->decoder == MR_CODEC_JPEG_STOCK;
    mr_status status = begin_box(box, error);
    return jpeg->odd ? start_again(jpeg, 0, error) : status;
}

/* Rows, close. */

static mr_status jpeg_rows(void *state, const uint8_t **rows_out, uint32_t max_rows,
                           uint32_t *n_out, mr_error *error)
{
    struct jpeg *jpeg = state;
    struct mr_jpeg_box *box = &jpeg->file.box;
    uint32_t n_given = box->height - box->rows_left;
    mr_status status = mr_jpeg_box_rows(box, rows_out, max_rows, n_out, error);
    if (!jpeg->odd)
        return status;
    status = start_again(jpeg, n_given, error);
    return status == MR_OK ? mr_jpeg_box_rows(box, rows_out, max_rows, n_out, error) : status;
}

static uint32_t jpeg_close(void *state)
{
    struct jpeg *jpeg = state;
    jpeg_destroy_decompress(&jpeg->file.box.cinfo);
    return jpeg->n_warnings;
}

const struct mr_codec_ops mr_codec_jpeg = {
    .name = MR_IMAGE_FORMAT_JPEG,
    .create = jpeg_state_create,
    .destroy = jpeg_state_destroy,
    .open = jpeg_open,
    .begin = jpeg_begin,
    .rows = jpeg_rows,
    .close = jpeg_close,
};
