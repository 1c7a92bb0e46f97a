/* SPDX-License-Identifier: Apache-2.0 */
/*
 * JPEGs by their marks. Boxes of good files are libjpeg's pixels, from the bytes of their rows
 * alone and with every set of loops. And: which files have marks.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/support/scans.h"
#include "tests/transforms/marked_box.h"
#include "tests/transforms/packed_sample.h"
#include "transforms/codec.h"
#include "transforms/codec_marked.h"
#include "transforms/jpeg/jpeg_marks.h"
#include "transforms/packed.h"
#include "transforms/packed_selftest.h"
#include "transforms/simd/kernels.h"

static const struct mr_codec_limits zeros;

/* Everything, a pixel in each corner, then other boxes. */
static struct scan_box box_at(uint32_t i, uint32_t width, uint32_t height)
{
    if (i == 0)
        return (struct scan_box){0, 0, width, height};
    if (i <= 4)
        return (struct scan_box){i % 2 ? 0 : width - 1, i < 3 ? 0 : height - 1, 1, 1};
    return scan_pair_box(i * 31 + width, width, height);
}

static void check_good(void *state, const struct mr_test_image *image, uint32_t n_boxes,
                       const char *what)
{
    struct packed_sample sample;
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(image->bytes, image->len, &width, &height);
    uint8_t *pixels = malloc((size_t)width * height * 3);
    assert_non_null(pixels);
    if (!packed_sample_marked(image, &sample))
        fail_msg("%s, %ux%u: no marks", what, width, height);
    assert_int_equal(mr_packed_check(&sample.image, &zeros, NULL), MR_OK);
    for (uint32_t i = 0; i < n_boxes; i++) {
        struct scan_box box = box_at(i, width, height);
        mr_error error = {0};
        if (marked_box_decode(state, &sample.image, image->bytes, &box, pixels, &error) != MR_OK)
            fail_msg("%s, %ux%u, box %u: %s", what, width, height, i, error.text);
        if (!marked_box_equals(full, width, &box, pixels))
            fail_msg("%s, %ux%u, box %u: pixels differ", what, width, height, i);
    }
    packed_sample_free(&sample);
    free(pixels);
    free(full);
}

typedef void check_with(void *state);

static void with_all_kernels(check_with *check)
{
    for (int cpu = 0; cpu < MR_CPU_N; cpu++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find((enum mr_cpu)cpu);
        if (!kernels)
            continue;
        void *state = marked_box_make(kernels);
        check(state);
        mr_codec_marked.destroy(state);
    }
}

static const uint8_t layouts[][3][2] = {
    {{1, 1}, {1, 1}, {1, 1}}, {{2, 1}, {1, 1}, {1, 1}}, {{2, 2}, {1, 1}, {1, 1}},
    {{1, 2}, {1, 1}, {1, 1}}, {{4, 1}, {1, 1}, {1, 1}}, {{1, 4}, {1, 1}, {1, 1}},
    {{2, 2}, {2, 1}, {2, 1}}, {{1, 1}, {2, 2}, {2, 2}}, {{3, 2}, {1, 1}, {1, 1}},
    {{2, 2}, {2, 1}, {1, 2}},
};
#define N_LAYOUTS (sizeof layouts / sizeof layouts[0])

/* From one mark to a few per row; 256 and 257 columns of 4:2:0 are 16 and 17 MCUs. */
static const uint32_t sizes[][2] = {{1, 1}, {17, 33}, {66, 67}, {256, 20}, {257, 40}, {300, 50}};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

/* Restarts in every interval up to 19 MCUs, and none. */
static void check_encoded(void *state)
{
    for (uint32_t i = 0, n = 0; i < N_LAYOUTS; i++)
        for (uint32_t k = 0; k < N_SIZES; k++, n++) {
            struct mr_test_jpeg options = {.width = sizes[k][0],
                                           .height = sizes[k][1],
                                           .seed = n,
                                           .restart = n % 20,
                                           .optimised = n % 2};
            char what[64];
            memcpy(options.sampling, layouts[i], sizeof layouts[i]);
            struct mr_test_image image = mr_test_jpeg(&options);
            snprintf(what, sizeof what, "layout %u, restart %u", i, options.restart);
            check_good(state, &image, 12, what);
            mr_test_image_free(&image);
        }
}

