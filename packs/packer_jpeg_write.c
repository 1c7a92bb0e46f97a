/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes new JPEG files from pixels or from coefficients, with libjpeg.
 *
 * Invariant: begin_step() is called from inside libjpeg, so a failure there leaves by longjmp, as
 * libjpeg's own failures do.
 */
#include "packs/packer_jpeg_write.h"

#include "packs/packer_tiles.h"
#include "transforms/scratch.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#define MAX_SIDE 65500u /* libjpeg's JPEG_MAX_DIMENSION */
#define STEP ((size_t)64 << 10)
#define EXIF_BYTES 32
#define EXIF_VALUE 24 /* offset of the orientation in it */

struct writer {
    struct jpeg_compress_struct cinfo; /* client_data is the writer */
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf escape;
    struct mr_bytes *out;
    uint32_t width, height, orientation;
    /* For pixels: */
    const uint8_t *pixels;
    uint8_t *grey; /* one row; NULL: the image has colours */
    uint32_t quality;
    /* For coefficients: */
    const struct mr_packed_template *template;
    struct mr_packer_reading reading;
    jvirt_barray_ptr arrays[MR_PACKED_MAX_COMPONENTS];
    char words[JMSG_LENGTH_MAX];
    mr_status status; /* set on failure */
};

static _Noreturn void on_error(j_common_ptr cinfo)
{
    struct writer *writer = cinfo->client_data;
    cinfo->err->format_message(cinfo, writer->words);
    writer->status =
        cinfo->err->msg_code == JERR_OUT_OF_MEMORY ? MR_ERR_NO_MEMORY : MR_ERR_UNSUPPORTED;
    longjmp(writer->escape, 1);
}

static void on_message(j_common_ptr cinfo, int level)
{
    (void)cinfo;
    (void)level;
}

static void on_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

/* The destination. */

static void begin_step(j_compress_ptr cinfo)
{
    struct writer *writer = cinfo->client_data;
    struct mr_bytes *out = writer->out;
    if (mr_bytes_reserve(out, STEP, NULL) != MR_OK)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    cinfo->dest->next_output_byte = out->data + out->len;
    cinfo->dest->free_in_buffer = STEP;
}

static boolean flush_step(j_compress_ptr cinfo)
{
    struct writer *writer = cinfo->client_data;
    writer->out->len += STEP;
    begin_step(cinfo);
    return TRUE;
}

static void end_output(j_compress_ptr cinfo)
{
    struct writer *writer = cinfo->client_data;
    writer->out->len += STEP - cinfo->dest->free_in_buffer;
}

/* Writing. */

static void choose_settings(struct writer *writer)
{
    j_compress_ptr cinfo = &writer->cinfo;
    cinfo->image_width = writer->width;
    cinfo->image_height = writer->height;
    cinfo->input_components = writer->grey ? 1 : 3;
    cinfo->in_color_space = writer->grey ? JCS_GRAYSCALE : JCS_RGB;
    jpeg_set_defaults(cinfo); /* 4:2:0 */
    jpeg_set_quality(cinfo, (int)writer->quality, TRUE);
    cinfo->optimize_coding = TRUE;
}

static void write_row(struct writer *writer, uint32_t y)
{
    const uint8_t *row = writer->pixels + (size_t)y * writer->width * 3;
    for (uint32_t x = 0; writer->grey && x < writer->width; x++)
        writer->grey[x] = row[3 * (size_t)x];
    /* libjpeg does not write to the row */
    JSAMPROW line = writer->grey ? writer->grey : (JSAMPROW)(uintptr_t)row;
    jpeg_write_scanlines(&writer->cinfo, &line, 1);
}

/*
 * The EXIF data: a TIFF header and one entry (orientation, SHORT, count 1), no further directory.
 */
static void write_orientation(struct writer *writer)
{
    uint8_t exif[EXIF_BYTES] = "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0";
    if (writer->orientation < 2)
        return;
    exif[EXIF_VALUE + 1] = (uint8_t)writer->orientation;
    jpeg_write_marker(&writer->cinfo, JPEG_APP0 + 1, exif, sizeof exif);
}

