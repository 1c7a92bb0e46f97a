/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes JPEG by libjpeg-turbo with its accurate defaults (ISLOW, fancy upsampling): the pixels are Pillow's.
 * jpeg_box.h does what comes after the entropy decoder.
 *
 * Where the data end early, libjpeg only warns and goes on with grey. Here that is damage, unless the rows of the box
 * are complete.
 */
#include "transforms/codec_jpeg.h"

#include "base/image_format.h"
#include "transforms/jpeg_file.h"

#include <stdlib.h>

#include <jerror.h>

struct jpeg {
    struct mr_jpeg_file file; /* first: its address is the state's */
    uint32_t n_warnings;
    bool many_scans;        /* progressive, or one scan per component: the whole file is read before the first row */
    uint32_t last_imcu_row; /* that the box depends on */
};

static struct jpeg *jpeg_of(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

/* Errors. */

/*
 * The entropy decoder has no more data for the MCU row that it is in. With one scan that row is needed now; with
 * several the rows of the box may lie above it.
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
    struct jpeg *jpeg = jpeg_of(common);
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

static mr_status jpeg_state_create(const struct mr_codec_limits *limits, void **state_out, mr_error *error)
{
    struct jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg)
        return mr_error_memory(error, sizeof *jpeg);
    mr_jpeg_file_init(&jpeg->file, limits, on_message, on_data_end);
    *state_out = jpeg;
    return MR_OK;
}

/* Open: the header and the limits. */

static mr_status jpeg_open(void *state, const uint8_t *bytes, size_t len, struct mr_image_head *head_out,
                           mr_error *error)
{
    struct jpeg *jpeg = state;
    struct mr_jpeg_file *file = &jpeg->file;
    jpeg->n_warnings = 0;
    file->box.rows_left = 0;
    mr_status status = mr_jpeg_file_read(file, bytes, len, error);
    if (status != MR_OK)
        return status;
    jpeg->many_scans = jpeg_has_multiple_scans(&file->box.cinfo);
    return mr_jpeg_file_check(file, jpeg->many_scans, head_out, error);
}

/* Begin: go to the first row of the box. */

static void start_box(struct mr_jpeg_box *box)
{
    struct jpeg *jpeg = box->cinfo.client_data;
    j_decompress_ptr cinfo = &box->cinfo;
    uint32_t last_row = box->y + box->height - 1 + MR_CODEC_JPEG_MARGIN;
    jpeg->last_imcu_row = last_row / ((uint32_t)cinfo->max_v_samp_factor * DCTSIZE);
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo); /* reads all scans where there are several */
    /* Where bits are missing libjpeg smooths between blocks, over cut edges too: only a decode from the top is exact.
     */
    box->whole_rows = jpeg->many_scans && !mr_jpeg_file_has_every_bit(&jpeg->file);
    mr_jpeg_box_crop(box);
    mr_jpeg_box_skip(box);
}

static mr_status jpeg_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height, mr_error *error)
{
    struct mr_jpeg_box *box = state;
    box->x = x;
    box->y = y;
    box->width = width;
    box->height = height;
    mr_status status = mr_jpeg_box_guard(box, start_box, error);
    box->rows_left = status == MR_OK ? height : 0;
    return status;
}

/* Rows, close. */

static mr_status jpeg_rows(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out, mr_error *error)
{
    return mr_jpeg_box_rows(state, rows_out, max_rows, n_out, error);
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
