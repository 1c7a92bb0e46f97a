/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Decodes PNG with libpng: every colour type and depth as 8-bit RGB, as Pillow's convert("RGB")
 * gives it. Alpha is dropped, not blended. Gamma, profiles and text are ignored. 16-bit colour
 * keeps its high byte, but 16-bit grey is clipped at 255, as in Pillow.
 *
 * Rows above the box are decoded and dropped; rows below it are not decoded. libpng checks a
 * chunk's CRC only when it leaves the chunk. So after the last row of the box this file checks the
 * chunk that the row came from.
 */
#include "transforms/codec_png.h"

#include "base/image_format.h"
#include "base/exif.h"

#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>
#include <zlib.h>

#define SIGNATURE_BYTES 8
#define CHUNK_OVERHEAD 12 /* length, type, CRC */
/* A larger buffer is freed after its image. */
#define KEEP_BYTES ((size_t)16 << 20)
/* Generous room for libpng's and zlib's own state. */
#define DECODER_BYTES ((uint64_t)256 << 10)

struct png {
    png_structp reader;
    png_infop info;
    jmp_buf escape;
    struct mr_codec_limits limits;
    char words[200];
    uint32_t n_warnings;
    bool no_memory; /* libpng asked for memory and got none */

    const uint8_t *bytes;
    size_t len;
    size_t at; /* libpng has read up to here */

    bool wide_grey;               /* 16-bit grey: rows come as two bytes a pixel */
    uint32_t x, y, width, height; /* the box */
    uint32_t next_row;            /* of the box */
    uint32_t rows_wanted;         /* by this step */
    uint32_t image_width;
    uint32_t image_height;
    uint32_t orientation;
    int n_passes; /* 7 when interlaced: then begin() decodes the whole box */
    uint8_t *buffer;
    size_t buffer_bytes;
};

/* Errors. */

static _Noreturn void escape_with_words(struct png *png, const char *words)
{
    snprintf(png->words, sizeof png->words, "%s", words);
    longjmp(png->escape, 1);
}

static _Noreturn void on_error(png_structp reader, png_const_charp words)
{
    escape_with_words(png_get_error_ptr(reader), words);
}

static void on_warning(png_structp reader, png_const_charp words)
{
    struct png *png = png_get_error_ptr(reader);
    (void)words;
    png->n_warnings++;
}

/*
 * Records a failure: libpng and zlib report it in their own words, and continue without a chunk
 * that is not needed.
 */
static png_voidp allocate_memory(png_structp reader, png_alloc_size_t n)
{
    struct png *png = png_get_mem_ptr(reader);
    void *memory = malloc(n);
    png->no_memory |= memory == NULL;
    return memory;
}

static void release_memory(png_structp reader, png_voidp memory)
{
    (void)reader;
    free(memory);
}

static mr_status guard_step(struct png *png, void (*step)(struct png *png), mr_error *error)
{
    if (setjmp(png->escape) != 0)
        return mr_error_set(error, png->no_memory ? MR_ERR_NO_MEMORY : MR_ERR_DAMAGED, "%s",
                            png->words);
    step(png);
    return png->no_memory ? mr_error_set(error, MR_ERR_NO_MEMORY, "no memory for libpng") : MR_OK;
}

/* The source: the whole file in memory. */

static void source_read(png_structp reader, png_bytep out, size_t n)
{
    struct png *png = png_get_io_ptr(reader);
    if (n > png->len - png->at)
        png_error(reader, "Premature end of PNG file");
    memcpy(out, png->bytes + png->at, n);
    png->at += n;
}

/* Create, destroy, close. */

static mr_status png_state_create(const struct mr_codec_limits *limits, void **state_out,
                                  mr_error *error)
{
    struct png *png = calloc(1, sizeof *png);
    if (!png)
        return mr_error_memory(error, sizeof *png);
    png->limits = *limits;
    *state_out = png;
    return MR_OK;
}

static void png_state_destroy(void *state)
{
    struct png *png = state;
    free(png->buffer);
    free(png);
}

