/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Masks read with libdeflate: whatever is in the file, status and pixels are those that libpng
 * alone gives. Files are made here, with filters and twists that encoders do not choose.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include <png.h>
#include <zlib.h>

#include "tests/support/images.h"
#include "tests/transforms/reference.h"
#include "transforms/codec_png.h"

enum { MOST_BYTES = 1 << 16 };

/* What is wrong with a file, if anything. */
enum twist {
    PLAIN,
    NO_FILTER,     /* a row's filter is not one of the five */
    SHORT_ROWS,    /* a byte is missing */
    LONG_ROWS,     /* there is one more */
    WRONG_SUM,     /* of the stream */
    WRONG_BYTE,    /* of the stream */
    BYTES_AFTER,   /* the stream */
    SMALL_WINDOW,  /* in the stream's header */
    WRONG_CRC,     /* of a chunk */
    TEXT_BETWEEN,  /* IDAT chunks */
    TEXT_AFTER,    /* them */
    UNKNOWN_AFTER, /* a critical chunk */
    FULL_END,      /* the last chunk has bytes */
    NO_END,
    CUT,
    N_TWISTS
};

struct file {
    uint32_t width, height, pixel_bytes;
    bool has_palette;
    enum twist twist;
    int window_bits;
    uint8_t bytes[MOST_BYTES];
    size_t len;
};

static void put_u32(uint8_t *to, uint32_t value)
{
    for (int i = 0; i < 4; i++)
        to[i] = (uint8_t)(value >> (24 - 8 * i));
}

static void put_chunk(struct file *file, const char *type, const uint8_t *bytes, size_t len)
{
    uint8_t *at = file->bytes + file->len;
    assert_true(file->len + len + 12 <= sizeof file->bytes);
    put_u32(at, (uint32_t)len);
    memcpy(at + 4, type, 4);
    memcpy(at + 8, bytes, len);
    put_u32(at + 8 + len, (uint32_t)crc32(0, at + 4, (uInt)len + 4));
    file->len += len + 12;
}

/* Rows with any filters. Their bytes are few values, some of them far back again. */
static size_t make_rows(const struct file *file, uint8_t *rows, uint64_t *random)
{
    size_t stride = (size_t)file->width * file->pixel_bytes + 1, n = stride * file->height;
    uint32_t only = (uint32_t)reference_below(random, 8);
    for (size_t i = 0; i < n; i++) {
        bool repeats = i > 600 && reference_below(random, 4) == 0;
        rows[i] = repeats ? rows[i - 600] : (uint8_t)(reference_below(random, 5) * 60);
        if (i % stride == 0)
            rows[i] = (uint8_t)(only < 5 ? only : reference_below(random, 5));
    }
    if (file->twist == NO_FILTER)
        rows[reference_below(random, file->height) * stride] = 5;
    rows[n] = 0;
    return n + (file->twist == LONG_ROWS) - (file->twist == SHORT_ROWS);
}

static size_t make_stream(const struct file *file, uint8_t *stream, uint64_t *random)
{
    static uint8_t rows[MOST_BYTES];
    size_t n = make_rows(file, rows, random), len;
    z_stream z = {0};
    assert_int_equal(deflateInit2(&z, (int)reference_below(random, 10), Z_DEFLATED,
                                  file->window_bits, 8, (int)reference_below(random, 5)),
                     Z_OK);
    z.next_in = rows;
    z.avail_in = (uInt)n;
    z.next_out = stream;
    z.avail_out = MOST_BYTES / 2;
    assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
    len = z.total_out;
    deflateEnd(&z);
    if (file->twist == SMALL_WINDOW) {
        stream[0] = 0x08;
        stream[1] = (uint8_t)(31 - 0x0800 % 31);
    }
    if (file->twist == WRONG_SUM)
        stream[len - 1] ^= 1;
    if (file->twist == WRONG_BYTE)
        stream[reference_below(random, len)] ^= (uint8_t)(1 << reference_below(random, 8));
    if (file->twist == BYTES_AFTER)
        stream[len++] = 7;
    return len;
}

static void put_stream(struct file *file, uint64_t *random)
{
    static uint8_t stream[MOST_BYTES];
    size_t len = make_stream(file, stream, random);
    for (size_t at = 0, n; at < len; at += n) {
        n = reference_below(random, 3) ? len - at : reference_below(random, len - at + 1);
        put_chunk(file, "IDAT", stream + at, n);
        if (file->twist == TEXT_BETWEEN && at + n < len)
            put_chunk(file, "tEXt", (const uint8_t *)"a\0b", 3);
    }
}

