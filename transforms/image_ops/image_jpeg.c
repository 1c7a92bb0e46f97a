/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libjpeg-turbo with the defaults of Pillow's save(): baseline, chroma at half the size in both
 * directions.
 *
 * Invariant: all calls of libjpeg but destroy are inside run(), because its errors return there by
 * longjmp.
 */
#include "transforms/image_ops/image_jpeg.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>

#include <jpeglib.h>

#include <jerror.h>

struct coder {
    struct jpeg_compress_struct encoder;
    struct jpeg_decompress_struct decoder;
    struct jpeg_error_mgr errors;
    jmp_buf escape;
    unsigned char *room; /* for the longest file of this size */
    unsigned char *file; /* `room`, unless libjpeg has allocated more */
    unsigned long len;
};

static void escape(j_common_ptr info)
{
    struct coder *coder = info->client_data;
    longjmp(coder->escape, 1);
}

static void drop_message(j_common_ptr info)
{
    (void)info;
}

static void encode(struct coder *coder, const struct mr_image *image, int quality)
{
    struct jpeg_compress_struct *encoder = &coder->encoder;
    jpeg_mem_dest(encoder, &coder->file, &coder->len);
    encoder->image_width = image->width;
    encoder->image_height = image->height;
    encoder->input_components = (int)image->n_channels;
    encoder->in_color_space = image->n_channels == 3 ? JCS_RGB : JCS_GRAYSCALE;
    jpeg_set_defaults(encoder);
    jpeg_set_quality(encoder, quality, TRUE);
    jpeg_start_compress(encoder, TRUE);
    while (encoder->next_scanline < image->height) {
        JSAMPROW row = image->pixels + encoder->next_scanline * image->stride;
        jpeg_write_scanlines(encoder, &row, 1);
    }
    jpeg_finish_compress(encoder);
}

static void decode(struct coder *coder, struct mr_image *image)
{
    struct jpeg_decompress_struct *decoder = &coder->decoder;
    jpeg_mem_src(decoder, coder->file, coder->len);
    jpeg_read_header(decoder, TRUE);
    jpeg_start_decompress(decoder);
    while (decoder->output_scanline < image->height) {
        JSAMPROW row = image->pixels + decoder->output_scanline * image->stride;
        jpeg_read_scanlines(decoder, &row, 1);
    }
    jpeg_finish_decompress(decoder);
}

/* libjpeg-turbo's tjBufSize(): whole MCUs of 16 x 16, with 3 bytes for each pixel. */
static size_t find_room(const struct mr_image *image)
{
    return 3 * ((image->width + (size_t)15) / 16 * 16) * ((image->height + (size_t)15) / 16 * 16) +
           4096;
}

static mr_status run(struct coder *coder, const struct mr_image *from, struct mr_image *to,
                     int quality, mr_error *error)
{
    if (setjmp(coder->escape) != 0) {
        char words[JMSG_LENGTH_MAX];
        coder->errors.format_message((j_common_ptr)&coder->encoder, words);
        bool no_memory = coder->errors.msg_code == JERR_OUT_OF_MEMORY;
        return mr_error_set(error, no_memory ? MR_ERR_NO_MEMORY : MR_ERR_DAMAGED, "jpeg: %s",
                            words);
    }
    jpeg_create_compress(&coder->encoder);
    jpeg_create_decompress(&coder->decoder);
    encode(coder, from, quality);
    decode(coder, to);
    return MR_OK;
}

mr_status mr_image_jpeg_make(const struct mr_image_call *call, struct mr_image *from,
                             struct mr_image *to, const struct mr_kernel_ops *kernels,
                             mr_error *error)
{
    (void)kernels;
    struct coder *coder = calloc(1, sizeof *coder);
    size_t room = find_room(from);
    if (!coder || !(coder->room = malloc(room))) {
        free(coder);
        return mr_error_memory(error, room);
    }
    coder->file = coder->room;
    coder->len = room;
    coder->encoder.err = coder->decoder.err = jpeg_std_error(&coder->errors);
    coder->errors.error_exit = escape;
    coder->errors.output_message = drop_message;
    coder->encoder.client_data = coder->decoder.client_data = coder;
    mr_status status = run(coder, from, to, (int)call->args[0], error);
    jpeg_destroy_compress(&coder->encoder);
    jpeg_destroy_decompress(&coder->decoder);
    if (coder->file != coder->room)
        free(coder->file);
    free(coder->room);
    free(coder);
    return status;
}
