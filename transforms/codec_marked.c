/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes boxes of a JPEG by its marks. libjpeg reads the header that is stored with the marks.
 * Then jpeg_feed.h stands in for libjpeg's decoder, with blocks that jpeg_scan.h decodes from the
 * mark before each row's first column.
 *
 * Invariant: marks, rows and bytes may come from different files, so none of them is trusted to
 * describe another.
 */
#include "transforms/codec_marked.h"

#include "base/checked.h"
#include "transforms/jpeg/jpeg_feed.h"
#include "transforms/jpeg/jpeg_marks.h"
#include "transforms/jpeg/scan_file.h"
#include "transforms/jpeg_file.h"
#include "transforms/packed_header.h"
#include "transforms/simd/kernels.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* The last byte of a mark's part may be an 0xff, followed by a zero. */
#define LAST_BYTES 2

struct marked {
    struct mr_jpeg_file file; /* first: its address is the state's */
    uint32_t n_warnings;
    const struct mr_kernel_ops *kernels;
    bool libjpeg_idct;

    const struct mr_packed_image *image;
    struct mr_jpeg_marks marks;
    uint32_t row_marks;   /* marks per row */
    const uint8_t *bytes; /* [offset, offset + len) of the file */
    size_t len;
    uint64_t offset;

    struct mr_jpeg_scan_codes codes;
    struct mr_jpeg_scan scan;
    struct mr_jpeg_feed feed;
};

static void on_message(j_common_ptr common, int level)
{
    struct marked *marked = common->client_data;
    if (level < 0)
        marked->n_warnings++;
}

/* Here libjpeg must read nothing of the scan. */
static void on_data_end(struct mr_jpeg_file *file)
{
    mr_jpeg_box_fail((j_common_ptr)&file->box.cinfo);
}

/* Fails the current step: the marks do not belong to this image, or not to these bytes. */
static _Noreturn void fail_marks(struct marked *marked, const char *what)
{
    struct mr_jpeg_box *box = &marked->file.box;
    snprintf(box->words, sizeof box->words, "the JPEG's index does not fit its %s", what);
    mr_jpeg_box_escape(box, MR_ERR_DAMAGED);
}

/* Rows. */

/* Start the decoder at mark `number`. It may read bytes up to mark end_number. */
static bool start_at_mark(struct marked *marked, uint32_t number, uint32_t end_number, uint64_t mcu)
{
    const struct mr_jpeg_marks *marks = &marked->marks;
    const struct mr_jpeg_mark mark = mr_jpeg_marks_get(marks, number);
    uint64_t first = marked->offset, last = marked->offset + marked->len;
    if (end_number < marks->n_marks) {
        uint64_t end = mr_jpeg_marks_byte(marks, end_number) + LAST_BYTES;
        last = end < last ? end : last;
    }
    if (mark.at < first || mark.at >= last)
        return false;
    struct mr_jpeg_scan_place place = {
        .mcu = mcu, .at = marked->bytes + (mark.at - first), .bit = mark.bit};
    memcpy(place.predict, mark.predict, sizeof place.predict);
    mr_jpeg_scan_start_at(&marked->scan, marked->kernels, &marked->codes.mcu, &place,
                          marked->bytes + (last - first), marked->file.box.cinfo.restart_interval);
    return true;
}

/* Go to the first column of a row, from the mark at it or before it. */
static bool enter_row(struct marked *marked, uint32_t row)
{
    const struct mr_jpeg_feed *feed = &marked->feed;
    uint32_t row_mark = row * marked->row_marks, beyond = feed->first_column % MR_JPEG_MARKS_MCUS;
    uint32_t number = row_mark + feed->first_column / MR_JPEG_MARKS_MCUS;
    uint32_t end_number = row_mark + feed->last_column / MR_JPEG_MARKS_MCUS + 1;
    uint64_t mcu = (uint64_t)row * feed->n_columns + (feed->first_column - beyond);
    return start_at_mark(marked, number, end_number, mcu) &&
           mr_jpeg_scan_skip(&marked->scan, beyond);
}

static uint32_t take_mcus(void *state, uint32_t row, uint32_t column)
{
    struct marked *marked = state;
    struct mr_jpeg_feed *feed = &marked->feed;
    uint32_t n = feed->last_column + 1 - column;
    n = n < MR_PACKED_TILE_MCUS ? n : MR_PACKED_TILE_MCUS;
    if ((column == feed->first_column && !enter_row(marked, row)) ||
        !mr_jpeg_scan_store(&marked->scan, n, feed->blocks))
        fail_marks(marked, "bytes");
    return n;
}

static const struct mr_jpeg_feed_source marked_rows = {.take = take_mcus};

/* Create, destroy. */

