/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEG by libjpeg-turbo with its accurate defaults (ISLOW, fancy upsampling): the pixels are Pillow's.
 *
 * A crop is decoded by skipping the rows above it, cutting columns at multiples of an MCU, and stopping after its last
 * row. Easy to get wrong: fancy upsampling looks at neighbours, and libjpeg invents those that were skipped or cut off,
 * so pixels equal a full decode only with a margin around the box. libjpeg takes the end of the data for a warning and
 * goes on with grey; here it is damage, unless the rows of the box are complete.
 *
 * Every call into libjpeg runs inside guard(), because its errors come back by longjmp.
 */
#include "transforms/codec_jpeg.h"

#include "transforms/exif.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

/* Pixels around the box. One is too few where the cut is narrow: 4:2:0 crops that are one pixel wide differ. */
#define MARGIN 2
/* The narrowest cut: fancy upsampling is replaced by plain where a component has fewer than three columns. */
#define MIN_COLUMNS 16
#define DCT_BLOCK_BYTES (DCTSIZE2 * sizeof(JCOEF))

struct jpeg {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    struct jpeg_source_mgr source;
    struct jpeg_progress_mgr progress;
    jmp_buf escape;
    struct mr_codec_limits limits;

    mr_status status; /* of the error that escaped */
    char words[JMSG_LENGTH_MAX];
    uint32_t n_warnings;
    uint32_t orientation;
    bool in_header;  /* no pixel can be complete yet */
    bool many_scans; /* progressive, or one scan per component: the whole file is read before the first row */
    bool ran_out;    /* libjpeg was given an end-of-image marker that is not in the data */

    uint32_t x, y, width, height; /* the box */
    bool whole_rows;              /* neither columns nor rows may be skipped */
    uint32_t rows_left;           /* of the box */
    uint32_t rows_wanted;         /* by this step */
    uint32_t last_imcu_row;       /* that the box depends on */
    uint32_t row_offset;          /* bytes from a decoded row's start to the box */
    uint8_t *buffer;              /* MR_CODEC_ROWS rows; only grows */
    size_t buffer_bytes;
    JSAMPROW row_starts[MR_CODEC_ROWS];
};

