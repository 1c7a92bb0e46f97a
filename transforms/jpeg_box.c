/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes a crop: skips the rows above it, cuts columns at multiples of an MCU, and stops after its
 * last row.
 *
 * Invariant: the box has a margin. Fancy upsampling looks at neighbours, and libjpeg makes up those
 * that were skipped or cut off. Without a margin pixels would differ from a full decode's.
 */
#include "transforms/jpeg_box.h"

#include <stdlib.h>

#include <jerror.h>

/*
 * The narrowest cut. libjpeg replaces fancy upsampling by plain if a component has fewer than three
 * columns.
 */
#define MIN_COLUMNS 16
#define DCT_BLOCK_BYTES (DCTSIZE2 * sizeof(JCOEF))

/* Errors. */

void mr_jpeg_box_escape(struct mr_jpeg_box *box, mr_status status)
{
    box->status = status;
    longjmp(box->escape, 1);
}

void mr_jpeg_box_fail(j_common_ptr cinfo)
{
    struct mr_jpeg_box *box = cinfo->client_data;
    cinfo->err->format_message(cinfo, box->words);
    mr_jpeg_box_escape(box, cinfo->err->msg_code == JERR_OUT_OF_MEMORY ? MR_ERR_NO_MEMORY
                                                                       : MR_ERR_DAMAGED);
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

mr_status mr_jpeg_box_guard(struct mr_jpeg_box *box, void (*step)(struct mr_jpeg_box *box),
                            mr_error *error)
{
    if (setjmp(box->escape) != 0)
        return mr_error_set(error, box->status, "%s", box->words);
    step(box);
    return MR_OK;
}

void mr_jpeg_box_init(struct mr_jpeg_box *box)
{
    box->cinfo.err = jpeg_std_error(&box->errors);
    box->cinfo.client_data = box;
    box->errors.error_exit = mr_jpeg_box_fail;
    box->errors.output_message = on_output;
}

void mr_jpeg_box_fini(struct mr_jpeg_box *box)
{
    free(box->buffer);
}

/* Limits. */

/*
 * An upper estimate of what libjpeg allocates: every coefficient of the image if there are several
 * scans, and always a few rows of MCUs, of samples (with context) and of upsampled samples. Sides
 * are at most 65535, so nothing overflows.
 */
static uint64_t estimate_memory(const struct jpeg_decompress_struct *cinfo, bool many_scans)
{
    uint64_t coefficients = 0;
    uint64_t samples = 0;
    uint64_t imcu_width = (uint64_t)cinfo->max_h_samp_factor * DCTSIZE;
    uint64_t full_width = (cinfo->image_width + imcu_width - 1) / imcu_width * imcu_width;
    for (int i = 0; i < cinfo->num_components; i++) {
        const jpeg_component_info *component = &cinfo->comp_info[i];
        uint64_t blocks_wide =
            (uint64_t)component->width_in_blocks + (unsigned)component->h_samp_factor;
        uint64_t blocks_high =
            (uint64_t)component->height_in_blocks + (unsigned)component->v_samp_factor;
        coefficients += blocks_wide * blocks_high * DCT_BLOCK_BYTES;
        samples += full_width * (unsigned)cinfo->max_v_samp_factor * (2 * DCTSIZE + 4);
    }
    return samples + (many_scans ? coefficients : 0);
}

mr_status mr_jpeg_box_check(const struct mr_jpeg_box *box, const struct mr_codec_limits *limits,
                            bool many_scans, mr_error *error)
{
    const struct jpeg_decompress_struct *cinfo = &box->cinfo;
    mr_status status =
        mr_codec_limits_check_pixels(limits, cinfo->image_width, cinfo->image_height, error);
    if (status == MR_OK)
        status = mr_codec_limits_check_memory(limits, estimate_memory(cinfo, many_scans), error);
    int n = cinfo->num_components;
    if (status == MR_OK && n != 1 && n != 3 && n != 4)
        status = mr_error_set(error, MR_ERR_DAMAGED,
                              "JPEG with %d components; 1, 3 and 4 are supported", n);
    return status;
}

/* Going to the box. */

static void cut_columns(struct mr_jpeg_box *box)
{
    j_decompress_ptr cinfo = &box->cinfo;
    JDIMENSION full = cinfo->output_width;
    JDIMENSION left = box->x > MR_CODEC_JPEG_MARGIN ? box->x - MR_CODEC_JPEG_MARGIN : 0;
    JDIMENSION right = box->x + box->width;
    right = full - right > MR_CODEC_JPEG_MARGIN ? right + MR_CODEC_JPEG_MARGIN : full;
    if (right < MIN_COLUMNS)
        right = full < MIN_COLUMNS ? full : MIN_COLUMNS;
    if (right - left < MIN_COLUMNS)
        left = right > MIN_COLUMNS ? right - MIN_COLUMNS : 0;
    JDIMENSION width = right - left;
    if (box->whole_rows || width == full) {
        left = 0;
        width = full;
    } else {
        jpeg_crop_scanline(cinfo, &left, &width);
    }
    box->left = left;
    box->right = left + width;
}

static void reserve_rows(struct mr_jpeg_box *box)
{
    size_t stride = (size_t)box->cinfo.output_width * (unsigned)box->cinfo.output_components;
    size_t need = stride * MR_CODEC_ROWS; /* at most 65535 x 4 x 8 */
    if (need > box->buffer_bytes) {
        free(box->buffer);
        box->buffer_bytes = 0;
        box->buffer = malloc(need);
        if (!box->buffer)
            ERREXIT1(&box->cinfo, JERR_OUT_OF_MEMORY, 0);
        box->buffer_bytes = need;
    }
    for (size_t i = 0; i < MR_CODEC_ROWS; i++)
        box->row_starts[i] = box->buffer + i * stride;
}

void mr_jpeg_box_crop(struct mr_jpeg_box *box)
{
    cut_columns(box);
    reserve_rows(box);
}

static void read_rows(struct mr_jpeg_box *box)
{
    JDIMENSION n = box->rows_wanted;
    for (JDIMENSION done = 0; done < n;)
        done += jpeg_read_scanlines(&box->cinfo, box->row_starts + done, n - done);
}

void mr_jpeg_box_skip(struct mr_jpeg_box *box)
{
    JDIMENSION top =
        box->y > MR_CODEC_JPEG_MARGIN && !box->whole_rows ? box->y - MR_CODEC_JPEG_MARGIN : 0;
    if (top > 0)
        jpeg_skip_scanlines(&box->cinfo, top);
    for (JDIMENSION left = box->y - top; left > 0; left -= box->rows_wanted) {
        box->rows_wanted = left < MR_CODEC_ROWS ? left : MR_CODEC_ROWS;
        read_rows(box);
    }
}

/* Rows. */

static uint8_t divide_by_255(unsigned value)
{
    value += 128;
    return (uint8_t)((value + (value >> 8)) >> 8);
}

/*
 * As in Pillow, CMYK samples are taken as inverted, as Adobe stores them, whatever the markers say.
 * In place: three bytes are written where four were read.
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

mr_status mr_jpeg_box_rows(struct mr_jpeg_box *box, const uint8_t **rows_out, uint32_t max_rows,
                           uint32_t *n_out, mr_error *error)
{
    uint32_t n = max_rows < box->rows_left ? max_rows : box->rows_left;
    if (n == 0)
        return mr_error_set(error, MR_ERR_STATE, "no rows are left in the box");
    box->rows_wanted = n;
    mr_status status = mr_jpeg_box_guard(box, read_rows, error);
    if (status != MR_OK) {
        box->rows_left = 0;
        return status;
    }
    /* Grey becomes RGB inside libjpeg; CMYK is still four bytes wide when the offset is applied. */
    size_t offset = (size_t)(box->x - box->left) * (unsigned)box->cinfo.output_components;
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *row = box->row_starts[i] + offset;
        if (box->cinfo.out_color_space == JCS_CMYK)
            cmyk_to_rgb(row, box->width);
        rows_out[i] = row;
    }
    box->rows_left -= n;
    *n_out = n;
    return MR_OK;
}
