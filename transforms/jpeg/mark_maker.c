/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes marks: libjpeg reads the header, and our decoder skips through the scan and says where each
 * mark is.
 */
#include "transforms/jpeg/mark_maker.h"

#include "base/checked.h"
#include "transforms/jpeg/jpeg_marks.h"
#include "transforms/jpeg/marks_head.h"
#include "transforms/jpeg/scan_file.h"
#include "transforms/jpeg_file.h"
#include "transforms/packed.h"
#include "transforms/packed_header.h"
#include "transforms/scratch.h"
#include "transforms/simd/kernels.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define MAX_HEAD 65536    /* bytes; encoders write less than a thousand */
#define MIN_BLOCK_BITS 2u /* a DC coefficient and an end */

struct mr_mark_maker {
    struct mr_jpeg_file file; /* first: its address is the maker's */
    uint32_t n_warnings;
    const uint8_t *bytes; /* of the file */
    size_t len;
    struct mr_jpeg_marks marks;
    struct mr_packed_layout layout;
    struct mr_packed_template template;
    uint32_t rows[MR_PACKED_MAX_ROWS + 1];
    struct mr_scratch made; /* the marks' bytes */
    struct mr_jpeg_scan_codes codes;
    struct mr_jpeg_scan scan;
};

static void on_message(j_common_ptr common, int level)
{
    struct mr_mark_maker *maker = common->client_data;
    if (level < 0)
        maker->n_warnings++;
}

/* Here libjpeg must read nothing of the scan. */
static void on_data_end(struct mr_jpeg_file *file)
{
    mr_jpeg_box_fail((j_common_ptr)&file->box.cinfo);
}

mr_status mr_mark_maker_create(const struct mr_codec_limits *limits,
                               struct mr_mark_maker **maker_out, mr_error *error)
{
    size_t len = mr_align_up(sizeof(struct mr_mark_maker), _Alignof(struct mr_mark_maker));
    struct mr_mark_maker *maker = aligned_alloc(_Alignof(struct mr_mark_maker), len);
    *maker_out = maker;
    if (!maker)
        return mr_error_memory(error, len);
    memset(maker, 0, len);
    mr_jpeg_file_init(&maker->file, limits, on_message, on_data_end);
    return MR_OK;
}

void mr_mark_maker_destroy(struct mr_mark_maker *maker)
{
    if (!maker)
        return;
    mr_jpeg_box_fini(&maker->file.box);
    mr_scratch_fini(&maker->made);
    free(maker);
}

static mr_status refuse_file(mr_error *error, const char *why)
{
    return mr_error_set(error, MR_ERR_UNSUPPORTED, "no index for a JPEG: %s", why);
}

/* Find the scan and the number of marks, before any is made. */
static mr_status count_marks(struct mr_mark_maker *maker, const struct mr_packed_image *image,
                             mr_error *error)
{
    size_t scan_at = (size_t)(maker->file.source.next_input_byte - maker->bytes),
           left = maker->len - scan_at;
    struct mr_packed_layout *layout = &maker->layout;
    mr_packed_layout(image, layout);
    uint64_t n_mcus = (uint64_t)layout->n_columns * layout->n_rows;
    uint32_t each = (layout->n_columns + MR_JPEG_MARKS_MCUS - 1) / MR_JPEG_MARKS_MCUS;
    if (maker->len > UINT32_MAX || left > MR_JPEG_MARKS_MAX_SCAN)
        return refuse_file(error, "it is too long");
    if (n_mcus * layout->n_blocks * MIN_BLOCK_BITS > (uint64_t)left * 8)
        return refuse_file(error, "its scan is too short");
    size_t head_len = mr_marks_head_copy(maker->bytes, scan_at, NULL);
    if (head_len == 0 || head_len > MAX_HEAD)
        return refuse_file(error, "its header is unusual");
    maker->marks = (struct mr_jpeg_marks){.head_len = (uint32_t)head_len,
                                          .scan_at = (uint32_t)scan_at,
                                          .n_marks = each * layout->n_rows,
                                          .n_components = maker->template.n_components};
    return MR_OK;
}

