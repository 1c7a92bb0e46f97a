/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Opens JPEG files in memory. Where the data end, libjpeg gets an end-of-image marker, so it stops.
 * ran_out says that this marker was not in the data.
 */
#include "transforms/jpeg_file.h"

#include "base/exif.h"

#include <inttypes.h>
#include <string.h>

#include <jerror.h>

static struct mr_jpeg_file *get_file(j_common_ptr cinfo)
{
    return cinfo->client_data;
}

/*
 * A scan begins. Its header says how many blocks it visits, so every reader of the file stops
 * before the same scan.
 */
static void count_scan(struct mr_jpeg_file *file)
{
    struct mr_jpeg_box *box = &file->box;
    const struct jpeg_decompress_struct *cinfo = &box->cinfo;
    const struct mr_codec_limits *limits = &file->limits;
    file->n_scans = cinfo->input_scan_number;
    file->scan_blocks +=
        (uint64_t)cinfo->MCUs_per_row * cinfo->MCU_rows_in_scan * (unsigned)cinfo->blocks_in_MCU;
    if ((uint32_t)file->n_scans > limits->max_scans)
        snprintf(box->words, sizeof box->words, "%d scans are above the limit of %" PRIu32,
                 file->n_scans, limits->max_scans);
    else if (file->scan_blocks > limits->max_scan_blocks)
        snprintf(box->words, sizeof box->words,
                 "%" PRIu64 " blocks in its first %d scans are above the limit of %" PRIu64,
                 file->scan_blocks, file->n_scans, limits->max_scan_blocks);
    else
        return;
    mr_jpeg_box_escape(box, MR_ERR_DAMAGED);
}

/*
 * Called by libjpeg before each step of reading a file of several scans, and before rows of any
 * file.
 */
static void on_progress(j_common_ptr common)
{
    struct mr_jpeg_file *file = get_file(common);
    if (file->box.cinfo.input_scan_number > file->n_scans &&
        jpeg_has_multiple_scans(&file->box.cinfo))
        count_scan(file);
}

/* The source: the whole file in memory. */

static const JOCTET end_of_image[2] = {0xff, JPEG_EOI};

static void source_nothing(j_decompress_ptr cinfo)
{
    (void)cinfo;
}

static boolean source_fill(j_decompress_ptr cinfo)
{
    struct mr_jpeg_file *file = get_file((j_common_ptr)cinfo);
    if (file->in_header)
        ERREXIT(cinfo, JERR_INPUT_EOF);
    file->ran_out = true;
    cinfo->src->next_input_byte = end_of_image;
    cinfo->src->bytes_in_buffer = sizeof end_of_image;
    if (cinfo->arith_code)
        file->on_data_end(file);
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

/* APP1 is read where it is. If libjpeg saved the marker, it would copy it. */
static boolean read_app1(j_decompress_ptr cinfo)
{
    struct mr_jpeg_file *file = get_file((j_common_ptr)cinfo);
    const JOCTET *at = cinfo->src->next_input_byte;
    size_t left = cinfo->src->bytes_in_buffer;
    size_t len = left < 2 ? left : (size_t)at[0] << 8 | at[1];
    if (left >= 2 && len < 2)
        ERREXIT(cinfo, JERR_BAD_LENGTH);
    if (len <= left && len >= 8 && memcmp(at + 2, "Exif\0\0", 6) == 0 && file->orientation == 0)
        file->orientation = mr_exif_orientation(at + 8, len - 8);
    source_skip(cinfo, (long)len);
    return TRUE;
}

void mr_jpeg_file_init(struct mr_jpeg_file *file, const struct mr_codec_limits *limits,
                       void (*on_message)(j_common_ptr cinfo, int level),
                       void (*on_data_end)(struct mr_jpeg_file *file))
{
    file->limits = *limits;
    file->on_data_end = on_data_end;
    mr_jpeg_box_init(&file->box);
    file->box.errors.emit_message = on_message;
    file->progress.progress_monitor = on_progress;
    file->source.init_source = source_nothing;
    file->source.fill_input_buffer = source_fill;
    file->source.skip_input_data = source_skip;
    file->source.resync_to_restart = jpeg_resync_to_restart;
    file->source.term_source = source_nothing;
}

/*
 * Each image gets a new decompressor (2 us). A reused one keeps the quantisation and Huffman tables
 * of the previous image. A damaged file that lacks some would then decode to pixels that depend on
 * the order of files.
 */
static void read_header(struct mr_jpeg_box *box)
{
    struct mr_jpeg_file *file = box->cinfo.client_data;
    j_decompress_ptr cinfo = &box->cinfo;
    jpeg_create_decompress(cinfo);
    cinfo->src = &file->source;
    cinfo->progress = &file->progress;
    jpeg_set_marker_processor(cinfo, JPEG_APP0 + 1, read_app1);
    jpeg_read_header(cinfo, TRUE);
}

mr_status mr_jpeg_file_read(struct mr_jpeg_file *file, const uint8_t *bytes, size_t len,
                            mr_error *error)
{
    file->orientation = 0;
    file->in_header = true;
    file->ran_out = false;
    file->n_scans = 0;
    file->scan_blocks = 0;
    file->source.next_input_byte = bytes;
    file->source.bytes_in_buffer = len;
    mr_status status = mr_jpeg_box_guard(&file->box, read_header, error);
    if (status != MR_OK)
        jpeg_destroy_decompress(&file->box.cinfo);
    return status;
}

mr_status mr_jpeg_file_check(struct mr_jpeg_file *file, bool many_scans,
                             struct mr_image_head *head_out, mr_error *error)
{
    mr_status status = mr_jpeg_box_check(&file->box, &file->limits, many_scans, error);
    if (status != MR_OK) {
        jpeg_destroy_decompress(&file->box.cinfo);
        return status;
    }
    file->in_header = false;
    head_out->width = file->box.cinfo.image_width;
    head_out->height = file->box.cinfo.image_height;
    head_out->orientation = file->orientation == 0 ? 1 : file->orientation;
    return MR_OK;
}

bool mr_jpeg_file_has_every_bit(struct mr_jpeg_file *file)
{
    j_decompress_ptr cinfo = &file->box.cinfo;
    bool every_component = true;
    bool every_bit = true;
    for (int i = 0; i < cinfo->num_components; i++) {
        every_component &= cinfo->comp_info[i].quant_table != NULL;
        for (int k = 0; cinfo->coef_bits && k < DCTSIZE2; k++)
            every_bit &= cinfo->coef_bits[i][k] == 0;
    }
    if (!every_component || (!every_bit && file->ran_out))
        ERREXIT(cinfo, JWRN_JPEG_EOF);
    return every_bit;
}