static uint32_t png_close(void *state)
{
    struct png *png = state;
    png_destroy_read_struct(&png->reader, &png->info, NULL);
    if (png->buffer_bytes > KEEP_BYTES) {
        free(png->buffer);
        png->buffer = NULL;
        png->buffer_bytes = 0;
    }
    return png->n_warnings;
}

/* Open: the chunks before the pixels, and the limits. */

static void make_reader(struct png *png)
{
    png->reader = png_create_read_struct_2(PNG_LIBPNG_VER_STRING, png, on_error, on_warning, png,
                                           allocate_memory, release_memory);
    if (!png->reader)
        escape_with_words(png, "libpng cannot start");
    png->info = png_create_info_struct(png->reader);
    if (!png->info)
        escape_with_words(png, "libpng cannot start");
    png_set_read_fn(png->reader, png, source_read);
    png_set_benign_errors(png->reader, 1);
    /* the limit is max_pixels */
    png_set_user_limits(png->reader, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    /* Compressed text and profiles cost time and memory, but change no pixel. */
    png_set_keep_unknown_chunks(png->reader, PNG_HANDLE_CHUNK_NEVER, NULL, -1);
    png_set_keep_unknown_chunks(png->reader, PNG_HANDLE_CHUNK_AS_DEFAULT, (png_const_bytep) "eXIf",
                                1);
}

static void convert_to_rgb(struct png *png, int colour, int depth)
{
    png_structp reader = png->reader;
    png->wide_grey = colour == PNG_COLOR_TYPE_GRAY && depth == 16;
    if (png->wide_grey)
        return;
    if (colour == PNG_COLOR_TYPE_PALETTE)
        png_set_palette_to_rgb(reader);
    if (colour == PNG_COLOR_TYPE_GRAY && depth < 8)
        png_set_expand_gray_1_2_4_to_8(reader);
    if (depth == 16)
        png_set_strip_16(reader);
    if (!(colour & PNG_COLOR_MASK_COLOR))
        png_set_gray_to_rgb(reader);
    png_set_strip_alpha(reader);
}

static void read_header(struct png *png)
{
    make_reader(png);
    png_read_info(png->reader, png->info);
    png->image_width = png_get_image_width(png->reader, png->info);
    png->image_height = png_get_image_height(png->reader, png->info);
    png_uint_32 exif_len;
    png_bytep exif;
    if (png_get_eXIf_1(png->reader, png->info, &exif_len, &exif))
        png->orientation = mr_exif_orientation(exif, exif_len);
    convert_to_rgb(png, png_get_color_type(png->reader, png->info),
                   png_get_bit_depth(png->reader, png->info));
    png->n_passes = png_set_interlace_handling(png->reader);
}

static mr_status png_open(void *state, const uint8_t *bytes, size_t len,
                          struct mr_image_head *head_out, mr_error *error)
{
    struct png *png = state;
    png->bytes = bytes;
    png->len = len;
    png->at = 0;
    png->n_warnings = 0;
    png->no_memory = false;
    png->orientation = 1;
    png->height = 0;
    png->next_row = 0;
    mr_status status = guard_step(png, read_header, error);
    if (status == MR_OK)
        status =
            mr_codec_limits_check_pixels(&png->limits, png->image_width, png->image_height, error);
    if (status != MR_OK) {
        png_close(png);
        return status;
    }
    *head_out = (struct mr_image_head){png->image_width, png->image_height, png->orientation};
    return MR_OK;
}

/* Begin: go to the first row of the box. */

static size_t find_stride(const struct png *png)
{
    return (size_t)png->image_width * 3;
}

static uint8_t *row_at(const struct png *png, uint32_t slot)
{
    return png->buffer + slot * find_stride(png);
}

/*
 * Where libpng writes a row. Two-byte grey goes to the right end, so it can be widened to RGB in
 * place.
 */
static uint8_t *row_target(const struct png *png, uint32_t slot)
{
    return row_at(png, slot) + (png->wide_grey ? png->image_width : 0);
}

static mr_status reserve_rows(struct png *png, mr_error *error)
{
    /* At most max_pixels rows of one pixel or one row of max_pixels: 64 bits are enough. */
    uint64_t n_rows = png->n_passes > 1 ? png->height : MR_CODEC_ROWS;
    uint64_t need = n_rows * find_stride(png);
    /* libpng keeps two rows of up to 8 bytes a pixel. */
    mr_status status = mr_codec_limits_check_memory(
        &png->limits, need + (uint64_t)png->image_width * 16 + DECODER_BYTES, error);
    if (status != MR_OK || need <= png->buffer_bytes)
        return status;
    free(png->buffer);
    png->buffer_bytes = 0;
    png->buffer = malloc(need);
    if (!png->buffer)
        return mr_error_memory(error, need);
    png->buffer_bytes = need;
    return MR_OK;
}

/* Each pass of an interlaced image covers all rows; rows outside the box are dropped. */
static void read_passes(struct png *png)
{
    memset(png->buffer, 0, png->height * find_stride(png));
    for (int pass = 0; pass < png->n_passes; pass++) {
        uint32_t n_rows = pass + 1 < png->n_passes ? png->image_height : png->y + png->height;
        for (uint32_t row = 0; row < n_rows; row++) {
            bool inside = row >= png->y && row - png->y < png->height;
            png_read_row(png->reader, inside ? row_target(png, row - png->y) : NULL, NULL);
        }
    }
}

static void start_box(struct png *png)
{
    png_start_read_image(png->reader);
    if (png->n_passes > 1) {
        read_passes(png);
        return;
    }
    for (uint32_t row = 0; row < png->y; row++)
        png_read_row(png->reader, NULL, NULL);
}

static mr_status png_begin(void *state, uint32_t x, uint32_t y, uint32_t width, uint32_t height,
                           mr_error *error)
{
    struct png *png = state;
    png->x = x;
    png->y = y;
    png->width = width;
    png->height = height;
    mr_status status = reserve_rows(png, error);
    if (status == MR_OK)
        status = guard_step(png, start_box, error);
    if (status != MR_OK)
        png->height = 0;
    return status;
}

/* Rows. */

static uint32_t read_u32(const uint8_t *p)
{
    return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

/*
 * Check the CRC of the chunk in which libpng stopped. If the file ends within that chunk, its
 * pixels are accepted as they are.
 */
static mr_status check_last_chunk(const struct png *png, mr_error *error)
{
    size_t start = SIGNATURE_BYTES;
    while (png->len - start >= CHUNK_OVERHEAD) {
        size_t data_len = read_u32(png->bytes + start);
        if (data_len > png->len - start - CHUNK_OVERHEAD)
            return MR_OK;
        size_t crc_at = start + 8 + data_len;
        if (png->at <= crc_at) {
            uint32_t crc = (uint32_t)crc32_z(0, png->bytes + start + 4, data_len + 4);
            if (png->at > start && crc != read_u32(png->bytes + crc_at))
                return mr_error_set(error, MR_ERR_DAMAGED, "IDAT: CRC error");
            return MR_OK;
        }
        start = crc_at + 4;
    }
    return MR_OK;
}

static void read_rows(struct png *png)
{
    for (uint32_t i = 0; i < png->rows_wanted; i++)
        png_read_row(png->reader, row_target(png, i), NULL);
}

/*
 * Widen from two bytes at the right end of a row to three from its start. Each input byte is read
 * before it is overwritten.
 */
static void widen_grey(uint8_t *row, uint32_t width)
{
    const uint8_t *in = row + width;
    for (uint32_t i = 0; i < width; i++, in += 2, row += 3) {
        uint8_t value = in[0] ? 255 : in[1];
        row[0] = value;
        row[1] = value;
        row[2] = value;
    }
}

static mr_status png_rows(void *state, const uint8_t **rows_out, uint32_t max_rows, uint32_t *n_out,
                          mr_error *error)
{
    struct png *png = state;
    uint32_t left = png->height - png->next_row;
    uint32_t n = max_rows < left ? max_rows : left;
    if (n == 0)
        return mr_error_set(error, MR_ERR_STATE, "no rows are left in the box");
    uint32_t slot = png->n_passes > 1 ? png->next_row : 0;
    png->rows_wanted = n;
    mr_status status = png->n_passes > 1 ? MR_OK : guard_step(png, read_rows, error);
    if (status == MR_OK && n == left)
        status = check_last_chunk(png, error);
    if (status != MR_OK) {
        png->height = png->next_row;
        return status;
    }
    for (uint32_t i = 0; i < n; i++) {
        uint8_t *row = row_at(png, slot + i);
        if (png->wide_grey)
            widen_grey(row, png->image_width);
        rows_out[i] = row + (size_t)png->x * 3;
    }
    png->next_row += n;
    *n_out = n;
    return MR_OK;
}

const struct mr_codec_ops mr_codec_png = {
    .name = MR_IMAGE_FORMAT_PNG,
    .create = png_state_create,
    .destroy = png_state_destroy,
    .open = png_open,
    .begin = png_begin,
    .rows = png_rows,
    .close = png_close,
};

/* Masks: libpng reads the header, and what mask_inflate.c does not read. */

static void read_mask_header(struct png *png)
{
    make_reader(png);
    png_read_info(png->reader, png->info);
    png->image_width = png_get_image_width(png->reader, png->info);
    png->image_height = png_get_image_height(png->reader, png->info);
    int colour = png_get_color_type(png->reader, png->info);
    int depth = png_get_bit_depth(png->reader, png->info);
    if (colour != PNG_COLOR_TYPE_PALETTE && (colour != PNG_COLOR_TYPE_GRAY || depth < 8))
        escape_with_words(png, "it has neither a palette nor grey of 8 or 16 bits");
    png->wide_grey = depth == 16;
    png_set_packing(png->reader); /* indices of less than 8 bits become bytes */
    png->n_passes = png_set_interlace_handling(png->reader);
}

static void read_mask_rows(struct png *png)
{
    size_t row_bytes = (size_t)png->image_width << png->wide_grey;
    png_start_read_image(png->reader);
    for (int pass = 0; pass < png->n_passes; pass++)
        for (uint32_t row = 0; row < png->image_height; row++)
            png_read_row(png->reader, png->buffer + row * row_bytes, NULL);
    png_read_end(png->reader, NULL);
}

/* libpng has read the header, up to the data of the first IDAT chunk. */
static bool inflate_mask(struct png *png, struct mr_mask_pixels *pixels)
{
    size_t at = png->at - CHUNK_OVERHEAD + 4;
    return png->n_passes == 1 && png_get_bit_depth(png->reader, png->info) >= 8 &&
           mr_mask_inflate_run(pixels, png->bytes + at, png->len - at, png->image_width,
                               png->image_height);
}

static mr_status read_mask(struct png *png, uint32_t width, uint32_t height,
                           struct mr_mask_pixels *pixels, mr_error *error)
{
    mr_status status = guard_step(png, read_mask_header, error);
    if (status != MR_OK)
        return status;
    if (png->image_width != width || png->image_height != height)
        return mr_error_set(error, MR_ERR_DAMAGED, "it is %ux%u, the image is %ux%u",
                            png->image_width, png->image_height, width, height);
    pixels->pixel_bytes = png->wide_grey ? 2 : 1;
    pixels->row_bytes = width * pixels->pixel_bytes;
    uint64_t len = (uint64_t)pixels->row_bytes * height;
    /* mask_inflate.c has the file's bytes again, a filter for each row, and a row above the first
     */
    uint64_t need = len + pixels->row_bytes + height + 1 + png->len;
    status = mr_codec_limits_check_memory(&png->limits, need + DECODER_BYTES, error);
    if (status != MR_OK || inflate_mask(png, pixels))
        return status;
    status = mr_scratch_reserve(&pixels->rows, len, 1, error);
    pixels->first = png->buffer = pixels->rows.memory;
    return status == MR_OK ? guard_step(png, read_mask_rows, error) : status;
}

mr_status mr_codec_png_read_indices(const struct mr_codec_limits *limits, const uint8_t *bytes,
                                    size_t len, uint32_t width, uint32_t height,
                                    struct mr_mask_pixels *pixels, mr_error *error)
{
    struct png png = {.limits = *limits, .bytes = bytes, .len = len};
    mr_error words;
    mr_status status = read_mask(&png, width, height, pixels, &words);
    png_destroy_read_struct(&png.reader, &png.info, NULL);
    return status == MR_OK ? MR_OK : mr_error_set(error, status, "its mask: %s", words.text);
}
