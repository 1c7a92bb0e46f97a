/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the images that tests read, with libjpeg and libpng as encoders. The expected pixels of a
 * PNG come from the pattern, those of a JPEG from a full decode without any crop or skip. The JPEG
 * encoder subsamples chroma by default only for YCC; the other colour spaces start at 1x1.
 */
#include "tests/support/images.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <jpeglib.h>
#include <png.h>

static void *checked_alloc(size_t len)
{
    void *p = calloc(1, len ? len : 1);
    if (!p)
        abort();
    return p;
}

static uint32_t hash(uint32_t a, uint32_t b, uint32_t c)
{
    uint32_t h = a * 0x9e3779b1u ^ b * 0x85ebca6bu ^ c * 0xc2b2ae35u;
    h = (h ^ h >> 15) * 0x2c1b3c6du;
    h = (h ^ h >> 12) * 0x297a2d39u;
    return h ^ h >> 15;
}

uint8_t mr_test_pattern(uint32_t seed, uint32_t x, uint32_t y, uint32_t channel)
{
    uint32_t smooth = (x * (3 + channel) + y * (5 - channel)) / 4 + seed * 37;
    uint32_t edge = ((x / 7 + y / 5 + channel + seed) % 3) * 60;
    uint32_t noise = hash(x * 4 + channel, y, seed) % 48;
    uint32_t value = smooth % 150 + edge + noise;
    return (uint8_t)(value > 255 ? 510 - value : value);
}

/* JPEG. */

static void set_sampling(struct jpeg_compress_struct *cinfo, const struct mr_test_jpeg *options)
{
    for (int i = 0; i < cinfo->num_components; i++) {
        int chroma = options->colour == MR_TEST_YCC && i == 0 ? 2 : 1;
        cinfo->comp_info[i].h_samp_factor =
            options->sampling[i][0] ? options->sampling[i][0] : chroma;
        cinfo->comp_info[i].v_samp_factor =
            options->sampling[i][1] ? options->sampling[i][1] : chroma;
    }
}

static void set_colour(struct jpeg_compress_struct *cinfo, enum mr_test_colour colour)
{
    static const struct {
        J_COLOR_SPACE in, stored;
        int n_components;
    } spaces[] = {[MR_TEST_YCC] = {JCS_RGB, JCS_YCbCr, 3},
                  [MR_TEST_GREY] = {JCS_GRAYSCALE, JCS_GRAYSCALE, 1},
                  [MR_TEST_RGB] = {JCS_RGB, JCS_RGB, 3},
                  [MR_TEST_CMYK] = {JCS_CMYK, JCS_CMYK, 4},
                  [MR_TEST_YCCK] = {JCS_CMYK, JCS_YCCK, 4}};
    cinfo->in_color_space = spaces[colour].in;
    cinfo->input_components = spaces[colour].n_components;
    jpeg_set_defaults(cinfo);
    jpeg_set_colorspace(cinfo, spaces[colour].stored);
}

static void write_exif(struct jpeg_compress_struct *cinfo, uint32_t orientation)
{
    uint8_t exif[] = "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\0\0\0\0\0\0";
    exif[6 + 8 + 2 + 9] = (uint8_t)orientation;
    jpeg_write_marker(cinfo, JPEG_APP0 + 1, exif, sizeof exif);
}

static void write_rows(struct jpeg_compress_struct *cinfo, uint32_t seed)
{
    uint32_t n = (uint32_t)cinfo->input_components;
    uint8_t *row = checked_alloc((size_t)cinfo->image_width * n);
    while (cinfo->next_scanline < cinfo->image_height) {
        for (uint32_t x = 0; x < cinfo->image_width; x++) {
            for (uint32_t c = 0; c < n; c++)
                row[x * n + c] = mr_test_pattern(seed, x, cinfo->next_scanline, c);
        }
        jpeg_write_scanlines(cinfo, &row, 1);
    }
    free(row);
}

