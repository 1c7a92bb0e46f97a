/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Formats by their first bytes: those of pictures, what resembles them, and files that end early.
 */
#include "base/image_format.h"

#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

struct example {
    const char *format;
    size_t len;
    const char *bytes;
};

static void expect_formats(const struct example *examples, size_t n)
{
    for (size_t i = 0; i < n; i++)
        assert_string_equal(
            mr_image_format_sniff((const uint8_t *)examples[i].bytes, examples[i].len),
            examples[i].format);
}

#define EXPECT_FORMATS(examples) expect_formats(examples, sizeof(examples) / sizeof *(examples))

static void first_bytes_name_the_format(void **state)
{
    static const struct example examples[] = {
        {"jpeg", 4, "\xff\xd8\xff\xe0"},
        {"png", 8, "\x89PNG\r\n\x1a\n"},
        {"webp", 16, "RIFF\0\0\0\0WEBPVP8 "},
        {"gif", 6, "GIF87a"},
        {"gif", 8, "GIF89a\1\0"},
        {"tiff", 8, "II*\0\10\0\0\0"},
        {"tiff", 8, "MM\0*\0\0\0\10"},
        {"tiff", 8, "II+\0\10\0\0\0"},
        {"tiff", 8, "MM\0+\0\10\0\0"},
        {"bmp", 14, "BM\0\1\0\0\0\0\0\0\66\0\0\0"},
        {"bmp", 18, "BM\0\1\0\0CI\1\2\66\0\0\0\50\0\0\0"},
        {"ppm", 10, "P6\n1 1\n255"},
        {"ppm", 12, "P5#a comment"},
        {"avif", 16, "\0\0\0\40ftypavif\0\0\0\0"},
        {"heif", 16, "\0\0\0\30ftypheic\0\0\0\0"},
        {"text", 6, "Hello\n"},
        {"text", 7, "sch\xc3\xb6n\n"},
        {"unknown", 4, "\0\1\2\3"},
    };
    (void)state;
    EXPECT_FORMATS(examples);
    assert_string_equal(mr_image_format_sniff(NULL, 0), "empty");
}

static void what_resembles_a_picture_is_none(void **state)
{
    static const struct example examples[] = {
        {"unknown", 8, "\x89PNG\r\n\x1a\r"},
        {"unknown", 16, "RIFF\0\0\0\0WAVEfmt "},
        {"text", 18, "BMW and other cars"},
        {"unknown", 18, "BM\0\1\0\0CI\1\2\66\0\0\0\50\1\0\0"},
        {"unknown", 17, "BM\0\1\0\0CI\1\2\66\0\0\0\50\0\0"},
        {"text", 16, "12345678WEBP and"},
        {"unknown", 16, "\0\0\0\40ftypisom\0\0\0\0"},
        {"unknown", 11, "\0\0\0\40ftypavi"},
        {"text", 8, "GIF8 is "},
        {"text", 3, "P7\n"},
        {"unknown", 3, "P\0\0"},
        {"unknown", 3, "P6\0"},
    };
    (void)state;
    EXPECT_FORMATS(examples);
}

/* The decoder then says what is missing. Less than this could be anything. */
static void a_file_cut_in_its_signature_has_a_format_all_the_same(void **state)
{
    static const struct example examples[] = {
        {"jpeg", 2, "\xff\xd8"},    {"unknown", 1, "\xff"}, {"png", 7, "\x89PNG\r\n\x1a"},
        {"png", 4, "\x89PNG"},      {"text", 2, "P6"},      {"text", 2, "BM"},
        {"unknown", 6, "RIFF\0\0"},
    };
    (void)state;
    EXPECT_FORMATS(examples);
}

static void only_the_beginning_of_a_text_is_looked_at(void **state)
{
    static uint8_t bytes[5000];
    (void)state;
    memset(bytes, 'a', sizeof bytes);
    bytes[4096] = 0;
    assert_string_equal(mr_image_format_sniff(bytes, sizeof bytes), "text");
    bytes[4095] = 0;
    assert_string_equal(mr_image_format_sniff(bytes, sizeof bytes), "unknown");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(first_bytes_name_the_format),
        cmocka_unit_test(what_resembles_a_picture_is_none),
        cmocka_unit_test(a_file_cut_in_its_signature_has_a_format_all_the_same),
        cmocka_unit_test(only_the_beginning_of_a_text_is_looked_at),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