static struct jpeg *jpeg_of(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

/* Errors. */

static _Noreturn void escape_with_words(struct jpeg *jpeg)
{
    jpeg->status = MR_ERR_DAMAGED;
    longjmp(jpeg->escape, 1);
}

static _Noreturn void on_error(j_common_ptr cinfo)
{
    struct jpeg *jpeg = jpeg_of(cinfo);
    cinfo->err->format_message(cinfo, jpeg->words);
    jpeg->status = cinfo->err->msg_code == JERR_OUT_OF_MEMORY ? MR_ERR_NO_MEMORY : MR_ERR_DAMAGED;
    longjmp(jpeg->escape, 1);
}

/*
 * The entropy decoder has no more data for the MCU row that it is in. With one scan that row is needed now; with
 * several the rows of the box may lie above it.
 */
static void on_data_end(struct jpeg *jpeg)
{
    j_decompress_ptr cinfo = &jpeg->cinfo;
    if (jpeg->many_scans && cinfo->input_iMCU_row > jpeg->last_imcu_row)
        return;
    if (jpeg->ran_out)
        cinfo->err->msg_code = JWRN_JPEG_EOF;
    on_error((j_common_ptr)cinfo);
}

static void on_message(j_common_ptr common, int level)
{
    if (level >= 0)
        return;
    struct jpeg *jpeg = jpeg_of(common);
    jpeg->n_warnings++;
    if (common->err->msg_code == JWRN_HIT_MARKER && jpeg->cinfo.unread_marker == JPEG_EOI)
        on_data_end(jpeg);
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

/* Called by libjpeg before each step of reading a file of several scans. */
static void on_progress(j_common_ptr common)
{
    struct jpeg *jpeg = jpeg_of(common);
    if ((uint32_t)jpeg->cinfo.input_scan_number <= jpeg->limits.max_scans)
        return;
    snprintf(jpeg->words, sizeof jpeg->words, "%d scans are above the limit of %" PRIu32, jpeg->cinfo.input_scan_number,
             jpeg->limits.max_scans);
    escape_with_words(jpeg);
}

static mr_status guard(struct jpeg *jpeg, void (*step)(struct jpeg *jpeg), mr_error *error)
{
    if (setjmp(jpeg->escape) != 0)
        return mr_error_set(error, jpeg->status, "%s", jpeg->words);
    step(jpeg);
    return MR_OK;
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
    free(jpeg->buffer);
    free(jpeg);
}

static mr_status jpeg_state_create(const struct mr_codec_limits *limits, void **state_out, mr_error *error)
{
    struct jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg)
        return mr_error_memory(error, sizeof *jpeg);
    jpeg->limits = *limits;
    jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
    jpeg->cinfo.client_data = jpeg;
    jpeg->errors.error_exit = on_error;
    jpeg->errors.emit_message = on_message;
    jpeg->errors.output_message = on_output;
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
static void read_header(struct jpeg *jpeg)
{
    j_decompress_ptr cinfo = &jpeg->cinfo;
    jpeg_create_decompress(cinfo);
    cinfo->src = &jpeg->source;
    cinfo->progress = &jpeg->progress;
    jpeg_set_marker_processor(cinfo, JPEG_APP0 + 1, read_app1);
    jpeg_read_header(cinfo, TRUE);
    jpeg->many_scans = jpeg_has_multiple_scans(&jpeg->cinfo);
}

/*
 * An upper estimate of what libjpeg allocates: with several scans every coefficient of the image, and always a few rows
 * of MCUs of samples (with their context) and of upsampled ones. Sides are at most 65535, so nothing overflows.
 */
static uint64_t estimate_memory(const struct jpeg *jpeg)
{
    const struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    uint64_t coefficients = 0;
    uint64_t samples = 0;
    uint64_t imcu_width = (uint64_t)cinfo->max_h_samp_factor * DCTSIZE;
    uint64_t full_width = (cinfo->image_width + imcu_width - 1) / imcu_width * imcu_width;
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        uint64_t blocks_wide = (uint64_t)component->width_in_blocks + (unsigned)component->h_samp_factor;
        uint64_t blocks_high = (uint64_t)component->height_in_blocks + (unsigned)component->v_samp_factor;
        coefficients += blocks_wide * blocks_high * DCT_BLOCK_BYTES;
        samples += full_width * (unsigned)cinfo->max_v_samp_factor * (2 * DCTSIZE + 4);
    }
    return samples + (jpeg->many_scans ? coefficients : 0);
}

static mr_status check_header(struct jpeg *jpeg, mr_error *error)
{
    const struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    mr_status status = mr_codec_check_pixels(&jpeg->limits, cinfo->image_width, cinfo->image_height, error);
    if (status == MR_OK)
        status = mr_codec_check_memory(&jpeg->limits, estimate_memory(jpeg), error);
    int n = cinfo->num_components;
    if (status == MR_OK && n != 1 && n != 3 && n != 4)
        status = mr_error_set(error, MR_ERR_DAMAGED, "JPEG with %d components; 1, 3 and 4 are supported", n);
    return status;
}

static mr_status jpeg_open(void *state, const uint8_t *bytes, size_t len, struct mr_image_head *head_out,
                           mr_error *error)
{
    struct jpeg *jpeg = state;
    jpeg->n_warnings = 0;
    jpeg->orientation = 0;
    jpeg->in_header = true;
    jpeg->ran_out = false;
    jpeg->rows_left = 0;
    jpeg->source.next_input_byte = bytes;
    jpeg->source.bytes_in_buffer = len;
    mr_status status = guard(jpeg, read_header, error);
    if (status == MR_OK)
        status = check_header(jpeg, error);
    if (status != MR_OK) {
        jpeg_destroy_decompress(&jpeg->cinfo);
        return status;
    }
    jpeg->in_header = false;
    head_out->width = jpeg->cinfo.image_width;
    head_out->height = jpeg->cinfo.image_height;
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
    j_decompress_ptr cinfo = &jpeg->cinfo;
    bool every_component = true;
    bool every_bit = true;
    for (int i = 0; i < cinfo->num_components; i++) {
        every_component &= cinfo->comp_info[i].quant_table != NULL;
        for (int k = 0; cinfo->coef_bits && k < DCTSIZE2; k++)
            every_bit &= cinfo->coef_bits[i][k] == 0;
    }
    if (!every_component || (!every_bit && jpeg->ran_out))
        ERREXIT(cinfo, JWRN_JPEG_EOF);
    jpeg->whole_rows = !every_bit;
}

static void crop_columns(struct jpeg *jpeg)
{
    j_decompress_ptr cinfo = &jpeg->cinfo;
    JDIMENSION full = cinfo->output_width;
    JDIMENSION left = jpeg->x > MARGIN ? jpeg->x - MARGIN : 0;
    JDIMENSION right = jpeg->x + jpeg->width;
    right = full - right > MARGIN ? right + MARGIN : full;
    if (right < MIN_COLUMNS)
        right = full < MIN_COLUMNS ? full : MIN_COLUMNS;
    if (right - left < MIN_COLUMNS)
        left = right > MIN_COLUMNS ? right - MIN_COLUMNS : 0;
    JDIMENSION width = right - left;
    if (jpeg->whole_rows || width == full)
        left = 0;
    else
        jpeg_crop_scanline(cinfo, &left, &width);
    /* Grey becomes RGB inside libjpeg; CMYK is still four bytes wide when the offset is applied. */
    jpeg->row_offset = (jpeg->x - left) * (unsigned)cinfo->output_components;
}

static void reserve_rows(struct jpeg *jpeg)
{
    size_t stride = (size_t)jpeg->cinfo.output_width * (unsigned)jpeg->cinfo.output_components;
    size_t need = stride * MR_CODEC_ROWS; /* at most 65535 x 4 x 8 */
    if (need > jpeg->buffer_bytes) {
        free(jpeg->buffer);
        jpeg->buffer_bytes = 0;
        jpeg->buffer = malloc(need);
        if (!jpeg->buffer)
            ERREXIT1(&jpeg->cinfo, JERR_OUT_OF_MEMORY, 0);
        jpeg->buffer_bytes = need;
    }
    for (size_t i = 0; i < MR_CODEC_ROWS; i++)
        jpeg->row_starts[i] = jpeg->buffer + i * stride;
}

static void read_rows(struct jpeg *jpeg)
{
    JDIMENSION n = jpeg->rows_wanted;
    for (JDIMENSION done = 0; done < n;)
        done += jpeg_read_scanlines(&jpeg->cinfo, jpeg->row_starts + done, n - done);
}

static void skip_to_box(struct jpeg *jpeg)
{
    JDIMENSION top = jpeg->y > MARGIN && !jpeg->whole_rows ? jpeg->y - MARGIN : 0;
    if (top > 0)
        jpeg_skip_scanlines(&jpeg->cinfo, top);
    for (JDIMENSION left = jpeg->y - top; left > 0; left -= jpeg->rows_wanted) {
        jpeg->rows_wanted = left < MR_CODEC_ROWS ? left : MR_CODEC_ROWS;
        read_rows(jpeg);
    }
}

static void start_box(struct jpeg *jpeg)
{
    j_decompress_ptr cinfo = &jpeg->cinfo;
    uint32_t last_row = jpeg->y + jpeg->height - 1 + MARGIN;
    jpeg->last_imcu_row = last_row / ((uint32_t)cinfo->max_v_samp_factor * DCTSIZE);
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo); /* reads all scans where there are several */
    jpeg->whole_rows = false;
    if (jpeg->many_scans)
        check_scans(jpeg);
    crop_columns(jpeg);
    reserve_rows(jpeg);
    skip_to_box(jpeg);
}

