/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes new JPEG files from pixels, with libjpeg.
 *
 * Invariant: libjpeg calls back for memory in the middle of its work, so a failure there leaves by longjmp, as
 * libjpeg's own failures do.
 */
#include "packs/packer_jpeg_write.h"

#include <inttypes.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <jerror.h>

#define MAX_SIDE 65500u /* libjpeg's JPEG_MAX_DIMENSION */
#define STEP ((size_t)64 << 10)
#define EXIF_VALUE 24 /* of the orientation, in an EXIF block */

struct writer {
    struct jpeg_compress_struct cinfo; /* client_data is the writer */
    struct jpeg_error_mgr errors;
    struct jpeg_destination_mgr destination;
    jmp_buf escape;
    struct mr_packer_bytes *out;
    const uint8_t *pixels;
    uint8_t *grey; /* a row; NULL: the pixels are colours */
    uint32_t width, height, quality, orientation;
    char words[JMSG_LENGTH_MAX];
    bool no_memory;
};

void mr_packer_jpeg_write_exif(uint32_t orientation, uint8_t exif_out[MR_PACKER_EXIF_BYTES])
{
    /* TIFF header, one entry: orientation, SHORT, one of them; no further directory. */
    static const uint8_t exif[MR_PACKER_EXIF_BYTES] = "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0";
    memcpy(exif_out, exif, sizeof exif);
    exif_out[EXIF_VALUE + 1] = (uint8_t)orientation;
}

static _Noreturn void on_error(j_common_ptr cinfo)
{
    struct writer *writer = cinfo->client_data;
    cinfo->err->format_message(cinfo, writer->words);
    writer->no_memory |= cinfo->err->msg_code == JERR_OUT_OF_MEMORY;
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

static void make_room(j_compress_ptr cinfo)
{
    struct writer *writer = cinfo->client_data;
    struct mr_packer_bytes *out = writer->out;
    if (mr_packer_bytes_reserve(out, STEP, NULL) != MR_OK)
        ERREXIT1(cinfo, JERR_OUT_OF_MEMORY, 0);
    cinfo->dest->next_output_byte = out->at + out->len;
    cinfo->dest->free_in_buffer = STEP;
}

static boolean step_is_full(j_compress_ptr cinfo)
{
    struct writer *writer = cinfo->client_data;
    writer->out->len += STEP;
    make_room(cinfo);
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
    JSAMPROW line = writer->grey ? writer->grey : (JSAMPROW)(uintptr_t)row; /* libjpeg only reads it */
    jpeg_write_scanlines(&writer->cinfo, &line, 1);
}

static void write_all(struct writer *writer)
{
    j_compress_ptr cinfo = &writer->cinfo;
    jpeg_create_compress(cinfo);
    cinfo->dest = &writer->destination;
    choose_settings(writer);
    jpeg_start_compress(cinfo, TRUE);
    if (writer->orientation >= 2) {
        uint8_t exif[MR_PACKER_EXIF_BYTES];
        mr_packer_jpeg_write_exif(writer->orientation, exif);
        jpeg_write_marker(cinfo, JPEG_APP0 + 1, exif, sizeof exif);
    }
    for (uint32_t y = 0; y < writer->height; y++)
        write_row(writer, y);
    jpeg_finish_compress(cinfo);
}

static mr_status write_guarded(struct writer *writer, mr_error *error)
{
    if (setjmp(writer->escape) != 0)
        return mr_error_set(error, writer->no_memory ? MR_ERR_NO_MEMORY : MR_ERR_UNSUPPORTED, "%s", writer->words);
    write_all(writer);
    return MR_OK;
}

static bool is_grey(const uint8_t *pixels, size_t n)
{
    for (size_t i = 0; i < n; i++, pixels += 3)
        if (pixels[0] != pixels[1] || pixels[0] != pixels[2])
            return false;
    return true;
}

mr_status mr_packer_jpeg_write(const uint8_t *pixels, uint32_t width, uint32_t height, uint32_t quality,
                               uint32_t orientation, struct mr_packer_bytes *out, mr_error *error)
{
    if (width > MAX_SIDE || height > MAX_SIDE)
        return mr_error_set(error, MR_ERR_UNSUPPORTED, "%" PRIu32 " x %" PRIu32 " pixels are too many for a JPEG",
                            width, height);
    struct writer *writer = calloc(1, sizeof *writer);
    if (!writer)
        return mr_error_memory(error, sizeof *writer);
    *writer = (struct writer){
        .out = out, .pixels = pixels, .width = width, .height = height, .quality = quality, .orientation = orientation};
    writer->cinfo.err = jpeg_std_error(&writer->errors);
    writer->cinfo.client_data = writer;
    writer->errors.error_exit = on_error;
    writer->errors.emit_message = on_message;
    writer->errors.output_message = on_output;
    writer->destination.init_destination = make_room;
    writer->destination.empty_output_buffer = step_is_full;
    writer->destination.term_destination = end_output;
    mr_packer_bytes_clear(out);
    mr_status status = MR_OK;
    if (is_grey(pixels, (size_t)width * height)) {
        writer->grey = malloc(width);
        status = writer->grey ? MR_OK : mr_error_memory(error, width);
    }
    if (status == MR_OK)
        status = write_guarded(writer, error);
    jpeg_destroy_compress(&writer->cinfo);
    free(writer->grey);
    free(writer);
    return status;
}