static mr_status marked_create(const struct mr_codec_limits *limits, void **state_out,
                               mr_error *error)
{
    size_t len = mr_align_up(sizeof(struct marked), _Alignof(struct marked));
    struct marked *marked = aligned_alloc(_Alignof(struct marked), len);
    if (!marked)
        return mr_error_memory(error, len);
    memset(marked, 0, len);
    marked->kernels = mr_kernels_best();
    mr_jpeg_file_init(&marked->file, limits, on_message, on_data_end);
    *state_out = marked;
    return MR_OK;
}

static void marked_destroy(void *state)
{
    struct marked *marked = state;
    mr_jpeg_box_fini(&marked->file.box);
    free(marked);
}

void mr_codec_marked_use(void *state, const struct mr_kernel_ops *kernels, bool libjpeg_idct)
{
    struct marked *marked = state;
    marked->kernels = kernels;
    marked->libjpeg_idct = libjpeg_idct;
}

/* Open, begin, close. */

mr_status mr_codec_marked_open(void *state, const struct mr_packed_image *image,
                               const uint8_t *bytes, size_t len, uint64_t offset,
                               struct mr_image_head *head_out, mr_error *error)
{
    struct marked *marked = state;
    struct mr_jpeg_box *box = &marked->file.box;
    marked->image = image;
    marked->bytes = bytes;
    marked->len = len;
    marked->offset = offset;
    marked->n_warnings = 0;
    box->rows_left = 0;
    if (!mr_jpeg_marks_parse(image->marks, image->marks_len, &marked->marks))
        return mr_error_set(error, MR_ERR_DAMAGED, "the JPEG's index is damaged");
    mr_status status = mr_jpeg_file_read(&marked->file, mr_jpeg_marks_head(&marked->marks),
                                         marked->marks.head_len, error);
    if (status == MR_OK)
        status = mr_jpeg_file_check(&marked->file, jpeg_has_multiple_scans(&box->cinfo), head_out,
                                    error);
    if (status != MR_OK)
        return status;
    if (marked->n_warnings > 0 || jpeg_has_multiple_scans(&box->cinfo) ||
        head_out->width != image->width || head_out->height != image->height) {
        jpeg_destroy_decompress(&box->cinfo);
        return mr_error_set(error, MR_ERR_DAMAGED, "the JPEG's index does not fit its size");
    }
    head_out->orientation = image->orientation;
    return MR_OK;
}

/* Do the marks and the description agree with the header that libjpeg has read? */
static bool check_marks(struct marked *marked)
{
    const struct mr_jpeg_feed *feed = &marked->feed;
    struct mr_packed_template template;
    marked->row_marks = (feed->n_columns + MR_JPEG_MARKS_MCUS - 1) / MR_JPEG_MARKS_MCUS;
    return marked->n_warnings == 0 &&
           marked->marks.n_marks == (uint64_t)marked->row_marks * feed->n_rows &&
           marked->marks.n_components == (uint32_t)marked->file.box.cinfo.num_components &&
           mr_packed_header_describe(&marked->file.box.cinfo, &template, NULL) == MR_OK &&
           memcmp(&template, marked->image->template, sizeof template) == 0;
}

static void start_box(struct mr_jpeg_box *box)
{
    struct marked *marked = box->cinfo.client_data;
    j_decompress_ptr cinfo = &box->cinfo;
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo);
    mr_jpeg_box_crop(box);
    if (!mr_scan_file_set(&marked->codes, cinfo))
        fail_marks(marked, "scan");
    marked->feed.source = &marked_rows;
    marked->feed.idct_blocks = marked->libjpeg_idct ? NULL : marked->kernels->idct_blocks;
    mr_jpeg_feed_start(&marked->feed, box);
    if (!check_marks(marked))
        fail_marks(marked, "image");
    mr_jpeg_box_skip(box);
}

static mr_status marked_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                              mr_error *error)
{
    struct marked *marked = state;
    struct mr_jpeg_box *box = &marked->file.box;
    box->x = x;
    box->y = y;
    box->width = width;
    box->height = height;
    mr_status status = mr_jpeg_box_guard(box, start_box, error);
    box->rows_left = status == MR_OK ? height : 0;
    return status;
}

static mr_status marked_rows_of(void *state, const uint8_t **rows_out, uint32_t max_rows,
                                uint32_t *n_out, mr_error *error)
{
    struct marked *marked = state;
    return mr_jpeg_box_rows(&marked->file.box, rows_out, max_rows, n_out, error);
}

static uint32_t marked_close(void *state)
{
    struct marked *marked = state;
    jpeg_destroy_decompress(&marked->file.box.cinfo);
    return marked->n_warnings;
}

const struct mr_codec_ops mr_codec_marked = {
    .name = "marked",
    .create = marked_create,
    .destroy = marked_destroy,
    .begin = marked_begin,
    .rows = marked_rows_of,
    .close = marked_close,
};