static void write_pixels(struct writer *writer)
{
    j_compress_ptr cinfo = &writer->cinfo;
    choose_settings(writer);
    jpeg_start_compress(cinfo, TRUE);
    write_orientation(writer);
    for (uint32_t y = 0; y < writer->height; y++)
        write_row(writer, y);
    jpeg_finish_compress(cinfo);
}

/* Coefficients. */

static J_COLOR_SPACE colour_space(uint32_t colour)
{
    switch (colour) {
    case MR_PACKED_GREY: return JCS_GRAYSCALE;
    case MR_PACKED_RGB: return JCS_RGB;
    case MR_PACKED_YCC: return JCS_YCbCr;
    case MR_PACKED_CMYK: return JCS_CMYK;
    default: return JCS_YCCK;
    }
}

/*
 * The number of a component's quantisation table is that of the first component with an equal
 * table.
 */
static int find_quant_table(const struct mr_packed_template *template, int component)
{
    int same = 0;
    while (memcmp(template->quant[same], template->quant[component],
                  sizeof template->quant[same]) != 0)
        same++;
    return same;
}

static void describe_coefficients(struct writer *writer)
{
    j_compress_ptr cinfo = &writer->cinfo;
    const struct mr_packed_template *template = writer->template;
    cinfo->image_width = writer->width;
    cinfo->image_height = writer->height;
    cinfo->input_components = template->n_components;
    cinfo->in_color_space = colour_space(template->colour);
    jpeg_set_defaults(cinfo);
    jpeg_set_colorspace(cinfo, cinfo->in_color_space);
    cinfo->optimize_coding = TRUE;
    for (int c = 0; c < cinfo->num_components; c++) {
        jpeg_component_info *component = &cinfo->comp_info[c];
        component->h_samp_factor = template->h[c];
        component->v_samp_factor = template->v[c];
        component->quant_tbl_no = find_quant_table(template, c);
        if (!cinfo->quant_tbl_ptrs[c])
            cinfo->quant_tbl_ptrs[c] = jpeg_alloc_quant_table((j_common_ptr)cinfo);
        memcpy(cinfo->quant_tbl_ptrs[c]->quantval, template->quant[c], sizeof template->quant[c]);
        cinfo->quant_tbl_ptrs[c]->sent_table = FALSE;
    }
}

/* The arrays hold whole MCUs of each component. */
static void request_arrays(struct writer *writer, const struct mr_packed_layout *layout)
{
    j_compress_ptr cinfo = &writer->cinfo;
    for (int c = 0; c < cinfo->num_components; c++) {
        JDIMENSION h = writer->template->h[c], v = writer->template->v[c];
        writer->arrays[c] = cinfo->mem->request_virt_barray(
            (j_common_ptr)cinfo, JPOOL_IMAGE, FALSE, layout->n_columns * h, layout->n_rows * v, v);
    }
}

/* Copy n MCUs of a row, beginning at this column. */
static void fill_mcus(struct writer *writer, uint32_t row, uint32_t column, uint32_t n)
{
    j_compress_ptr cinfo = &writer->cinfo;
    const int16_t(*block)[64] = (const int16_t(*)[64])writer->reading.blocks;
    JBLOCKARRAY rows[MR_PACKED_MAX_COMPONENTS];
    for (int c = 0; c < cinfo->num_components; c++) {
        JDIMENSION v = writer->template->v[c];
        rows[c] = cinfo->mem->access_virt_barray((j_common_ptr)cinfo, writer->arrays[c], row * v, v,
                                                 TRUE);
    }
    for (uint32_t i = column; i < column + n; i++)
        for (int c = 0; c < cinfo->num_components; c++) {
            uint32_t h = writer->template->h[c];
            for (uint32_t y = 0; y < writer->template->v[c]; y++, block += h)
                memcpy(rows[c][y] + (size_t)i * h, block, h * sizeof *block);
        }
}

