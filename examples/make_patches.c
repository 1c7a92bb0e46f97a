/* SPDX-License-Identifier: Apache-2.0 */
/*
 * make_patches OUT N PHOTO.jpg...: cut N patches of 300 to 500 pixels out of each photograph and
 * write them to OUT/<photo>/. So a dozen photographs become an image folder of a few thousand JPEG
 * files, with one class for each photograph.
 *
 * The places are pseudo-random but the same in every run. The files are written to OUT.part, which
 * is renamed to OUT at the end. An interrupted run leaves OUT.part, which must be removed before
 * the next run (script/demo does that).
 */
#include <errno.h>
#include <setjmp.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jpeglib.h>

enum { SIDE_MIN = 300, SIDE_MAX = 500, QUALITY = 90 };

struct photo {
    uint8_t *pixels; /* RGB, width * 3 bytes a row */
    uint32_t width;
    uint32_t height;
};

/* A failed libjpeg call ends with this jump; the caller of setjmp() cleans up. */
struct jpeg_failure {
    struct jpeg_error_mgr base;
    jmp_buf back;
};

static void fail_jpeg(j_common_ptr jpeg)
{
    struct jpeg_failure *failure = (struct jpeg_failure *)jpeg->err;

    jpeg->err->output_message(jpeg);
    longjmp(failure->back, 1);
}

static struct jpeg_error_mgr *start_failure(struct jpeg_failure *failure)
{
    jpeg_std_error(&failure->base);
    failure->base.error_exit = fail_jpeg;
    return &failure->base;
}

static void read_rows(struct jpeg_decompress_struct *jpeg, struct photo *photo)
{
    while (jpeg->output_scanline < jpeg->output_height) {
        JSAMPROW row = photo->pixels + (size_t)jpeg->output_scanline * photo->width * 3;
        jpeg_read_scanlines(jpeg, &row, 1);
    }
}

/* On failure photo->pixels is NULL or must still be freed. */
static int read_photo(FILE *file, struct photo *photo)
{
    struct jpeg_decompress_struct jpeg;
    struct jpeg_failure failure;
    volatile int result = -1; /* survives the jump */

    jpeg.err = start_failure(&failure);
    jpeg_create_decompress(&jpeg);
    if (setjmp(failure.back) == 0) {
        jpeg_stdio_src(&jpeg, file);
        jpeg_read_header(&jpeg, TRUE);
        jpeg.out_color_space = JCS_RGB;
        jpeg_start_decompress(&jpeg);
        photo->width = jpeg.output_width;
        photo->height = jpeg.output_height;
        photo->pixels = malloc((size_t)photo->width * photo->height * 3);
        if (photo->pixels) {
            read_rows(&jpeg, photo);
            jpeg_finish_decompress(&jpeg);
            result = 0;
        }
    }
    jpeg_destroy_decompress(&jpeg);
    return result;
}

static int write_patch(FILE *file, const struct photo *photo, uint32_t x, uint32_t y,
                       uint32_t width, uint32_t height)
{
    struct jpeg_compress_struct jpeg;
    struct jpeg_failure failure;
    volatile int result = -1; /* survives the jump */

    jpeg.err = start_failure(&failure);
    jpeg_create_compress(&jpeg);
    if (setjmp(failure.back) == 0) {
        jpeg_stdio_dest(&jpeg, file);
        jpeg.image_width = width;
        jpeg.image_height = height;
        jpeg.input_components = 3;
        jpeg.in_color_space = JCS_RGB;
        jpeg_set_defaults(&jpeg);
        jpeg_set_quality(&jpeg, QUALITY, TRUE);
        jpeg_start_compress(&jpeg, TRUE);
        for (uint32_t i = 0; i < height; i++) {
            JSAMPROW row = photo->pixels + ((size_t)(y + i) * photo->width + x) * 3;
            jpeg_write_scanlines(&jpeg, &row, 1);
        }
        jpeg_finish_compress(&jpeg);
        result = 0;
    }
    jpeg_destroy_compress(&jpeg);
    return result;
}

