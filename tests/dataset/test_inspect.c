/* SPDX-License-Identifier: Apache-2.0 */
/* Formats and sizes from the first bytes. The headers are written here byte by byte. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "dataset/dataset.h"
#include "tests/dataset/tree.h"
#include "tests/support/assert_words.h"

static mr_sample_info inspect(const void *bytes, size_t len)
{
    struct tree tree;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error = {0};
    tree_create(&tree);
    tree_write(&tree, "c/a.jpg", bytes, len);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "", ""));
    assert_ok(mr_dataset_inspect(dataset, 0, &info, &error), &error);
    mr_dataset_destroy(dataset);
    tree_destroy(&tree);
    assert_int_equal(info.len_bytes, len);
    return info;
}

static void expect_format(const char *bytes, size_t len, const char *format)
{
    mr_sample_info info = inspect(bytes, len);
    assert_string_equal(info.format, format);
    assert_int_equal(info.width, 0);
}

static void formats_are_recognised_by_their_first_bytes(void **state)
{
    (void)state;
    expect_format("", 0, "empty");
    expect_format("\xff\xd8\xff", 3, "jpeg");
    expect_format("\xff\xd8", 2, "jpeg");
    expect_format("\x89PNG\r\n\x1a\n", 8, "png");
    expect_format("RIFF\1\2\3\4WEBPVP8 ", 16, "webp");
    expect_format("GIF89a..", 8, "gif");
    expect_format("BM\0\1\0\0\0\0\0\0\66\0\0\0", 14, "bmp");
    expect_format("II*\0....", 8, "tiff");
    expect_format("MM\0*....", 8, "tiff");
    expect_format("P6\n3 x 255\n", 11, "ppm");
    expect_format("P6", 2, "text");
    expect_format("P\0\0", 3, "unknown");
    expect_format("This is no image.\n", 18, "text");
    expect_format("sch\xc3\xb6n\n", 7, "text");
    expect_format("\0\1\2\3", 4, "unknown");
}

static void the_size_of_a_png_is_found(void **state)
{
    (void)state;
    uint8_t png[] = "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\1\0\2\0\0\0\3\x08\6\0\0\0";
    static const uint8_t colours[][2] = {{0, 1}, {2, 3}, {3, 3}, {4, 2}, {6, 4}, {5, 0}, {255, 0}};
    for (size_t i = 0; i < sizeof colours / sizeof *colours; i++) {
        png[25] = colours[i][0];
        mr_sample_info info = inspect(png, sizeof png - 1);
        assert_string_equal(info.format, "png");
        assert_int_equal(info.width, 65538);
        assert_int_equal(info.height, 3);
        assert_int_equal(info.channels, colours[i][1]);
    }
    expect_format((const char *)png, 25, "png");
}

/*
 * SOI, segments of 65 535 bytes, a restart marker, fill bytes, then a progressive frame header; cut
 * at every length.
 */
static void the_size_of_a_jpeg_is_found_wherever_its_frame_header_is(void **state)
{
    (void)state;
    for (int n_segments = 0; n_segments < 6; n_segments += 5) {
        uint8_t *bytes = calloc(1, 6 * 65537 + 100);
        size_t len = 2;
        memcpy(bytes, "\xff\xd8", 2);
        for (int i = 0; i < n_segments; i++) {
            memcpy(bytes + len, "\xff\xe2\xff\xff", 4);
            len += 65537;
        }
        memcpy(bytes + len, "\xff\xd0\xff\xff\xff\xc2\0\x11\x08\x01\x02\x03\x04\x03", 14);
        len += 14;
        mr_sample_info info = inspect(bytes, len);
        assert_string_equal(info.format, "jpeg");
        assert_int_equal(info.width, 0x304);
        assert_int_equal(info.height, 0x102);
        assert_int_equal(info.channels, 3);
        for (size_t cut = len - 1; cut > len - 10; cut--) {
            info = inspect(bytes, cut);
            assert_string_equal(info.format, "jpeg");
            assert_int_equal(info.width, 0);
        }
        free(bytes);
    }
}

