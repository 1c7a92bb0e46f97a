/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Strips in JPEG by libjpeg, with the choices that libtiff makes. Those of several scans are refused: they need memory
 * and time that a TIFF's header does not name, and writers of TIFF make none.
 *
 * Invariant: libjpeg leaves by longjmp, so nothing that must be undone is done between setjmp and its calls.
 */
#include "transforms/formats/tiff_jpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

struct mr_tiff_jpeg {
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    char words[JMSG_LENGTH_MAX];
};

static _Noreturn void escape(struct mr_tiff_jpeg *jpeg)
{
    longjmp(jpeg->escape, 1);
}

static _Noreturn void escape_with_words(struct mr_tiff_jpeg *jpeg, const char *words)
{
    snprintf(jpeg->words, sizeof jpeg->words, "%s", words);
    jpeg->errors.msg_code = 0;
    escape(jpeg);
}

static _Noreturn void on_error(j_common_ptr cinfo)
{
    struct mr_tiff_jpeg *jpeg = cinfo->client_data;
    cinfo->err->format_message(cinfo, jpeg->words);
    escape(jpeg);
}

/* A warning (-1) means that the pixels are wrong. */
static void on_message(j_common_ptr cinfo, int level)
{
    if (level < 0)
        on_error(cinfo);
}

static void ignore_output(j_common_ptr cinfo)
{
    (void)cinfo;
}

static mr_status tell_error(struct mr_tiff_jpeg *jpeg, mr_error *error)
{
    mr_status status = jpeg->errors.msg_code == JERR_OUT_OF_MEMORY ? MR_ERR_NO_MEMORY : MR_ERR_DAMAGED;
    return mr_error_set(error, status, "TIFF: %s", jpeg->words);
}

mr_status mr_tiff_jpeg_create(struct mr_tiff_jpeg **jpeg_out, mr_error *error)
{
    struct mr_tiff_jpeg *jpeg = calloc(1, sizeof *jpeg);
    if (!jpeg)
        return mr_error_memory(error, sizeof *jpeg);
    jpeg->cinfo.err = jpeg_std_error(&jpeg->errors);
    jpeg->errors.error_exit = on_error;
    jpeg->errors.emit_message = on_message;
    jpeg->errors.output_message = ignore_output;
    jpeg->cinfo.client_data = jpeg;
    if (setjmp(jpeg->escape) != 0) {
        mr_status status = tell_error(jpeg, error);
        mr_tiff_jpeg_destroy(jpeg);
        return status;
    }
    jpeg_create_decompress(&jpeg->cinfo);
    *jpeg_out = jpeg;
    return MR_OK;
}

void mr_tiff_jpeg_destroy(struct mr_tiff_jpeg *jpeg)
{
    if (jpeg)
        jpeg_destroy_decompress(&jpeg->cinfo);
    free(jpeg);
}

static void start_strip(struct mr_tiff_jpeg *jpeg, const struct mr_tiff_jpeg_strip *strip, uint32_t n_rows)
{
    struct jpeg_decompress_struct *cinfo = &jpeg->cinfo;
    if (strip->tables) {
        jpeg_mem_src(cinfo, strip->tables, strip->tables_len);
        if (jpeg_read_header(cinfo, FALSE) != JPEG_HEADER_TABLES_ONLY)
            escape_with_words(jpeg, "the JPEG tables hold an image");
    }
    jpeg_mem_src(cinfo, strip->bytes, strip->len);
    jpeg_read_header(cinfo, TRUE);
    if (jpeg_has_multiple_scans(cinfo) || cinfo->arith_code)
        escape_with_words(jpeg, "a JPEG of several scans or of arithmetic coding is not supported");
    if (cinfo->image_width != strip->width || cinfo->image_height < n_rows ||
        cinfo->num_components != (int)strip->n_samples)
        escape_with_words(jpeg, "a JPEG has another size or number of samples than its strip or tile");
    cinfo->jpeg_color_space = strip->ycc ? JCS_YCbCr : JCS_UNKNOWN;
    cinfo->out_color_space = strip->ycc ? JCS_RGB : JCS_UNKNOWN;
    jpeg_start_decompress(cinfo);
}

mr_status mr_tiff_jpeg_run(struct mr_tiff_jpeg *jpeg, const struct mr_tiff_jpeg_strip *strip, uint32_t n_rows,
                           uint8_t *out, mr_error *error)
{
    if (setjmp(jpeg->escape) != 0) {
        jpeg_abort_decompress(&jpeg->cinfo);
        return tell_error(jpeg, error);
    }
    start_strip(jpeg, strip, n_rows);
    size_t stride = (size_t)strip->width * strip->n_samples;
    while (jpeg->cinfo.output_scanline < n_rows) {
        JSAMPROW row = out + jpeg->cinfo.output_scanline * stride;
        jpeg_read_scanlines(&jpeg->cinfo, &row, 1);
    }
    jpeg_abort_decompress(&jpeg->cinfo);
    return MR_OK;
}