struct mr_test_image mr_test_jpeg(const struct mr_test_jpeg *options)
{
    struct jpeg_compress_struct cinfo;
    struct jpeg_error_mgr errors;
    jpeg_scan_info scans[4];
    unsigned char *out = NULL;
    unsigned long len = 0;
    memset(scans, 0, sizeof scans);
    cinfo.err = jpeg_std_error(&errors); /* ends the program */
    jpeg_create_compress(&cinfo);
    jpeg_mem_dest(&cinfo, &out, &len);
    cinfo.image_width = options->width;
    cinfo.image_height = options->height;
    set_colour(&cinfo, options->colour);
    jpeg_set_quality(&cinfo, options->quality ? options->quality : 85, TRUE);
    set_sampling(&cinfo, options);
    cinfo.restart_interval = options->restart;
    cinfo.arith_code = options->arithmetic;
    cinfo.optimize_coding = options->optimised;
    if (options->progressive)
        jpeg_simple_progression(&cinfo);
    if (options->one_scan_each) {
        for (int i = 0; i < cinfo.num_components; i++)
            scans[i] = (jpeg_scan_info){.comps_in_scan = 1, .component_index = {i}, .Se = 63};
        cinfo.scan_info = scans;
        cinfo.num_scans = cinfo.num_components;
    }
    jpeg_start_compress(&cinfo, TRUE);
    if (options->orientation)
        write_exif(&cinfo, options->orientation);
    write_rows(&cinfo, options->seed);
    jpeg_finish_compress(&cinfo);
    jpeg_destroy_compress(&cinfo);
    struct mr_test_image image = {out, len};
    return image;
}

/*
 * Convert one CMYK pixel, inverted as Adobe does, by Pillow's formula: ink * (255 - key) / 255,
 * rounded.
 */
static void cmyk_pixel(const uint8_t *in, uint8_t *out)
{
    int paper = 255 - (255 - in[3]);
    for (int c = 0; c < 3; c++) {
        int ink = 255 - in[c];
        out[c] = (uint8_t)(paper - (2 * ink * paper + 255) / 510);
    }
}

uint8_t *mr_test_jpeg_pixels(const uint8_t *bytes, size_t len, uint32_t *width_out,
                             uint32_t *height_out)
{
    struct jpeg_decompress_struct cinfo;
    struct jpeg_error_mgr errors;
    cinfo.err = jpeg_std_error(&errors);
    jpeg_create_decompress(&cinfo);
    jpeg_mem_src(&cinfo, bytes, len);
    jpeg_read_header(&cinfo, TRUE);
    bool cmyk = cinfo.num_components == 4;
    cinfo.out_color_space = cmyk ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&cinfo);
    size_t width = cinfo.output_width;
    uint8_t *pixels = checked_alloc(width * cinfo.output_height * 3);
    uint8_t *row = checked_alloc(width * 4);
    while (cinfo.output_scanline < cinfo.output_height) {
        uint8_t *out = pixels + cinfo.output_scanline * width * 3;
        jpeg_read_scanlines(&cinfo, cmyk ? &row : &out, 1);
        for (size_t x = 0; cmyk && x < width; x++)
            cmyk_pixel(row + 4 * x, out + 3 * x);
    }
    free(row);
    *width_out = cinfo.output_width;
    *height_out = cinfo.output_height;
    jpeg_destroy_decompress(&cinfo);
    return pixels;
}

/* PNG. */

#define N_PALETTE 13 /* for depths above 3 bits fewer than the depth allows */

static uint32_t count_channels(int colour_type)
{
    return (colour_type & PNG_COLOR_MASK_COLOR && colour_type != PNG_COLOR_TYPE_PALETTE ? 3u : 1u) +
           (colour_type & PNG_COLOR_MASK_ALPHA ? 1u : 0u);
}

static int choose_depth(const struct mr_test_png *options)
{
    return options->depth ? options->depth : 8;
}

/* A sample as it is stored. 16-bit ones are often below 256, so that clipping shows. */
static uint32_t png_sample(const struct mr_test_png *options, uint32_t x, uint32_t y,
                           uint32_t channel)
{
    int depth = choose_depth(options);
    uint32_t value = mr_test_pattern(options->seed, x, y, channel);
    if (options->colour_type == PNG_COLOR_TYPE_PALETTE)
        return value % (depth < 4 ? 1u << depth : N_PALETTE);
    if (depth == 16)
        return value % 3 ? value * 257 : value;
    return value >> (8 - depth);
}

uint32_t mr_test_png_value(const struct mr_test_png *options, uint32_t x, uint32_t y)
{
    return png_sample(options, x, y, 0);
}

static uint8_t palette_entry(uint32_t i, uint32_t channel)
{
    return (uint8_t)(hash(i, channel, 5));
}

static void set_palette(png_structp png, png_infop info, bool transparency)
{
    png_color palette[N_PALETTE];
    uint8_t alpha[N_PALETTE];
    for (uint32_t i = 0; i < N_PALETTE; i++) {
        palette[i] = (png_color){palette_entry(i, 0), palette_entry(i, 1), palette_entry(i, 2)};
        alpha[i] = (uint8_t)(i * 9);
    }
    int n = png_get_bit_depth(png, info) < 4 ? 1 << png_get_bit_depth(png, info) : N_PALETTE;
    png_set_PLTE(png, info, palette, n);
    if (transparency)
        png_set_tRNS(png, info, alpha, n, NULL);
}