static void boxes_equal_libjpegs_in_every_layout(void **state)
{
    (void)state;
    with_all_kernels(check_encoded);
}

static void check_colours(void *state)
{
    for (int colour = MR_TEST_YCC; colour <= MR_TEST_YCCK; colour++) {
        struct mr_test_jpeg options = {
            .width = 170, .height = 51, .colour = colour, .restart = (uint32_t)colour * 2};
        struct mr_test_image image = mr_test_jpeg(&options);
        check_good(state, &image, 14, "colours");
        mr_test_image_free(&image);
    }
}

static void boxes_equal_libjpegs_in_every_colour_space(void **state)
{
    (void)state;
    with_all_kernels(check_colours);
}

static void check_written(void *state)
{
    for (uint32_t i = 0; i < 54; i++) {
        struct mr_test_scan options = {
            .width = 16 + i * 5, .height = 90 - i, .seed = i + 1, .code = i % 3};
        options.n_components = i / 3 % 3 == 0 ? 1 : i / 3 % 3 == 1 ? 3 : 4;
        options.restart = i / 9 % 2 ? i % 7 : 0;
        options.dc_only = i % 11 == 10;
        if (options.n_components == 3)
            memcpy(options.sampling, layouts[i % N_LAYOUTS], sizeof layouts[0]);
        struct mr_test_image image = mr_test_scan(&options);
        char what[64];
        snprintf(what, sizeof what, "written %u", i);
        check_good(state, &image, 10, what);
        mr_test_image_free(&image);
    }
}

static void any_run_size_and_code_is_decoded(void **state)
{
    (void)state;
    with_all_kernels(check_written);
}

/* More clean bytes in a row than the decoder's window holds, with stretches of 0xff. */
static void check_long(void *state)
{
    struct mr_test_jpeg options = {.width = 4000, .height = 30, .quality = 100};
    struct mr_test_image image = mr_test_jpeg(&options);
    assert_true(image.len > 80000);
    check_good(state, &image, 8, "long");
    mr_test_image_free(&image);
}

static void rows_longer_than_the_window_move_it_forward(void **state)
{
    (void)state;
    with_all_kernels(check_long);
}

/* The header. */

/* A copy with bytes inserted at a place. */
static struct mr_test_image insert(const struct mr_test_image *image, size_t at, const void *bytes,
                                   size_t n)
{
    struct mr_test_image made = {malloc(image->len + n), image->len + n};
    assert_non_null(made.bytes);
    memcpy(made.bytes, image->bytes, at);
    memcpy(made.bytes + at, bytes, n);
    memcpy(made.bytes + at + n, image->bytes + at, image->len - at);
    return made;
}

static void the_stored_header_has_only_what_decoding_needs(void **state)
{
    static uint8_t profile[2 + 40000] = {0xff, 0xe2, 40000 >> 8, 40000 & 0xff};
    (void)state;
    void *codec = marked_box_make(mr_kernels_best());
    struct packed_sample sample;
    struct mr_jpeg_marks marks;
    struct mr_test_jpeg options = {.width = 100, .height = 60, .orientation = 6};
    struct mr_test_image image = mr_test_jpeg(&options), all[4];
    assert_memory_equal(image.bytes + 6, "JFIF", 5);
    all[0] = insert(&image, 20, profile, sizeof profile);
    all[1] = insert(&all[0], 20, "\xff\xff\xff\xff\xfe\0\6text", 11); /* fill bytes and a comment */
    all[2] = insert(&all[1], 20, "\xff\xe0\0\x0bJFXX\0\x11\1\1\7", 13);
    all[3] = insert(&all[2], 20, "\xff\xe1\0\2", 4);
    for (int i = 0; i < 4; i++) {
        check_good(codec, &all[i], 6, "more header");
        assert_true(packed_sample_marked(&all[i], &sample));
        assert_int_equal(sample.image.orientation, 6);
        assert_int_equal(sample.image.rows[0],
                         mr_test_scan_start(&image) + (all[i].len - image.len));
        assert_true(mr_jpeg_marks_parse(sample.marks, sample.image.marks_len, &marks));
        assert_in_range(marks.head_len, 500, 700);
        packed_sample_free(&sample);
    }
    for (int i = 0; i < 4; i++)
        mr_test_image_free(&all[i]);
    mr_test_image_free(&image);
    mr_codec_marked.destroy(codec);
}

