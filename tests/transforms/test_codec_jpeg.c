/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The JPEG codec against a plain full decode: every crop of every layout must be the same pixels.
 */
#include "tests/transforms/codec_support.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define N_LAYOUTS 22

static const uint8_t layouts[N_LAYOUTS][3][2] = {
    {{1, 1}, {1, 1}, {1, 1}}, /* 4:4:4 */
    {{2, 1}, {1, 1}, {1, 1}}, /* 4:2:2 */
    {{2, 2}, {1, 1}, {1, 1}}, /* 4:2:0 */
    {{1, 2}, {1, 1}, {1, 1}}, /* 4:4:0 */
    {{4, 1}, {1, 1}, {1, 1}}, /* 4:1:1 */
    {{4, 2}, {1, 1}, {1, 1}}, /* 4:1:0 */
    {{1, 4}, {1, 1}, {1, 1}}, /* 4:4:1 */
    {{2, 4}, {1, 1}, {1, 1}},
    {{2, 2}, {2, 1}, {2, 1}}, /* 4:4:0 in four blocks */
    {{2, 2}, {1, 2}, {1, 2}}, /* 4:2:2 in four blocks */
    {{2, 1}, {2, 1}, {1, 1}}, /* one of two chroma components cut */
    {{2, 2}, {1, 1}, {2, 2}},
    {{1, 1}, {2, 1}, {1, 1}}, /* luma coarser than chroma */
    {{1, 1}, {2, 2}, {2, 2}},
    {{3, 1}, {1, 1}, {1, 1}},
    {{1, 3}, {1, 1}, {1, 1}},
    {{3, 2}, {1, 1}, {1, 1}},
    /* nothing cut, odd factors */
    {{4, 1}, {2, 1}, {1, 1}},
    {{1, 4}, {1, 2}, {1, 1}},
    {{2, 1}, {2, 1}, {2, 1}},
    {{4, 1}, {4, 1}, {1, 1}},
    {{2, 2}, {2, 1}, {1, 2}},
};

enum { BASELINE, PROGRESSIVE, RESTART, ONE_SCAN_EACH, ARITHMETIC, N_MODES };

static const uint32_t sizes[][2] = {{1, 1},   {2, 3},  {7, 9},  {16, 16}, {17, 33}, {35, 18},
                                    {33, 34}, {49, 5}, {8, 65}, {66, 67}, {97, 40}, {131, 70}};
#define N_SIZES (sizeof sizes / sizeof sizes[0])

static void set_mode(struct mr_test_jpeg *options, int mode)
{
    options->progressive = mode == PROGRESSIVE;
    options->restart = mode == RESTART ? 3 : 0;
    options->one_scan_each = mode == ONE_SCAN_EACH;
    options->arithmetic = mode == ARITHMETIC;
}

static void check_boxes(struct mr_codec *codec, const struct mr_test_image *image, uint32_t seed,
                        uint32_t n_boxes, const char *what)
{
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(image->bytes, image->len, &width, &height);
    for (uint32_t i = 0; i < n_boxes; i++) {
        struct codec_box box = codec_box_at(i < 5 ? i : i + 131 * seed, width, height);
        uint8_t *pixels;
        struct mr_image_head head;
        mr_error error;
        if (codec_decode(codec, image->bytes, image->len, &box, &head, &pixels, &error) != MR_OK)
            fail_msg("%s, %ux%u: %s", what, width, height, error.text);
        assert_int_equal(head.width, width);
        assert_int_equal(head.height, height);
        if (!codec_box_equals(full, width, &box, pixels))
            fail_msg("%s, %ux%u seed %u: box %u,%u %ux%u differs", what, width, height, seed, box.x,
                     box.y, box.width, box.height);
        free(pixels);
    }
    free(full);
}

static void check_crops(struct mr_codec *codec, const struct mr_test_jpeg *options,
                        uint32_t n_boxes, const char *what)
{
    struct mr_test_image image = mr_test_jpeg(options);
    check_boxes(codec, &image, options->seed, n_boxes, what);
    mr_test_image_free(&image);
}

static void crops_equal_the_full_decode_in_every_layout(void **state)
{
    struct mr_codec *codec = *state;
    uint32_t seed = 1;
    for (int layout = 0; layout < N_LAYOUTS; layout++) {
        for (int mode = 0; mode < N_MODES; mode++) {
            for (size_t i = 0; i < N_SIZES; i++) {
                struct mr_test_jpeg options = {
                    .width = sizes[i][0], .height = sizes[i][1], .seed = seed++};
                char what[64];
                memcpy(options.sampling, layouts[layout], sizeof layouts[layout]);
                set_mode(&options, mode);
                snprintf(what, sizeof what, "layout %d, mode %d", layout, mode);
                check_crops(codec, &options, 24, what);
            }
        }
    }
}

static void crops_equal_the_full_decode_in_every_colour_space(void **state)
{
    static const char *const names[] = {"ycc", "grey", "rgb", "cmyk", "ycck"};
    struct mr_codec *codec = *state;
    uint32_t seed = 1;
    for (int colour = MR_TEST_YCC; colour <= MR_TEST_YCCK; colour++) {
        for (int mode = 0; mode < N_MODES; mode++) {
            for (size_t i = 0; i < N_SIZES; i++) {
                struct mr_test_jpeg options = {
                    .width = sizes[i][0], .height = sizes[i][1], .colour = colour};
                options.seed = seed++;
                /* a lone component's factors must not matter */
                if (colour == MR_TEST_GREY && seed % 2)
                    memcpy(options.sampling, layouts[2], sizeof layouts[2]);
                if (colour >= MR_TEST_CMYK && seed % 2)
                    memcpy(options.sampling, (uint8_t[4][2]){{2, 2}, {1, 1}, {1, 1}, {2, 2}}, 8);
                set_mode(&options, mode);
                check_crops(codec, &options, 16, names[colour]);
            }
        }
    }
}