static void put_sample(uint8_t *row, size_t i, int depth, uint32_t value)
{
    if (depth == 16) {
        row[2 * i] = (uint8_t)(value >> 8);
        row[2 * i + 1] = (uint8_t)value;
        return;
    }
    size_t bit = i * (size_t)depth;
    row[bit / 8] |= (uint8_t)(value << (8 - (size_t)depth - bit % 8));
}

static uint8_t **pack_rows(const struct mr_test_png *options)
{
    uint32_t n = count_channels(options->colour_type);
    uint8_t **rows = checked_alloc(options->height * sizeof *rows);
    for (uint32_t y = 0; y < options->height; y++) {
        rows[y] = checked_alloc((size_t)options->width * n * 2);
        for (uint32_t i = 0; i < options->width * n; i++)
            put_sample(rows[y], i, choose_depth(options), png_sample(options, i / n, y, i % n));
    }
    return rows;
}

static void append(png_structp png, png_bytep bytes, size_t n)
{
    struct mr_test_image *image = png_get_io_ptr(png);
    image->bytes = realloc(image->bytes, image->len + n);
    if (!image->bytes)
        abort();
    memcpy(image->bytes + image->len, bytes, n);
    image->len += n;
}

static void append_flush(png_structp png)
{
    (void)png;
}

struct mr_test_image mr_test_png(const struct mr_test_png *options)
{
    struct mr_test_image image = {NULL, 0};
    /* errors abort */
    png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, NULL, NULL, NULL);
    png_infop info = png_create_info_struct(png);
    png_set_write_fn(png, &image, append, append_flush);
    png_set_IHDR(png, info, options->width, options->height, choose_depth(options),
                 options->colour_type,
                 options->interlaced ? PNG_INTERLACE_ADAM7 : PNG_INTERLACE_NONE,
                 PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
    png_color_16 clear = {.red = 20, .green = 20, .blue = 20, .gray = 1};
    if (options->colour_type == PNG_COLOR_TYPE_PALETTE)
        set_palette(png, info, options->transparency);
    else if (options->transparency)
        png_set_tRNS(png, info, NULL, 0, &clear);
    uint8_t exif[] = "II*\0\10\0\0\0\1\0\22\1\3\0\1\0\0\0\0\0\0\0\0\0\0";
    exif[18] = (uint8_t)options->orientation;
    if (options->orientation)
        png_set_eXIf_1(png, info, sizeof exif, exif);
    uint8_t **rows = pack_rows(options);
    png_write_info(png, info);
    png_write_image(png, rows);
    png_write_end(png, info);
    for (uint32_t y = 0; y < options->height; y++)
        free(rows[y]);
    free(rows);
    png_destroy_write_struct(&png, &info);
    return image;
}

/* A stored sample as Pillow's convert("RGB") shows it. */
static uint8_t make_shown(const struct mr_test_png *options, uint32_t value, uint32_t channel)
{
    int depth = choose_depth(options);
    if (options->colour_type == PNG_COLOR_TYPE_PALETTE)
        return palette_entry(value, channel);
    if (depth == 16 && options->colour_type == PNG_COLOR_TYPE_GRAY)
        return (uint8_t)(value > 255 ? 255 : value);
    if (depth == 16)
        return (uint8_t)(value >> 8);
    return (uint8_t)(value * 255 / ((1u << depth) - 1));
}

uint8_t *mr_test_png_pixels(const struct mr_test_png *options)
{
    uint8_t *pixels = checked_alloc((size_t)options->width * options->height * 3);
    bool colour = count_channels(options->colour_type) >= 3;
    uint8_t *out = pixels;
    for (uint32_t y = 0; y < options->height; y++) {
        for (uint32_t x = 0; x < options->width; x++) {
            for (uint32_t c = 0; c < 3; c++)
                *out++ = make_shown(options, png_sample(options, x, y, colour ? c : 0), c);
        }
    }
    return pixels;
}

/* Files. */

void mr_test_image_save(const struct mr_test_image *image, const char *path)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0644);
    if (fd < 0 || write(fd, image->bytes, image->len) != (ssize_t)image->len || close(fd) != 0) {
        perror(path);
        abort();
    }
}

void mr_test_image_free(struct mr_test_image *image)
{
    free(image->bytes);
    image->bytes = NULL;
    image->len = 0;
}