/* A thumbnail in JFIF's segment is left out, and so are its sides. */
static void a_thumbnail_is_left_out(void **state)
{
    (void)state;
    void *codec = marked_box_make(mr_kernels_best());
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 40, .height = 30});
    struct mr_test_image with = insert(&image, 20, (const uint8_t[12]){0}, 12);
    struct packed_sample sample;
    struct mr_jpeg_marks marks;
    with.bytes[5] += 12;
    with.bytes[18] = with.bytes[19] = 2;
    check_good(codec, &with, 6, "thumbnail");
    assert_true(packed_sample_marked(&with, &sample));
    assert_true(mr_jpeg_marks_parse(sample.marks, sample.image.marks_len, &marks));
    assert_memory_equal(mr_jpeg_marks_head(&marks), image.bytes, 20);
    packed_sample_free(&sample);
    mr_test_image_free(&with);
    mr_test_image_free(&image);
    mr_codec_marked.destroy(codec);
}

static void the_data_end_where_their_last_bit_does(void **state)
{
    (void)state;
    void *codec = marked_box_make(mr_kernels_best());
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 300, .height = 60});
    struct mr_test_image more = insert(&image, image.len, "\xff\xd9garbage\xff\xda", 11);
    struct mr_test_image less = {image.bytes, image.len - 2};
    const struct mr_test_image *files[] = {&image, &more, &less};
    for (int i = 0; i < 3; i++) {
        struct packed_sample sample;
        check_good(codec, files[i], 6, "end");
        assert_true(packed_sample_marked(files[i], &sample));
        assert_int_equal(sample.image.n_rows, 4);
        assert_int_equal(sample.image.rows[4], image.len - 2);
        packed_sample_free(&sample);
    }
    mr_test_image_free(&more);
    mr_test_image_free(&image);
    mr_codec_marked.destroy(codec);
}

static void each_row_begins_with_a_mark(void **state)
{
    (void)state;
    struct packed_sample sample;
    struct mr_jpeg_marks marks;
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 500, .height = 375, .quality = 95});
    assert_true(packed_sample_marked(&image, &sample));
    assert_true(mr_jpeg_marks_parse(sample.marks, sample.image.marks_len, &marks));
    assert_int_equal(marks.n_marks, 24 * 2); /* rows of 32 MCUs */
    assert_int_equal(sample.image.marks_len, 24 + marks.head_len + 48 * (4 + 3 * 2));
    packed_sample_free(&sample);
    mr_test_image_free(&image);
}

/* Files without marks. */

static mr_status mark(struct mr_codec *codec, const struct mr_test_image *image, mr_error *error)
{
    struct mr_packed_image made;
    return mr_codec_mark(codec, image->bytes, image->len, &made, error);
}

static void expect_none(struct mr_codec *codec, const struct mr_test_image *image, const char *text)
{
    mr_error error = {0};
    mr_status status = mark(codec, image, &error);
    assert_string_equal(error.text, text);
    assert_int_equal(status, MR_ERR_UNSUPPORTED);
}

static void other_files_have_no_marks(void **state)
{
    static const struct {
        struct mr_test_jpeg options;
        const char *text;
    } others[] = {
        {{.width = 50, .height = 40, .progressive = true},
         "no index for a JPEG: it has several scans"},
        {{.width = 50, .height = 40, .one_scan_each = true},
         "no index for a JPEG: it has several scans"},
        {{.width = 50, .height = 40, .arithmetic = true},
         "no index for a JPEG: it is not baseline"},
        {{.width = 50, .height = 40, .colour = MR_TEST_GREY, .sampling = {{2, 2}}},
         "no index for a JPEG: it is not baseline"},
    };
    (void)state;
    struct mr_codec *codec;
    assert_int_equal(mr_codec_create(&zeros, &codec, NULL), MR_OK);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        struct mr_test_image image = mr_test_jpeg(&others[i].options);
        expect_none(codec, &image, others[i].text);
        mr_test_image_free(&image);
    }
    struct mr_test_image png =
        mr_test_png(&(struct mr_test_png){.width = 9, .height = 9, .colour_type = 2});
    expect_none(codec, &png, "no index: the file is not a JPEG");
    expect_none(codec, &(struct mr_test_image){png.bytes, 0}, "no index: the file is not a JPEG");
    mr_test_image_free(&png);
    mr_codec_destroy(codec);
}