/*
 * A JPEG with two EXIF blocks, the first one after the frame header; and a PNG with its chunk after
 * another chunk.
 */
static void the_first_orientation_counts(void **state)
{
    (void)state;
    static const uint8_t jpeg[] =
        "\xff\xd8\xff\xe1\0\x0a"
        "http:/xy"
        "\xff\xc0\0\x11\x08\0\1\0\2\3\0\0\0\0\0\0\0\0\0"
        "\xff\xe1\0\x22"
        "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\6\0\0\0\0\0\0"
        "\xff\xe1\0\x22"
        "Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\3\0\0\0\0\0\0\xff\xda";
    static const uint8_t png[] =
        "\x89PNG\r\n\x1a\n\0\0\0\x0dIHDR\0\0\0\2\0\0\0\3\x08\2\0\0\0crc1\0\0\0\4gAMAdatacrc2"
        "\0\0\0\x1a"
        "eXIfMM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\5\0\0\0\0\0\0"
        "crc3\0\0\0\0IDAT";
    mr_sample_info info = inspect(jpeg, sizeof jpeg - 1);
    assert_int_equal(info.width, 2);
    assert_int_equal(info.height, 1);
    assert_int_equal(info.orientation, 6);
    for (size_t cut = 2; cut < 60; cut++)
        assert_int_equal(inspect(jpeg, cut).orientation, 1);
    info = inspect(png, sizeof png - 1);
    assert_int_equal(info.width, 2);
    assert_int_equal(info.orientation, 5);
    for (size_t cut = 8; cut < 80; cut++)
        assert_int_equal(inspect(png, cut).orientation, 1);
}

static void expect_size(const char *bytes, size_t len, uint32_t width, uint32_t height,
                        uint32_t channels)
{
    mr_sample_info info = inspect(bytes, len);
    assert_int_equal(info.width, width);
    assert_int_equal(info.height, height);
    assert_int_equal(info.channels, channels);
}

static void the_sizes_of_other_formats_are_found(void **state)
{
    (void)state;
    static const char extended[] =
        "RIFF....WEBPVP8X\12\0\0\0\30\0\0\0\4\1\0\6\0\0XMP \3\0\0\0abc\0"
        "EXIF\40\0\0\0Exif\0\0MM\0*\0\0\0\10\0\1\1\22\0\3\0\0\0\1\0\6\0\0\0\0\0\0";
    expect_size("RIFF....WEBPVP8 ....xxx\x9d\x01\x2a\x05\x41\x02\x80", 30, 0x105, 2, 3);
    expect_size("RIFF....WEBPVP8L....\x2f\x04\x41\0\x10.....", 30, 0x105, 2, 4);
    expect_size("RIFF....WEBPVP8L....\x2f\xff\xff\xff\x0f.....", 30, 16384, 16384, 3);
    expect_size("RIFF....WEBPVP8X\12\0\0\0\10\0\0\0\4\1\0\6\0\0", 30, 0x105, 7, 3);
    expect_size(extended, sizeof extended - 1, 0x105, 7, 4);
    assert_int_equal(inspect(extended, sizeof extended - 1).orientation, 6);
    for (size_t cut = 30; cut < sizeof extended - 1; cut++)
        assert_int_equal(inspect(extended, cut).orientation, 1);
    expect_size("BM..\0\0\0\0\0\0....\50\0\0\0\5\1\0\0\2\0\0\0", 26, 0x105, 2, 3);
    expect_size("BM..\0\0\0\0\0\0....\50\0\0\0\5\1\0\0\376\377\377\377", 26, 0x105, 2, 3);
    expect_size("BM..\0\0\0\0\0\0....\14\0\0\0\5\1\2\0\1\0\30\0", 26, 0x105, 2, 3);
    expect_size(
        "II*\0\10\0\0\0\3\0\0\1\3\0\1\0\0\0\5\1..\1\1\4\0\1\0\0\0\2\0\0\0\25\1\3\0\1\0\0\0\4\0..",
        46, 0x105, 2, 4);
    expect_size(
        "MM\0*\0\0\0\10\0\3\1\0\0\3\0\0\0\1\1\5..\1\1\0\4\0\0\0\1\0\0\0\2\1\22\0\3\0\0\0\1\0\6..",
        46, 2, 0x105, 1);
    expect_size("P5 #4\n12\t3\n255\n", 16, 12, 3, 1);
    expect_size("P4\n12 3\n", 8, 12, 3, 1);
    expect_size("P6 12 3 65535 ", 14, 12, 3, 3);
}

