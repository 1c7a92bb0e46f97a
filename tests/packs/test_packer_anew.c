/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Images that are packed in another size or quality than the file has: their sizes and pixels, and
 * what the pack says about them.
 */
#include "tests/packs/packer_support.h"
#include "tests/support/assert_words.h"
#include "tests/transforms/reference.h"
#include "transforms/packed_selftest.h"
#include "transforms/tile.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void check_size(const struct mr_packed_sample *sample, uint32_t encoding, uint32_t width,
                       uint32_t height)
{
    if (sample->image.encoding != encoding || sample->image.width != width ||
        sample->image.height != height)
        fail_msg("encoding %u, %u x %u instead of encoding %u, %u x %u (\"%s\")",
                 sample->image.encoding, sample->image.width, sample->image.height, encoding, width,
                 height, sample->why);
}

static void sizes_are_those_of_resize_and_of_the_longest_side(void **state)
{
    (void)state;
    static const struct {
        uint32_t width, height, max_side, resize, out_width, out_height;
    } cases[] = {
        {200, 100, 50, 0, 50, 25},  {100, 200, 50, 0, 25, 50}, {200, 33, 64, 0, 64, 11},
        {200, 1, 50, 0, 50, 1},     {50, 40, 50, 0, 50, 40},   {50, 40, 500, 0, 50, 40},
        {200, 100, 0, 50, 100, 50}, {99, 50, 0, 30, 59, 30},   {50, 99, 0, 30, 30, 59},
        {50, 40, 0, 80, 100, 80},   {64, 64, 0, 32, 32, 32},   {101, 67, 67, 0, 67, 44},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        struct mr_test_image jpeg = mr_test_jpeg(
            &(struct mr_test_jpeg){.width = cases[i].width, .height = cases[i].height});
        bool same = cases[i].width == cases[i].out_width && cases[i].height == cases[i].out_height;
        for (uint32_t e = MR_PACKED_JPEG; e <= MR_PACKED_DCT; e++) {
            struct mr_packer_options options = {
                .encoding = e, .max_side = cases[i].max_side, .resize = cases[i].resize};
            struct mr_packer *packer = packer_make(&options);
            struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
            check_size(&sample, e, cases[i].out_width, cases[i].out_height);
            assert_int_equal(sample.made_anew, !same);
            assert_string_equal(sample.why, "");
            assert_int_equal(mr_packer_try(packer, &sample.image, sample.bytes, NULL), MR_OK);
            mr_packer_destroy(packer);
        }
        mr_test_image_free(&jpeg);
    }
}

static void raw_pixels_are_those_of_resize(void **state)
{
    (void)state;
    for (uint32_t i = 0; i < 12; i++) {
        uint32_t size = 5 + 11 * i;
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_packer *packer =
            packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_RAW, .resize = size});
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        uint32_t width, height;
        uint8_t *full = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
        struct image image = image_make(width, height, 3);
        memcpy(image.pixels, full, (size_t)width * height * 3);
        reference_resize(&image, sample.image.width, sample.image.height, MR_BILINEAR);
        assert_int_equal(sample.image.width < sample.image.height ? sample.image.width
                                                                  : sample.image.height,
                         size);
        assert_int_equal(sample.image.len, (size_t)image.width * (size_t)image.height * 3);
        assert_memory_equal(sample.bytes, image.pixels, sample.image.len);
        image_free(&image);
        free(full);
        mr_packer_destroy(packer);
        mr_test_image_free(&jpeg);
    }
}

static void raw_pixels_of_every_format_are_the_codecs(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_RAW});
    for (uint32_t i = 0; packer_kind(i); i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        uint32_t width, height;
        uint8_t *full = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
        check_size(&sample, MR_PACKED_RAW, width, height);
        assert_false(sample.made_anew);
        assert_memory_equal(sample.bytes, full, sample.image.len);
        free(full);
        mr_test_image_free(&jpeg);
    }
    struct mr_test_png options = {.width = 41, .height = 23, .colour_type = 6};
    struct mr_test_image png = mr_test_png(&options);
    uint8_t *full = mr_test_png_pixels(&options);
    struct mr_packed_sample sample = packer_pack(packer, png.bytes, png.len);
    check_size(&sample, MR_PACKED_RAW, 41, 23);
    assert_memory_equal(sample.bytes, full, sample.image.len);
    free(full);
    mr_test_image_free(&png);
    mr_packer_destroy(packer);
}

/* Mean difference of two pictures' samples. */
static double difference(const uint8_t *a, const uint8_t *b, size_t n)
{
    double sum = 0;
    for (size_t i = 0; i < n; i++)
        sum += a[i] > b[i] ? a[i] - b[i] : b[i] - a[i];
    return sum / (double)n;
}

static void quality_alone_makes_every_jpeg_anew_and_nothing_else(void **state)
{
    (void)state;
    struct mr_test_image jpeg =
        mr_test_jpeg(&(struct mr_test_jpeg){.width = 160, .height = 120, .quality = 97});
    struct mr_test_image png =
        mr_test_png(&(struct mr_test_png){.width = 30, .height = 30, .colour_type = 2});
    size_t last = 0;
    for (uint32_t quality = 20; quality <= 95; quality += 25) {
        struct mr_packer *packer = packer_make(
            &(struct mr_packer_options){.encoding = MR_PACKED_JPEG, .quality = quality});
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
        uint32_t width, height;
        assert_true(sample.made_anew);
        assert_true(sample.image.len > last);
        last = sample.image.len;
        uint8_t *a = mr_test_jpeg_pixels(jpeg.bytes, jpeg.len, &width, &height);
        uint8_t *b = mr_test_jpeg_pixels(sample.bytes, sample.image.len, &width, &height);
        assert_true(difference(a, b, (size_t)width * height * 3) < 30);
        free(a);
        free(b);
        sample = packer_pack(packer, png.bytes, png.len);
        assert_false(sample.made_anew);
        assert_ptr_equal(sample.bytes, png.bytes);
        mr_packer_destroy(packer);
    }
    mr_test_image_free(&jpeg);
    mr_test_image_free(&png);
}