static void odd_files_have_no_marks(void **state)
{
    (void)state;
    struct mr_codec *codec;
    struct mr_packed_image made;
    mr_error error;
    assert_int_equal(mr_codec_create(&zeros, &codec, NULL), MR_OK);
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 90, .height = 70, .restart = 4});
    size_t start = mr_test_scan_start(&image);
    for (size_t cut = 3; cut < image.len - start; cut += 29)
        expect_none(codec, &(struct mr_test_image){image.bytes, image.len - cut},
                    image.len - start - cut >= 6 * 30 * 2 / 8
                        ? "no index for a JPEG: its scan is odd"
                        : "no index for a JPEG: its scan is too short");
    struct mr_test_image garbage = insert(&image, 20, "\0", 1);
    expect_none(codec, &garbage, "no index for a JPEG: libjpeg warns of its header");
    mr_test_image_free(&garbage);
    garbage = insert(&image, 20, "\xff\xd0", 2);
    expect_none(codec, &garbage, "no index for a JPEG: its header is unusual");
    mr_test_image_free(&garbage);
    garbage = mr_test_scan(
        &(struct mr_test_scan){.width = 90, .height = 70, .n_components = 3, .dc_grows = true});
    expect_none(codec, &garbage, "no index for a JPEG: its scan is odd");
    mr_test_image_free(&garbage);
    for (size_t n = 3; n < start; n += 17)
        assert_int_equal(mark(codec, &(struct mr_test_image){image.bytes, n}, &error),
                         MR_ERR_DAMAGED);
    assert_int_equal(mr_codec_mark(codec, image.bytes, image.len, &made, NULL), MR_OK);
    assert_int_equal(made.encoding, MR_PACKED_MARKED);
    mr_codec_use_stock_jpeg(codec);
    assert_false(mr_codec_reads_marks(codec));
    expect_none(codec, &image, "no index: JPEGs are decoded by libjpeg alone");
    mr_test_image_free(&image);
    mr_codec_destroy(codec);
}

static void the_same_file_has_the_same_marks(void **state)
{
    (void)state;
    struct mr_codec *codec;
    struct packed_sample sample;
    struct mr_packed_image made;
    assert_int_equal(mr_codec_create(&zeros, &codec, NULL), MR_OK);
    assert_true(mr_codec_reads_marks(codec));
    for (uint32_t i = 0; i < 6; i++) {
        struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){
            .width = 300 - 40 * i, .height = 70, .restart = i, .optimised = i % 2});
        assert_true(packed_sample_marked(&image, &sample));
        assert_int_equal(mr_codec_mark(codec, image.bytes, image.len, &made, NULL), MR_OK);
        assert_int_equal(made.marks_len, sample.image.marks_len);
        assert_memory_equal(made.marks, sample.marks, made.marks_len);
        assert_memory_equal(made.template, &sample.template, sizeof sample.template);
        assert_memory_equal(made.rows, sample.rows, (made.n_rows + 1) * sizeof *made.rows);
        packed_sample_free(&sample);
        mr_test_image_free(&image);
    }
    mr_codec_destroy(codec);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_equal_libjpegs_in_every_layout),
        cmocka_unit_test(boxes_equal_libjpegs_in_every_colour_space),
        cmocka_unit_test(any_run_size_and_code_is_decoded),
        cmocka_unit_test(rows_longer_than_the_window_move_it_forward),
        cmocka_unit_test(the_stored_header_has_only_what_decoding_needs),
        cmocka_unit_test(a_thumbnail_is_left_out),
        cmocka_unit_test(the_data_end_where_their_last_bit_does),
        cmocka_unit_test(each_row_begins_with_a_mark),
        cmocka_unit_test(other_files_have_no_marks),
        cmocka_unit_test(odd_files_have_no_marks),
        cmocka_unit_test(the_same_file_has_the_same_marks),
    };
    if (mr_packed_selftest_check_marks(NULL) != MR_OK) {
        printf("this libjpeg does not accept a decoder of scans\n");
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