static void write_coefficients(struct writer *writer)
{
    j_compress_ptr cinfo = &writer->cinfo;
    struct mr_packer_reading *reading = &writer->reading;
    mr_error error;
    uint32_t n = 0;
    describe_coefficients(writer);
    request_arrays(writer, &reading->layout);
    jpeg_write_coefficients(cinfo, writer->arrays);
    write_orientation(writer);
    do {
        uint32_t row = reading->row, column = reading->tile * MR_PACKED_TILE_MCUS;
        writer->status = mr_packer_tiles_read_next(reading, &n, &error);
        if (writer->status != MR_OK) {
            snprintf(writer->words, sizeof writer->words, "%.*s", (int)sizeof writer->words - 1,
                     error.text);
            longjmp(writer->escape, 1);
        }
        if (n > 0)
            fill_mcus(writer, row, column, n);
    } while (n > 0);
    jpeg_finish_compress(cinfo);
}

static mr_status write_guarded(struct writer *writer, void (*write)(struct writer *writer),
                               mr_error *error)
{
    if (setjmp(writer->escape) != 0)
        return mr_error_set(error, writer->status, "%s", writer->words);
    jpeg_create_compress(&writer->cinfo);
    writer->cinfo.dest = &writer->destination;
    write(writer);
    return MR_OK;
}

/* Ownership: free(). */
static struct writer *create_writer(struct mr_bytes *out, mr_error *error)
{
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer) {
        mr_error_memory(error, sizeof *writer);
        return NULL;
    }
    writer->out = out;
    writer->cinfo.err = jpeg_std_error(&writer->errors);
    writer->cinfo.client_data = writer;
    writer->errors.error_exit = on_error;
    writer->errors.emit_message = on_message;
    writer->errors.output_message = on_output;
    writer->destination.init_destination = begin_step;
    writer->destination.empty_output_buffer = flush_step;
    writer->destination.term_destination = end_output;
    mr_bytes_clear(out, MR_SCRATCH_KEEP_BYTES);
    return writer;
}

static bool is_grey(const uint8_t *pixels, size_t n)
{
    for (size_t i = 0; i < n; i++, pixels += 3)
        if (pixels[0] != pixels[1] || pixels[0] != pixels[2])
            return false;
    return true;
}

mr_status mr_packer_jpeg_write(const uint8_t *pixels, uint32_t width, uint32_t height,
                               uint32_t quality, uint32_t orientation, struct mr_bytes *out,
                               mr_error *error)
{
    if (width > MAX_SIDE || height > MAX_SIDE)
        return mr_error_set(error, MR_ERR_UNSUPPORTED,
                            "%" PRIu32 " x %" PRIu32 " pixels are too many for a JPEG", width,
                            height);
    struct writer *writer = create_writer(out, error);
    if (!writer)
        return MR_ERR_NO_MEMORY;
    writer->pixels = pixels;
    writer->width = width;
    writer->height = height;
    writer->quality = quality;
    writer->orientation = orientation;
    mr_status status = MR_OK;
    if (is_grey(pixels, (size_t)width * height)) {
        writer->grey = malloc(width);
        status = writer->grey ? MR_OK : mr_error_memory(error, width);
    }
    if (status == MR_OK)
        status = write_guarded(writer, write_pixels, error);
    jpeg_destroy_compress(&writer->cinfo);
    free(writer->grey);
    free(writer);
    return status;
}

mr_status mr_packer_jpeg_write_coefficients(const struct mr_packed_image *image,
                                            const uint8_t *bytes, int16_t (*blocks)[64],
                                            struct mr_bytes *out, mr_error *error)
{
    struct writer *writer = create_writer(out, error);
    if (!writer)
        return MR_ERR_NO_MEMORY;
    writer->template = image->template;
    writer->width = image->width;
    writer->height = image->height;
    writer->orientation = image->orientation;
    mr_packer_tiles_read_begin(&writer->reading, image, bytes, blocks);
    mr_status status = write_guarded(writer, write_coefficients, error);
    jpeg_destroy_compress(&writer->cinfo);
    free(writer);
    return status;
}