static mr_status jpeg_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height, mr_error *error)
{
    struct jpeg *jpeg = state;
    jpeg->x = x;
    jpeg->y = y;
    jpeg->width = width;
    jpeg->height = height;
    mr_status status = guard(jpeg, start_box, error);
    jpeg->rows_left = status == MR_OK ? height : 0;
    return status;
}

/* Rows. */

static uint8_t divide_by_255(unsigned value)
{
    value += 128;
    return (uint8_t)((value + (value >> 8)) >> 8);
}

/*
 * As Pillow: CMYK samples are taken to be stored inverted, as Adobe does, whatever the markers say. In place: three
 * bytes are written where four were read.
 */
static void cmyk_to_rgb(uint8_t *row, uint32_t width)
{
    const uint8_t *in = row;
    for (uint32_t i = 0; i < width; i++, in += 4, row += 3) {
        unsigned white = in[3];
        uint8_t r = (uint8_t)(white - divide_by_255((255u - in[0]) * white));
        uint8_t g = (uint8_t)(white - divide_by_255((255u - in[1]) * white));
        uint8_t b = (uint8_t)(white - divide_by_255((255u - in[2]) * white));
        row[0] = r;
        row[1] = g;
        row[2] = b;
    }
}

static mr_status jpeg_rows(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out, mr_error *error)
{
    struct jpeg *jpeg = state;
    uint32_t n = max_rows < jpeg->rows_left ? max_rows : jpeg->rows_left;
    if (n == 0)
        return mr_error_set(error, MR_ERR_STATE, "no rows are left in the box");
    jpeg->rows_wanted = n;
    mr_status status = guard(jpeg, read_rows, error);
    if (status != MR_OK) {
        jpeg->rows_left = 0;
        return status;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *row = jpeg->row_starts[i] + jpeg->row_offset;
        if (jpeg->cinfo.out_color_space == JCS_CMYK)
            cmyk_to_rgb(row, jpeg->width);
        rows_out[i] = row;
    }
    jpeg->rows_left -= n;
    *n_out = n;
    return MR_OK;
}

static uint32_t jpeg_close(void *state)
{
    struct jpeg *jpeg = state;
    jpeg_destroy_decompress(&jpeg->cinfo);
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