static void hostile_segments_end_the_walk(void **state)
{
    (void)state;
    static uint8_t bytes[4096];
    memset(bytes, 0xff, sizeof bytes); /* fill bytes without end */
    bytes[1] = 0xd8;
    expect_format((const char *)bytes, sizeof bytes, "jpeg");
    for (size_t i = 2; i < sizeof bytes; i += 4)
        /* segments of length 0 */
        memcpy(bytes + i, "\xff\xe0\0\0", i + 4 <= sizeof bytes ? 4 : 2);
    expect_format((const char *)bytes, sizeof bytes, "jpeg");
    /* a frame after the pixels */
    expect_format("\xff\xd8\xff\xda\0\x0c\xff\xc0\0\x11\x08\0\1\0\1\3", 16, "jpeg");
    expect_format("\xff\xd8\xff\xc4\0\x02\0\0\0\0\0\0\0\0\0\0", 16, "jpeg");
}

static void a_fifo_is_refused_without_blocking(void **state)
{
    (void)state;
    struct tree tree;
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error = {0};
    tree_create(&tree);
    tree_folder(&tree, "c");
    assert_int_equal(mkfifo(tree_at(&tree, "c/a.jpg"), 0666), 0);
    mr_dataset *dataset = open_dataset(tree_spec(&tree, "imagefolder", ""));
    alarm(30);
    assert_int_equal(mr_dataset_inspect(dataset, 0, &info, &error), MR_ERR_IO);
    alarm(0);
    assert_words(error.text, "c/a.jpg: not a regular file");
    assert_int_equal(error.index, 0);
    mr_dataset_destroy(dataset);
}

static void the_shape_of_records_is_reported(void **state)
{
    (void)state;
    struct tree tree;
    char spec[8192];
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_error error;
    tree_create(&tree);
    tree_write(&tree, "r", "abcdefghijkl", 12);
    snprintf(spec, sizeof spec, "%s?shape=2x1x3&layout=hwc", tree_spec(&tree, "records", "r"));
    mr_dataset *dataset = open_dataset(spec);
    info.struct_size = 0;
    assert_int_equal(mr_dataset_inspect(dataset, 1, &info, &error), MR_ERR_INVALID);
    assert_string_equal(
        error.text,
        "struct_size of the mr_sample_info is 0: initialise it with MR_SAMPLE_INFO_INIT");
    info.struct_size = sizeof info;
    assert_int_equal(mr_dataset_inspect(dataset, 1, &info, NULL), MR_OK);
    assert_string_equal(info.format, "raw");
    assert_int_equal(info.height, 2);
    assert_int_equal(info.width, 1);
    assert_int_equal(info.channels, 3);
    assert_int_equal(info.len_bytes, 6);
    assert_int_equal(info.orientation, 0);
    mr_dataset_destroy(dataset);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(formats_are_recognised_by_their_first_bytes),
        cmocka_unit_test(the_size_of_a_png_is_found),
        cmocka_unit_test(the_size_of_a_jpeg_is_found_wherever_its_frame_header_is),
        cmocka_unit_test(the_first_orientation_counts),
        cmocka_unit_test(the_sizes_of_other_formats_are_found),
        cmocka_unit_test(hostile_segments_end_the_walk),
        cmocka_unit_test(a_fifo_is_refused_without_blocking),
        cmocka_unit_test(the_shape_of_records_is_reported),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