/* Put a mark before the next MCU. *byte_out: the byte where it is. */
static bool put_mark(struct mr_mark_maker *maker, uint32_t number, uint32_t *byte_out)
{
    struct mr_jpeg_scan_place place;
    if (!mr_jpeg_scan_find_place(&maker->scan, &place))
        return false;
    struct mr_jpeg_mark mark = {.at = (uint64_t)(place.at - maker->bytes), .bit = place.bit};
    memcpy(mark.predict, place.predict, sizeof mark.predict);
    mr_jpeg_marks_put(&maker->marks, maker->made.memory, number, &mark);
    *byte_out = (uint32_t)mark.at;
    return true;
}

/* Skip all MCUs and put the marks; false if something is odd. */
static bool put_marks(struct mr_mark_maker *maker)
{
    const uint32_t n_columns = maker->layout.n_columns, n_rows = maker->layout.n_rows;
    uint32_t number = 0, byte;
    for (uint32_t row = 0; row < n_rows; row++)
        for (uint32_t column = 0; column < n_columns; column += MR_JPEG_MARKS_MCUS) {
            uint32_t left = n_columns - column;
            if (!put_mark(maker, number++, column == 0 ? &maker->rows[row] : &byte))
                return false;
            if (!mr_jpeg_scan_skip(&maker->scan,
                                   left < MR_JPEG_MARKS_MCUS ? left : MR_JPEG_MARKS_MCUS))
                return false;
        }
    assert(number == maker->marks.n_marks);
    maker->rows[n_rows] = (uint32_t)(mr_jpeg_scan_find_end(&maker->scan) - maker->bytes);
    return true;
}

static void start_decoder(struct mr_jpeg_box *box)
{
    j_decompress_ptr cinfo = &box->cinfo;
    cinfo->out_color_space = cinfo->num_components == 4 ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(cinfo);
}

/* What follows after the header is read. */
static mr_status make_marks(struct mr_mark_maker *maker, struct mr_packed_image *image,
                            mr_error *error)
{
    j_decompress_ptr cinfo = &maker->file.box.cinfo;
    if (jpeg_has_multiple_scans(cinfo))
        return refuse_file(error, "it has several scans");
    mr_status status = mr_jpeg_box_guard(&maker->file.box, start_decoder, error);
    if (status == MR_OK &&
        (maker->n_warnings > 0 ||
         !mr_scan_file_start(&maker->scan, &maker->codes, cinfo, mr_kernels_best())))
        return refuse_file(error, maker->n_warnings > 0 ? "libjpeg warns of its header"
                                                        : "it is not baseline");
    if (status == MR_OK)
        status = mr_packed_header_describe(cinfo, &maker->template, error);
    if (status == MR_OK)
        status = count_marks(maker, image, error);
    if (status == MR_OK)
        status =
            mr_scratch_reserve(&maker->made, (size_t)mr_jpeg_marks_bytes(&maker->marks), 1, error);
    if (status != MR_OK)
        return status;
    mr_marks_head_copy(maker->bytes, maker->marks.scan_at,
                       mr_jpeg_marks_begin(&maker->marks, maker->made.memory));
    if (!put_marks(maker))
        return refuse_file(error, "its scan is odd");
    mr_jpeg_marks_end(&maker->marks, maker->made.memory);
    return MR_OK;
}

mr_status mr_mark_maker_run(struct mr_mark_maker *maker, const uint8_t *bytes, size_t len,
                            struct mr_packed_image *image_out, mr_error *error)
{
    struct mr_image_head head;
    maker->bytes = bytes;
    maker->len = len;
    maker->n_warnings = 0;
    mr_status status = mr_jpeg_file_read(&maker->file, bytes, len, error);
    if (status != MR_OK)
        return status;
    bool many_scans = jpeg_has_multiple_scans(&maker->file.box.cinfo);
    status = mr_jpeg_file_check(&maker->file, many_scans, &head, error);
    if (status != MR_OK)
        return status;
    struct mr_packed_image image = {.encoding = MR_PACKED_MARKED,
                                    .width = head.width,
                                    .height = head.height,
                                    .orientation = head.orientation,
                                    .len = len,
                                    .template = &maker->template,
                                    .rows = maker->rows};
    status = make_marks(maker, &image, error);
    jpeg_destroy_decompress(&maker->file.box.cinfo);
    if (status != MR_OK)
        return status;
    image.n_rows = maker->layout.n_rows;
    image.marks = maker->made.memory;
    image.marks_len = (size_t)mr_jpeg_marks_bytes(&maker->marks);
    *image_out = image;
    return MR_OK;
}