/* A number from 0 to n - 1. */
static uint32_t draw_number(uint64_t *state, uint32_t n)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(((*state >> 32) * n) >> 32);
}

/* A side of a patch: SIDE_MIN to SIDE_MAX, or less in a small photograph. */
static uint32_t draw_side(uint64_t *state, uint32_t limit)
{
    uint32_t side = SIDE_MIN + draw_number(state, SIDE_MAX - SIDE_MIN + 1);

    return side < limit ? side : limit;
}

static int cut_patch(const struct photo *photo, uint64_t *state, const char *path)
{
    uint32_t width = draw_side(state, photo->width);
    uint32_t height = draw_side(state, photo->height);
    uint32_t x = draw_number(state, photo->width - width + 1);
    uint32_t y = draw_number(state, photo->height - height + 1);
    FILE *file = fopen(path, "wb");
    int result = -1;

    if (file) {
        result = write_patch(file, photo, x, y, width, height);
        if (fclose(file) != 0)
            result = -1;
    }
    if (result < 0)
        perror(path);
    return result;
}

/*
 * Takes OUT.part and the photograph's path; folder_out is OUT.part/<name without folder and
 * extension>.
 */
static int make_class_folder(const char *part, const char *path, char *folder_out, size_t size)
{
    const char *slash = strrchr(path, '/');
    const char *name = slash ? slash + 1 : path;
    const char *dot = strrchr(name, '.');
    size_t len = dot && dot > name ? (size_t)(dot - name) : strlen(name);

    if ((size_t)snprintf(folder_out, size, "%s/%.*s", part, (int)len, name) >= size) {
        errno = ENAMETOOLONG;
        return -1;
    }
    return mkdir(folder_out, 0777) == 0 || errno == EEXIST ? 0 : -1;
}

/* number distinguishes photographs with the same name in different folders. */
static int cut_photo(const char *part, const char *path, int number, int n_patches)
{
    struct photo photo = {0};
    uint64_t state = 1;
    char folder[4000];
    FILE *file = fopen(path, "rb");
    int result = -1;

    if (!file || read_photo(file, &photo) < 0) {
        fprintf(stderr, "%s: cannot read it, skipped\n", path);
        result = 0;
    } else if (make_class_folder(part, path, folder, sizeof(folder)) < 0) {
        perror(path);
    } else {
        result = 0;
        for (int i = 0; i < n_patches && result == 0; i++) {
            char patch[4096];
            snprintf(patch, sizeof(patch), "%s/%03d_%05d.jpg", folder, number, i);
            result = cut_patch(&photo, &state, patch);
        }
    }
    free(photo.pixels);
    if (file)
        fclose(file);
    return result;
}

int main(int argc, char **argv)
{
    if (argc < 4 || atoi(argv[2]) < 1) {
        fprintf(stderr, "usage: make_patches OUT N PHOTO.jpg...\n");
        return 2;
    }
    const char *out = argv[1];
    char part[3900];
    if ((size_t)snprintf(part, sizeof(part), "%s.part", out) >= sizeof(part)) {
        fprintf(stderr, "the name of OUT is too long\n");
        return 2;
    }
    if (mkdir(part, 0777) != 0 && errno != EEXIST) {
        perror(part);
        return 1;
    }
    for (int i = 3; i < argc; i++) {
        if (cut_photo(part, argv[i], i - 3, atoi(argv[2])) < 0)
            return 1;
        if (isatty(STDERR_FILENO))
            fprintf(stderr, "\rcutting patches: %d of %d photographs%s", i - 2, argc - 3,
                    i + 1 == argc ? "\n" : "");
    }
    if (rename(part, out) != 0) {
        perror(out);
        return 1;
    }
    return 0;
}
