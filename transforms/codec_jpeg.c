/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG by libjpeg-turbo with its accurate defaults (ISLOW, fancy upsampling): the pixels are Pillow's. jpeg_box.h does
 * what comes after the entropy decoder.
 *
 * Easy to get wrong: libjpeg takes the end of the data for a warning and goes on with grey; here it is damage, unless
 * the rows of the box are complete.
 */
#include "transforms/codec_jpeg.h"

#include "transforms/exif.h"
#include "transforms/jpeg_box.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include <jerror.h>

struct jpeg {
    struct mr_jpeg_box box; /* first: its address is the state's */
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    struct mr_codec_limits limits;

    uint32_t n_warnings;
    uint32_t orientation;
    bool in_header;         /* no pixel can be complete yet */
    bool many_scans;        /* progressive, or one scan per component: the whole file is read before the first row */
    bool ran_out;           /* libjpeg was given an end-of-image marker that is not in the data */
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
static void on_data_end(struct jpeg *jpeg)
{
    j_decompress_ptr cinfo = &jpeg->box.cinfo;
    if (jpeg->many_scans && cinfo->input_iMCU_row > jpeg->last_imcu_row)
        return;
    if (jpeg->ran_out)
        cinfo->err->msg_code = JWRN_JPEG_EOF;
    mr_jpeg_box_fail((j_common_ptr)cinfo);
}

static void on_message(j_common_ptr common, int level)
{
    if (level >= 0)
        return;
    struct jpeg *jpeg = jpeg_of(common);
    jpeg->n_warnings++;
    if (common->err->msg_code == JWRN_HIT_MARKER && jpeg->box.cinfo.unread_marker == JPEG_EOI)
        on_data_end(jpeg);
}

/* Called by libjpeg before each step of reading a file of several scans. */
static void on_progress(j_common_ptr common)
{
    struct jpeg *jpeg = jpeg_of(common);
    struct mr_jpeg_box *box = &jpeg->box;
    if ((uint32_t)box->cinfo.input_scan_number <= jpeg->limits.max_scans)
        return;
    snprintf(box->words, sizeof box->words, "%d scans are above the limit of %" PRIu32, box->cinfo.input_scan_number,
             jpeg->limits.max_scans);
    mr_jpeg_box_escape(box, MR_ERR_DAMAGED);
}

/* The source: the whole file in memory. */

static const JOCTET end_of_image[2] = {0xff, JPEG_EOI};

static void source_begin(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

static boolean source_fill(j_decompress_ptr cinfo)
{
    struct jpeg *jpeg = jpeg_of((j_common_ptr)cinfo);
    if (jpeg->in_header)
        ERREXIT(cinfo, JERR_INPUT_EOF);
    jpeg->ran_out = true;
    cinfo->src->next_input_byte = end_of_image;
    cinfo->src->bytes_in_buffer = sizeof end_of_image;
    /* An arithmetic decoder goes on with zeros and does not say so; it looks few bytes ahead, so this is the place. */
    if (cinfo->arith_code)
        on_data_end(jpeg);
    return TRUE;
}

static void source_skip(j_decompress_ptr cinfo, long n_bytes)
{
    struct jpeg_source_mgr *source = cinfo->src;
    size_t n = n_bytes <= 0 ? 0 : (size_t)n_bytes;
    if (n > source->bytes_in_buffer)
        n = source->bytes_in_buffer;
    source->next_input_byte += n;
    source->bytes_in_buffer -= n;
}

static void source_end(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

/* APP1 is read where it lies; libjpeg's own saving of markers would copy it. */
static boolean read_app1(j_decompress_ptr cinfo)
{
    struct jpeg *jpeg = jpeg_of((j_common_ptr)cinfo);
    const JOCTET *at = cinfo->src->next_input_byte;
    size_t left = cinfo->src->bytes_in_buffer;
    size_t len = left < 2 ? left : (size_t)at[0] << 8 | at[1];
    if (left >= 2 && len < 2)
        ERREXIT(cinfo, JERR_BAD_LENGTH);
    if (len <= left && len >= 8 && memcmp(at + 2, "Exif\0\0", 6) == 0 && jpeg->orientation == 0)
        jpeg->orientation = mr_exif_orientation(at + 8, len - 8);
    source_skip(cinfo, (long)len);
    return TRUE;
}

/* Create, destroy. */

static void jpeg_state_destroy(void *state)
{
    struct jpeg *jpeg = state;
    mr_jpeg_box_fini(&jpeg->box);
    free(jpeg);
}

static mr_status jpeg_state_create(const struct mr_codec_limits *limits, void **state_out, mr_error *error)
{
    struct jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg)
        return mr_error_memory(error, sizeof *jpeg);
    jpeg->limits = *limits;
    mr_jpeg_box_init(&jpeg->box);
    jpeg->box.errors.emit_message = on_message;
    jpeg->progress.progress_monitor = on_progress;
    jpeg->source.init_source = source_begin;
    jpeg->source.fill_input_buffer = source_fill;
    jpeg->source.skip_input_data = source_skip;
    jpeg->source.resync_to_restart = jpeg_resync_to_restart;
    jpeg->source.term_source = source_end;
    *state_out = jpeg;
    return MR_OK;
}

/* Open: the header and the limits. */

/*
 * Each image has a decompressor of its own (2 us): one that is reused keeps the quantisation and Huffman tables of the
 * image before, and a damaged file that lacks some would decode by them, to pixels that depend on the order of files.
 */
static void read_header(struct mr_jpeg_box *box)
{
    struct jpeg *jpeg = box->cinfo.client_data;
    j_decompress_ptr cinfo = &box->cinfo;
    jpeg_create_decompress(cinfo);
    cinfo->src = &jpeg->source;
    cinfo->progress = &jpeg->progress;
    jpeg_set_marker_processor(cinfo, JPEG_APP0 + 1, read_app1);
    jpeg_read_header(cinfo, TRUE);
    jpeg->many_scans = jpeg_has_multiple_scans(cinfo);
}

static mr_status jpeg_open(void *state, const uint8_t *bytes, size_t len, struct mr_image_head *head_out,
                           mr_error *error)
{
    struct jpeg *jpeg = state;
    struct mr_jpeg_box *box = &jpeg->box;
    jpeg->n_warnings = 0;
    jpeg->orientation = 0;
    jpeg->in_header = true;
    jpeg->ran_out = false;
    jpeg->source.next_input_byte = bytes;
    jpeg->source.bytes_in_buffer = len;
    box->rows_left = 0;
    mr_status status = mr_jpeg_box_guard(box, read_header, error);
    if (status == MR_OK)
        status = mr_jpeg_box_check(box, &jpeg->limits, jpeg->many_scans, error);
    if (status != MR_OK) {
        jpeg_destroy_decompress(&box->cinfo);
        return status;
    }
    jpeg->in_header = false;
    head_out->width = box->cinfo.image_width;
    head_out->height = box->cinfo.image_height;
    head_out->orientation = jpeg->orientation == 0 ? 1 : jpeg->orientation;
    return MR_OK;
}

/* Begin: go to the first row of the box. */

/*
 * What the scans brought, where there are several. Components without a scan are missing data; so are coefficient bits
 * that did not come before the file ended. A progressive file may also end properly with bits missing: then libjpeg
 * smooths between blocks, over cut edges too, so that only a decode of whole rows from the top is exact.
 */
static void check_scans(struct jpeg *jpeg)
{
    j_decompress_ptr cinfo = &jpeg->box.cinfo;
    bool every_component = true;
    bool every_bit = true;
    for (int i = 0; i < cinfo->num_components; i++) {
        every_component &= cinfo->comp_info[i].quant_table != NULL;
        for (int k = 0; cinfo->coef_bits && k < DCTSIZE2; k++)
            every_bit &= cinfo->coef_bits[i][k] == 0;
    }
    if (!every_component || (!every_bit && jpeg->ran_out))
        ERREXIT(cinfo, JWRN_JPEG_EOF);
    jpeg->box.whole_rows = !every_bit;
}

static void start_box(struct mr_jpeg_box *box)
{
    struct jpeg *jpeg = box->cinfo.client_data;
    j_decompress_ptr cinfo = &box->cinfo;
    uint32_t last_row = box->y + box->height - 1 + MR_CODEC_JPEG_MARGIN;
    jpeg->last_imcu_row = last_row / ((uint32_t)cinfo->max_v_samp_factor * DCTSIZE);
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo); /* reads all scans where there are several */
    box->whole_rows = false;
    if (jpeg->many_scans)
        check_scans(jpeg);
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
    jpeg_destroy_decompress(&jpeg->box.cinfo);
    return jpeg->n_warnings;
}

const struct mr_codec_format mr_codec_jpeg = {
    .name = "jpeg",
    .create = jpeg_state_create,
    .destroy = jpeg_state_destroy,
    .open = jpeg_open,
    .begin = jpeg_begin,
    .rows = jpeg_rows,
    .close = jpeg_close,
};