/*
 * Ends the image properly before its n-th scan: bits of its coefficients are then missing, and
 * libjpeg smooths.
 */
static void end_before_scan(struct mr_test_image *image, int n)
{
    for (size_t i = 0; i + 1 < image->len; i++) {
        if (image->bytes[i] != 0xff || image->bytes[i + 1] != 0xda || n-- > 0)
            continue;
        image->bytes[i + 1] = 0xd9;
        image->len = i + 2;
        return;
    }
    fail_msg("too few scans");
}

static void crops_equal_the_full_decode_where_scans_were_left_out(void **state)
{
    for (int layout = 0; layout < 4; layout++) {
        for (int n_scans = 1; n_scans < 9; n_scans++) {
            struct mr_test_jpeg options = {
                .width = 99, .height = 77, .progressive = true, .quality = 30};
            char what[64];
            memcpy(options.sampling, layouts[layout], sizeof layouts[layout]);
            struct mr_test_image image = mr_test_jpeg(&options);
            end_before_scan(&image, n_scans);
            snprintf(what, sizeof what, "layout %d, %d scans", layout, n_scans);
            check_boxes(*state, &image, (uint32_t)n_scans, 20, what);
            mr_test_image_free(&image);
        }
    }
}

static void thin_pictures_decode(void **state)
{
    check_crops(*state, &(struct mr_test_jpeg){.width = 1, .height = 5000}, 20, "1x5000");
    check_crops(*state, &(struct mr_test_jpeg){.width = 5000, .height = 1}, 20, "5000x1");
    check_crops(*state, &(struct mr_test_jpeg){.width = 2, .height = 3000, .progressive = true}, 20,
                "2x3000");
}

static void every_single_pixel_of_a_420_picture_is_exact(void **state)
{
    struct mr_test_image image = mr_test_jpeg(&(struct mr_test_jpeg){.width = 37, .height = 35});
    uint32_t width, height;
    uint8_t *full = mr_test_jpeg_pixels(image.bytes, image.len, &width, &height);
    for (uint32_t i = 0; i < width * height; i++) {
        struct codec_box box = {i % width, i / width, 1, 1};
        uint8_t *pixel;
        assert_int_equal(codec_decode(*state, image.bytes, image.len, &box, NULL, &pixel, NULL),
                         MR_OK);
        assert_memory_equal(pixel, full + (size_t)i * 3, 3);
        free(pixel);
    }
    free(full);
    mr_test_image_free(&image);
}

static void grey_is_repeated(void **state)
{
    struct mr_test_image image =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 30, .height = 20, .colour = MR_TEST_GREY});
    uint8_t *pixels;
    assert_int_equal(codec_decode(*state, image.bytes, image.len, NULL, NULL, &pixels, NULL),
                     MR_OK);
    for (size_t i = 0; i < 30 * 20; i++) {
        assert_int_equal(pixels[3 * i], pixels[3 * i + 1]);
        assert_int_equal(pixels[3 * i], pixels[3 * i + 2]);
    }
    free(pixels);
    mr_test_image_free(&image);
}

static void orientation_comes_from_exif(void **state)
{
    for (uint32_t orientation = 0; orientation <= 8; orientation++) {
        struct mr_test_image image = mr_test_jpeg(
            &(struct mr_test_jpeg){.width = 8, .height = 8, .orientation = orientation});
        struct mr_image_head head;
        assert_int_equal(mr_codec_open(*state, image.bytes, image.len, &head, NULL), MR_OK);
        assert_int_equal(head.orientation, orientation ? orientation : 1);
        assert_int_equal(mr_codec_close(*state), 0);
        mr_test_image_free(&image);
    }
}

static void one_codec_reads_kinds_in_turn(void **state)
{
    for (uint32_t round = 0; round < 3; round++) {
        check_crops(*state, &(struct mr_test_jpeg){.width = 300, .height = 200, .seed = round}, 3,
                    "large");
        check_crops(*state, &(struct mr_test_jpeg){.width = 9, .height = 9, .progressive = true}, 3,
                    "progressive");
        check_crops(*state,
                    &(struct mr_test_jpeg){.width = 40, .height = 9, .colour = MR_TEST_CMYK}, 3,
                    "cmyk");
        check_crops(*state,
                    &(struct mr_test_jpeg){.width = 20, .height = 50, .colour = MR_TEST_GREY}, 3,
                    "grey");
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(crops_equal_the_full_decode_in_every_layout),
        cmocka_unit_test(crops_equal_the_full_decode_in_every_colour_space),
        cmocka_unit_test(crops_equal_the_full_decode_where_scans_were_left_out),
        cmocka_unit_test(thin_pictures_decode),
        cmocka_unit_test(every_single_pixel_of_a_420_picture_is_exact),
        cmocka_unit_test(grey_is_repeated),
        cmocka_unit_test(orientation_comes_from_exif),
        cmocka_unit_test(one_codec_reads_kinds_in_turn),
    };
    return cmocka_run_group_tests(tests, codec_set_up, codec_tear_down);
}