static void make_file(struct file *file, enum twist twist, uint64_t *random)
{
    uint8_t header[13] = {0}, palette[768] = {0};
    file->twist = twist;
    file->width = 1 + (uint32_t)reference_below(random, 90);
    file->height = 1 + (uint32_t)reference_below(random, 60);
    file->pixel_bytes = 1 + (uint32_t)reference_below(random, 2);
    file->window_bits = reference_below(random, 2) ? 15 : 9 + (int)reference_below(random, 6);
    file->has_palette = file->pixel_bytes == 1 && reference_below(random, 2);
    put_u32(header, file->width);
    put_u32(header + 4, file->height);
    header[8] = (uint8_t)(8 * file->pixel_bytes);
    header[9] = file->has_palette ? PNG_COLOR_TYPE_PALETTE : PNG_COLOR_TYPE_GRAY;
    memcpy(file->bytes, "\x89PNG\r\n\x1a\n", file->len = 8);
    put_chunk(file, "IHDR", header, sizeof header);
    if (file->has_palette)
        put_chunk(file, "PLTE", palette, sizeof palette);
    size_t start = file->len;
    put_stream(file, random);
    if (twist == WRONG_CRC)
        file->bytes[start + 12 + reference_below(random, file->len - start - 12)] ^= 1;
    if (twist == TEXT_AFTER)
        put_chunk(file, "tEXt", (const uint8_t *)"a\0b", 3);
    if (twist == UNKNOWN_AFTER)
        put_chunk(file, "ABCD", header, 3);
    if (twist != NO_END)
        put_chunk(file, "IEND", header, twist == FULL_END ? 4 : 0);
    if (twist == CUT)
        file->len -= reference_below(random, file->len - start);
}

/* libpng alone. */

struct source {
    const uint8_t *at;
    size_t left;
};

static void read_bytes(png_structp png, png_bytep out, size_t n)
{
    struct source *source = png_get_io_ptr(png);
    if (n > source->left)
        png_error(png, "end");
    memcpy(out, source->at, n);
    source->at += n;
    source->left -= n;
}

static void ignore_warning(png_structp png, png_const_charp words)
{
    (void)png;
    (void)words;
}

static _Noreturn void on_error(png_structp png, png_const_charp words)
{
    (void)words;
    longjmp(*(jmp_buf *)png_get_error_ptr(png), 1);
}

static bool read_by_libpng(const struct file *file, uint8_t *pixels)
{
    jmp_buf escape;
    struct source source = {file->bytes, file->len};
    png_structp png =
        png_create_read_struct(PNG_LIBPNG_VER_STRING, &escape, on_error, ignore_warning);
    png_infop info = png_create_info_struct(png);
    bool good = setjmp(escape) == 0;
    if (good) {
        png_set_read_fn(png, &source, read_bytes);
        png_set_benign_errors(png, 1);
        png_read_info(png, info);
        for (uint32_t y = 0; y < file->height; y++)
            png_read_row(png, pixels + (size_t)y * file->width * file->pixel_bytes, NULL);
        png_read_end(png, NULL);
    }
    png_destroy_read_struct(&png, &info, NULL);
    return good;
}

static void compare(const struct file *file, struct mr_mask_pixels *made)
{
    static uint8_t wanted[MOST_BYTES];
    const struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    mr_error error = {0};
    uint8_t *bytes = malloc(file->len); /* so that sanitizers see its end */
    assert_non_null(bytes);
    memcpy(bytes, file->bytes, file->len);
    bool good = read_by_libpng(file, wanted);
    mr_status status = mr_codec_png_read_indices(&limits, bytes, file->len, file->width,
                                                 file->height, made, &error);
    free(bytes);
    if (status != (good ? MR_OK : MR_ERR_DAMAGED))
        fail_msg("twist %d: status %d, libpng reads it: %d", file->twist, status, good);
    size_t row_bytes = (size_t)file->width * file->pixel_bytes;
    for (uint32_t y = 0; good && y < file->height; y++)
        assert_memory_equal(made->first + y * made->row_bytes, wanted + y * row_bytes, row_bytes);
    if (file->twist == PLAIN &&
        file->window_bits == 15) /* a row has its filter, so libpng did not make it */
        assert_int_equal(made->row_bytes, row_bytes + 1);
}

static void masks_are_those_of_libpng(void **state)
{
    (void)state;
    static struct file file;
    struct mr_mask_pixels made = {0};
    uint64_t random = reference_seed();
    for (int i = 0; i < 4000; i++) {
        make_file(&file, i % 2 ? PLAIN : (enum twist)(i / 2 % N_TWISTS), &random);
        compare(&file, &made);
    }
    mr_mask_inflate_fini(&made);
}

/* Also what the filters of many short rows need. */
static void all_memory_counts_towards_the_limit(void **state)
{
    (void)state;
    const struct mr_test_png png = {.width = 1, .height = 600000};
    struct mr_codec_limits limits = mr_codec_limits_resolve(&(struct mr_codec_limits){0});
    struct mr_test_image image = mr_test_png(&png);
    struct mr_mask_pixels made = {0};
    mr_error error = {0};
    for (int i = 0; i < 2; i++) {
        mr_status status = mr_codec_png_read_indices(&limits, image.bytes, image.len, png.width,
                                                     png.height, &made, &error);
        assert_int_equal(status, i == 0 ? MR_OK : MR_ERR_DAMAGED);
        limits.max_decoder_bytes = made.rows.len_allocated + made.stream.len_allocated;
    }
    assert_non_null(strstr(error.text, "memory"));
    mr_test_image_free(&image);
    mr_mask_inflate_fini(&made);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(masks_are_those_of_libpng),
        cmocka_unit_test(all_memory_counts_towards_the_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