static void coefficients_made_anew_are_those_of_the_jpeg_made_anew(void **state)
{
    (void)state;
    struct mr_packer_options options = {.encoding = MR_PACKED_JPEG, .max_side = 64, .quality = 80};
    struct mr_packer *jpegs = packer_make(&options);
    options.encoding = MR_PACKED_DCT;
    struct mr_packer *packer = packer_make(&options);
    for (uint32_t i = 0; packer_kind(i); i++) {
        struct mr_test_image jpeg = mr_test_jpeg(packer_kind(i));
        struct mr_packed_sample a = packer_pack(jpegs, jpeg.bytes, jpeg.len);
        struct mr_packed_sample b = packer_pack(packer, jpeg.bytes, jpeg.len);
        assert_true(a.made_anew && b.made_anew);
        assert_int_equal(b.image.encoding, MR_PACKED_DCT);
        assert_int_equal(a.image.orientation, b.image.orientation);
        assert_int_equal(a.image.orientation,
                         packer_kind(i)->orientation ? packer_kind(i)->orientation : 1);
        assert_int_equal(b.template.n_components, packer_kind(i)->colour == MR_TEST_GREY ? 1 : 3);
        uint32_t width, height;
        uint8_t *full = mr_test_jpeg_pixels(a.bytes, a.image.len, &width, &height);
        uint8_t *pixels = packer_pixels(&b.image, b.bytes);
        assert_memory_equal(full, pixels, (size_t)width * height * 3);
        free(full);
        free(pixels);
        mr_test_image_free(&jpeg);
    }
    mr_packer_destroy(jpegs);
    mr_packer_destroy(packer);
}

static void a_large_png_becomes_a_jpeg_and_a_small_one_stays(void **state)
{
    (void)state;
    struct mr_packer *packer =
        packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT, .max_side = 50});
    struct mr_test_image png = mr_test_png(
        &(struct mr_test_png){.width = 90, .height = 30, .colour_type = 2, .orientation = 3});
    struct mr_packed_sample sample = packer_pack(packer, png.bytes, png.len);
    check_size(&sample, MR_PACKED_DCT, 50, 17);
    assert_int_equal(sample.image.orientation, 3);
    mr_test_image_free(&png);
    png = mr_test_png(&(struct mr_test_png){.width = 50, .height = 30, .colour_type = 2});
    sample = packer_pack(packer, png.bytes, png.len);
    check_size(&sample, MR_PACKED_JPEG, 50, 30);
    assert_false(sample.made_anew);
    mr_test_image_free(&png);
    mr_packer_destroy(packer);
}

static void what_would_be_too_large_is_kept(void **state)
{
    (void)state;
    struct mr_packer *packer = packer_make(&(struct mr_packer_options){
        .encoding = MR_PACKED_RAW, .resize = 200, .limits.max_pixels = 30000});
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 100, .height = 100});
    struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len);
    check_size(&sample, MR_PACKED_JPEG, 100, 100);
    assert_false(sample.damaged);
    assert_words(sample.why, "above the limit of 30000");
    mr_packer_destroy(packer);
    packer = packer_make(&(struct mr_packer_options){.encoding = MR_PACKED_DCT, .resize = 65501});
    struct mr_test_image line = mr_test_jpeg(&(struct mr_test_jpeg){.width = 1, .height = 1});
    sample = packer_pack(packer, line.bytes, line.len);
    check_size(&sample, MR_PACKED_JPEG, 1, 1);
    assert_false(sample.damaged);
    mr_packer_destroy(packer);
    mr_test_image_free(&line);
    mr_test_image_free(&jpeg);
}

static void damaged_files_are_not_made_anew(void **state)
{
    (void)state;
    struct mr_test_image jpeg = mr_test_jpeg(&(struct mr_test_jpeg){.width = 100, .height = 100});
    for (uint32_t e = MR_PACKED_JPEG; e <= MR_PACKED_DCT; e++) {
        struct mr_packer *packer =
            packer_make(&(struct mr_packer_options){.encoding = e, .max_side = 60, .quality = 50});
        struct mr_packed_sample sample = packer_pack(packer, jpeg.bytes, jpeg.len / 2);
        check_size(&sample, MR_PACKED_JPEG, 100, 100);
        assert_true(sample.damaged);
        assert_false(sample.made_anew);
        assert_ptr_equal(sample.bytes, jpeg.bytes);
        mr_packer_destroy(packer);
    }
    mr_test_image_free(&jpeg);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_those_of_resize_and_of_the_longest_side),
        cmocka_unit_test(raw_pixels_are_those_of_resize),
        cmocka_unit_test(raw_pixels_of_every_format_are_the_codecs),
        cmocka_unit_test(quality_alone_makes_every_jpeg_anew_and_nothing_else),
        cmocka_unit_test(coefficients_made_anew_are_those_of_the_jpeg_made_anew),
        cmocka_unit_test(a_large_png_becomes_a_jpeg_and_a_small_one_stays),
        cmocka_unit_test(what_would_be_too_large_is_kept),
        cmocka_unit_test(damaged_files_are_not_made_anew),
    };
    mr_error why_not;
    if (mr_packed_selftest_check(&why_not) != MR_OK) {
        printf("%s\n", why_not.text);
        return 77;
    }
    return cmocka_run_group_tests(tests, NULL, NULL);
}
