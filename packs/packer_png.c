/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes PNG files from pixels, with libpng.
 *
 * Invariant: libpng leaves write_guarded() by longjmp on failure, so its caller frees libpng's
 * memory.
 */
#include "packs/packer_png.h"

#include "transforms/scratch.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <png.h>

struct png_writing {
    png_structp png;
    png_infop info;
    jmp_buf escape;
    struct mr_bytes *out;
    const uint8_t *pixels;
    uint32_t width, height, orientation;
    bool no_memory;
    char words[200];
};

static _Noreturn void on_error(png_structp png, png_const_charp words)
{
    struct png_writing *writing = png_get_error_ptr(png);
    snprintf(writing->words, sizeof writing->words, "%s", words);
    longjmp(writing->escape, 1);
}

static void on_warning(png_structp png, png_const_charp words)
{
    (void)png;
    (void)words;
}

/* libpng and zlib report a failed allocation with different texts, so it is noted here. */
static png_voidp allocate_memory(png_structp png, png_alloc_size_t n)
{
    struct png_writing *writing = png_get_mem_ptr(png);
    void *memory = malloc(n);
    writing->no_memory |= memory == NULL;
    return memory;
}

static void release_memory(png_structp png, png_voidp memory)
{
    (void)png;
    free(memory);
}

static void append_bytes(png_structp png, png_bytep bytes, size_t n)
{
    struct png_writing *writing = png_get_io_ptr(png);
    if (mr_bytes_append(writing->out, bytes, n, NULL) == MR_OK)
        return;
    writing->no_memory = true;
    png_error(png, "no memory");
}

static void ignore_flush(png_structp png)
{
    (void)png;
}

static void put_orientation(struct png_writing *writing)
{
    uint8_t exif[] = "MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0";
    exif[19] = (uint8_t)writing->orientation;
    png_set_eXIf_1(writing->png, writing->info, sizeof exif, exif);
}

static void write_all(struct png_writing *writing)
{
    png_structp png = writing->png;
    png_set_write_fn(png, writing, append_bytes, ignore_flush);
    png_set_user_limits(png, PNG_UINT_31_MAX, PNG_UINT_31_MAX);
    png_set_IHDR(png, writing->info, writing->width, writing->height, 8, PNG_COLOR_TYPE_RGB,
                 PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    if (writing->orientation >= 2)
        put_orientation(writing);
    png_write_info(png, writing->info);
    for (uint32_t y = 0; y < writing->height; y++)
        png_write_row(png, writing->pixels + (size_t)y * writing->width * 3);
    png_write_end(png, NULL);
}

static mr_status write_guarded(struct png_writing *writing, mr_error *error)
{
    if (setjmp(writing->escape) != 0)
        return mr_error_set(error, writing->no_memory ? MR_ERR_NO_MEMORY : MR_ERR_DAMAGED, "%s",
                            writing->words);
    writing->png = png_create_write_struct_2(PNG_LIBPNG_VER_STRING, writing, on_error, on_warning,
                                             writing, allocate_memory, release_memory);
    writing->info = writing->png ? png_create_info_struct(writing->png) : NULL;
    if (!writing->info)
        return mr_error_set(error, MR_ERR_NO_MEMORY, "libpng cannot start");
    write_all(writing);
    return MR_OK;
}

mr_status mr_packer_png_write(const uint8_t *pixels, uint32_t width, uint32_t height,
                              uint32_t orientation, struct mr_bytes *out, mr_error *error)
{
    struct png_writing writing = {
        .out = out, .pixels = pixels, .width = width, .height = height, .orientation = orientation};
    mr_bytes_clear(out, MR_SCRATCH_KEEP_BYTES);
    mr_status status = write_guarded(&writing, error);
    png_destroy_write_struct(&writing.png, &writing.info);
    return status;
}
