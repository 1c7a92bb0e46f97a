/* SPDX-License-Identifier: Apache-2.0 */
/* What mr_transform_passes() says about a transform. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include <millrace/transform.h>

#include "tests/support/assert_words.h"

enum { TEXT_BYTES = 8192 };

static mr_status describe(const char *recipe, uint32_t width, uint32_t height, mr_dtype dtype,
                          char text[TEXT_BYTES], mr_error *error)
{
    mr_transform *transform;
    size_t len = 0;
    assert_ok(mr_transform_parse(recipe, &transform, error), error);
    mr_status status = mr_transform_passes(transform, width, height, dtype, MR_NCHW, text,
                                           TEXT_BYTES, &len, error);
    if (status == MR_OK)
        assert_int_equal(strlen(text), len);
    mr_transform_destroy(transform);
    return status;
}

/* Compares what follows the two lines about the sample and the image. */
static void expect_passes(const char *recipe, mr_dtype dtype, const char *expected)
{
    char text[TEXT_BYTES];
    mr_error error;
    assert_ok(describe(recipe, 500, 375, dtype, text, &error), &error);
    assert_string_equal(strstr(text, "\n\n") + 2, expected);
}

static void expect_line(const char *recipe, uint32_t width, uint32_t height, const char *line)
{
    char text[TEXT_BYTES];
    mr_error error;
    assert_ok(describe(recipe, width, height, MR_U8, text, &error), &error);
    assert_words(text, line);
}

static void geometry_alone_is_one_pass(void **state)
{
    (void)state;
    expect_passes(
        "train(224,interp=random)", MR_F16,
        "pass 1: file -> tensor, row by row\n"
        "  random_resized_crop   a random box, resampled to 224x224, bilinear or bicubic\n"
        "  hflip                 columns in reverse order, in the same pass\n"
        "  normalize             one fma for each value\n");
    expect_passes("none", MR_F32,
                  "pass 1: file -> tensor, row by row\n"
                  "  store                 x / 255\n");
    expect_passes("exif+eval:375:224", MR_U8,
                  "pass 1: file -> tensor, row by row\n"
                  "  exif                  the whole image is made and turned before, if its "
                  "orientation is not 1\n"
                  "  resize                nothing: the image is 500x375\n"
                  "  center_crop           the middle, 224x224\n"
                  "  store                 bytes as they are; u8 is not normalized\n");
}

static void a_resize_after_a_flip_gets_its_own_pass(void **state)
{
    (void)state;
    expect_passes("resize(200:300)+vflip(0.01)+resize(64,nearest)+random_crop(32,padding=4,padding_"
                  "mode=edge)",
                  MR_U8,
                  "pass 1: file -> image of 300x200 in memory\n"
                  "  resize                resampled to 300x200, bilinear\n"
                  "  vflip                 rows in reverse order, in the same pass\n"
                  "\n"
                  "pass 2: that image -> tensor, row by row\n"
                  "  resize                resampled to 96x64, nearest\n"
                  "  random_crop           a random box of 32x32, padding 4: edge\n"
                  "  store                 bytes as they are\n");
}

static void calls_are_counted_with_their_walks(void **state)
{
    (void)state;
    expect_passes(
        "posterize(4,1)+solarize(128,1)+equalize(1)+invert(1)+grayscale(3)+resize(256:256)+"
        "adjust_sharpness(2,1)+random_apply(invert(1),0)",
        MR_BF16,
        "pass 1: file -> image of 500x375 in memory\n"
        "calls on it: 100.0 % of the samples have some, on average 5.0 in 4.0 walks over it\n"
        "  posterize             posterize          100.0 %  table\n"
        "  solarize              solarize           100.0 %  table\n"
        "  equalize              equalize           100.0 %  table, made from the image's pixels\n"
        "  invert                invert             100.0 %  table\n"
        "  grayscale             rgb_to_grayscale   100.0 %  in place\n"
        "                        consecutive tables are folded into one\n"
        "\n"
        "pass 2: that image -> image of 256x256 in memory\n"
        "  resize                resampled to 256x256, bilinear\n"
        "calls on it: 100.0 % of the samples have some, on average 1.0 in 1.0 walks over it\n"
        "  adjust_sharpness      adjust_sharpness   100.0 %  into a second image\n"
        "  random_apply          nothing was drawn\n"
        "\n"
        "pass 3: that image -> tensor, row by row\n"
        "  store                 x / 255\n");
}

