/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images for tests: patterns encoded as JPEG or PNG of any kind, in memory. A failure here ends the
 * test program.
 *
 *   struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 64, .height = 48});
 *   ... image.bytes, image.len ...
 *   mr_test_image_free(&image);
 */
#ifndef TESTS_SUPPORT_IMAGES_H
#define TESTS_SUPPORT_IMAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

struct mr_test_image {
    uint8_t *bytes;
    size_t len;
};

enum mr_test_colour {
    MR_TEST_YCC = 0, /* the usual colour JPEG */
    MR_TEST_GREY,
    MR_TEST_RGB, /* components stored as red, green, blue, with an Adobe marker */
    MR_TEST_CMYK,
    MR_TEST_YCCK
};

/* Fields that are 0 mean the usual choice. */
struct mr_test_jpeg {
    uint32_t width;
    uint32_t height;
    uint32_t seed; /* seed of the pattern */
    enum mr_test_colour colour;
    int quality; /* 0: 85 */
    /* horizontal and vertical factor of each component; 0: 4:2:0 for YCC, otherwise 1x1 */
    uint8_t sampling[4][2];
    bool progressive;
    bool one_scan_each; /* baseline, one scan per component */
    bool arithmetic;
    bool optimised;       /* with optimised Huffman tables */
    uint32_t restart;     /* MCUs between restart markers, 0: none */
    uint32_t orientation; /* 1 to 8: an EXIF block with it; 0: no EXIF */
};

struct mr_test_png {
    uint32_t width;
    uint32_t height;
    uint32_t seed;
    int colour_type; /* PNG_COLOR_TYPE_*: 0 grey, 2 RGB, 3 palette, 4 grey and alpha, 6 RGB and
                        alpha */
    int depth;       /* 0: 8 */
    bool interlaced;
    bool transparency;    /* a tRNS chunk, if the colour type allows one */
    uint32_t orientation; /* 1 to 8: an eXIf chunk */
};

struct mr_test_image mr_test_jpeg(const struct mr_test_jpeg *options);
struct mr_test_image mr_test_png(const struct mr_test_png *options);

/*
 * The pixels that a correct reader gets: width x height x 3 bytes; free them with free(). For JPEG
 * by a full decode with libjpeg, for PNG from the pattern itself, without a decoder.
 */
uint8_t *mr_test_jpeg_pixels(const uint8_t *bytes, size_t len, uint32_t *width_out,
                             uint32_t *height_out);
uint8_t *mr_test_png_pixels(const struct mr_test_png *options);
/* The value that a PNG of one channel stores for a pixel: its grey, or an index of its palette. */
uint32_t mr_test_png_value(const struct mr_test_png *options, uint32_t x, uint32_t y);

/* Sample (x, y, channel) of a pattern: smooth shapes, hard edges and noise. */
uint8_t mr_test_pattern(uint32_t seed, uint32_t x, uint32_t y, uint32_t channel);

/* Write to a file that must not exist yet. */
void mr_test_image_save(const struct mr_test_image *image, const char *path);
void mr_test_image_free(struct mr_test_image *image);

#ifdef __cplusplus
}
#endif

#endif