static void share_of_the_pixels_follows_the_crop(void **state)
{
    (void)state;
    expect_line("center_crop(100)", 200, 100,
                "needed: 50.0 % of the pixels of an image of 200x100, mean of");
    /* An operation before a crop needs the whole image. */
    expect_line("invert(1)+center_crop(100)", 200, 100, "needed: 100.0 %");
    expect_line("resize(32)", 100, 50, "sample: u8 nchw 3x32x64, 6144 bytes\n");
    expect_line("grayscale+center_crop(8)", 100, 50, "sample: u8 nchw 1x8x8, 64 bytes\n");
}

static void a_drawn_size_is_named(void **state)
{
    (void)state;
    static const char line[] =
        "sample: u8 nchw of a drawn size: with the option ragged or pad_batch\n";
    expect_line("detection_ssd", 500, 375, line);
    expect_line("detection_multiscale", 500, 375, line);
    expect_line("detection_lsj", 500, 375, "sample: u8 nchw 3x1024x1024, 3145728 bytes\n");
    char text[TEXT_BYTES];
    mr_error error;
    assert_int_equal(describe("random_resize(8,9)+random_erasing", 8, 8, MR_F32, text, &error),
                     MR_ERR_INVALID);
    assert_words(error.text, "random_resize gives each image another size");
}

static void what_cannot_run_is_refused_with_the_reason(void **state)
{
    (void)state;
    char text[TEXT_BYTES];
    mr_error error;
    assert_int_equal(describe("random_crop(32)", 31, 40, MR_U8, text, &error), MR_ERR_DAMAGED);
    assert_string_equal(error.text, "crop 32x32 is larger than the image 31x40 with padding 0");
    assert_int_equal(describe("normalize(mean=0,std=1)", 8, 8, MR_U8, text, &error),
                     MR_ERR_INVALID);
    assert_string_equal(error.text, "normalize cannot be applied: dtype is u8, not a float");
    assert_int_equal(describe("none", 0, 8, MR_U8, text, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "size 0x8 is not from 1x1 to 65535x65535");
    assert_int_equal(describe("none", 8, 65536, MR_U8, text, &error), MR_ERR_INVALID);
}

static void a_short_buffer_has_the_beginning(void **state)
{
    (void)state;
    mr_transform *transform;
    mr_error error;
    char whole[TEXT_BYTES], part[12];
    size_t len = 0, same = 0;
    assert_int_equal(mr_transform_parse("train:8+color_jitter(1)", &transform, &error), MR_OK);
    assert_int_equal(mr_transform_passes(transform, 9, 9, MR_DTYPE_DEFAULT, MR_NHWC, whole,
                                         sizeof whole, NULL, &error),
                     MR_OK);
    assert_int_equal(mr_transform_passes(transform, 9, 9, MR_U8, MR_NHWC, NULL, 0, &len, &error),
                     MR_OK);
    assert_int_equal(len, strlen(whole));
    assert_int_equal(
        mr_transform_passes(transform, 9, 9, MR_U8, MR_NHWC, part, sizeof part, &same, &error),
        MR_OK);
    assert_int_equal(len, same);
    assert_memory_equal(part, whole, sizeof part - 1);
    assert_int_equal(part[sizeof part - 1], '\0');
    mr_transform_destroy(transform);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(geometry_alone_is_one_pass),
        cmocka_unit_test(a_resize_after_a_flip_gets_its_own_pass),
        cmocka_unit_test(calls_are_counted_with_their_walks),
        cmocka_unit_test(share_of_the_pixels_follows_the_crop),
        cmocka_unit_test(a_drawn_size_is_named),
        cmocka_unit_test(what_cannot_run_is_refused_with_the_reason),
        cmocka_unit_test(a_short_buffer_has_the_beginning),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
