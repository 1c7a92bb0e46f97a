/* SPDX-License-Identifier: Apache-2.0 */
/* Calls as JSON and in words: torchvision's keywords, and each kind of argument. */
#include "transforms/call_text.h"
#include "transforms/interpolation.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_image color = {.width = 40, .height = 30, .n_channels = 3};
static const struct mr_image gray = {.width = 40, .height = 30, .n_channels = 1};

static void check_text(const struct mr_call_text *call, const struct mr_image *image,
                       const char *want_json, const char *want_words)
{
    char text[400];
    struct mr_text_writer w;
    mr_text_writer_begin(&w, text, sizeof text);
    mr_call_text_put_json(&w, call, image);
    mr_text_writer_end(&w);
    assert_string_equal(text, want_json);
    mr_text_writer_begin(&w, text, sizeof text);
    mr_call_text_put_words(&w, call, image);
    mr_text_writer_end(&w);
    assert_string_equal(text, want_words);
}

static void check_call(enum mr_image_call_kind kind, double first, double second,
                       const char *want_json, const char *want_words)
{
    const struct mr_image_call call = {.kind = kind, .args = {first, second}};
    const struct mr_call_text text = mr_call_text_of(&call);
    check_text(&text, &color, want_json, want_words);
}

static void calls_have_the_keywords_of_torchvision(void **state)
{
    (void)state;
    check_call(MR_CALL_INVERT, 0, 0, "[\"invert\",{}]", "invert");
    check_call(MR_CALL_POSTERIZE, 4, 0, "[\"posterize\",{\"bits\":4}]", "posterize(bits=4)");
    check_call(MR_CALL_SOLARIZE, 128, 0, "[\"solarize\",{\"threshold\":128.0}]",
               "solarize(threshold=128)");
    check_call(MR_CALL_AUTOCONTRAST, 0, 0, "[\"autocontrast\",{}]", "autocontrast");
    check_call(MR_CALL_EQUALIZE, 0, 0, "[\"equalize\",{}]", "equalize");
    check_call(MR_CALL_GRAYSCALE, 3, 0, "[\"rgb_to_grayscale\",{\"num_output_channels\":3}]",
               "rgb_to_grayscale(num_output_channels=3)");
    check_call(MR_CALL_BRIGHTNESS, (double)0.7f, 0,
               "[\"adjust_brightness\",{\"brightness_factor\":0.69999998807907104}]",
               "adjust_brightness(brightness_factor=0.7)");
    check_call(MR_CALL_CONTRAST, 1.5, 0, "[\"adjust_contrast\",{\"contrast_factor\":1.5}]",
               "adjust_contrast(contrast_factor=1.5)");
    check_call(MR_CALL_SATURATION, 0, 0, "[\"adjust_saturation\",{\"saturation_factor\":0.0}]",
               "adjust_saturation(saturation_factor=0)");
    check_call(MR_CALL_HUE, -0.25, 0, "[\"adjust_hue\",{\"hue_factor\":-0.25}]",
               "adjust_hue(hue_factor=-0.25)");
    check_call(MR_CALL_SHARPNESS, 2, 0, "[\"adjust_sharpness\",{\"sharpness_factor\":2.0}]",
               "adjust_sharpness(sharpness_factor=2)");
    check_call(MR_CALL_GAUSSIAN_BLUR, 23, 0.5,
               "[\"gaussian_blur\",{\"kernel_size\":23,\"sigma\":0.5}]",
               "gaussian_blur(kernel_size=23,sigma=0.5)");
    check_call(MR_CALL_PIL_GAUSSIAN_BLUR, 1.25, 0, "[\"PIL.GaussianBlur\",{\"radius\":1.25}]",
               "PIL.GaussianBlur(radius=1.25)");
}

static void every_kind_of_argument_is_written(void **state)
{
    (void)state;
    static const char *const modes[] = {"constant", "reflect", NULL};
    static const struct mr_image_arg keywords[MR_CALL_MAX_NAMED] = {
        {.name = "size", .kind = MR_ARG_SIZE},
        {.name = "method", .kind = MR_ARG_CONSTANT, .value = 2},
        {.name = "data", .n = 2},
        {.name = "resample", .kind = MR_ARG_FILTER},
        {.name = "fillcolor", .kind = MR_ARG_FILL},
        {.name = "center", .kind = MR_ARG_INTEGER, .n = 2, .optional = true},
        {.name = "padding_mode", .kind = MR_ARG_WORD, .words = modes},
    };
    double args[] = {1, -0.5, MR_BICUBIC, 1, 2, 3, NAN, NAN, 1};
    const struct mr_call_text call = {.name = "PIL.transform", .keywords = keywords, .args = args};
    check_text(
        &call, &color,
        "[\"PIL.transform\",{\"size\":[40,30],\"method\":2,\"data\":[1.0,-0.5],\"resample\":3,"
        "\"fillcolor\":[1,2,3],\"padding_mode\":\"reflect\"}]",
        "PIL.transform(size=40:30,method=2,data=1:-0.5,resample=bicubic,fillcolor=1:2:3,padding_"
        "mode=reflect)");
    args[6] = -7, args[7] = 8;
    check_text(
        &call, &gray,
        "[\"PIL.transform\",{\"size\":[40,30],\"method\":2,\"data\":[1.0,-0.5],\"resample\":3,"
        "\"fillcolor\":[1],\"center\":[-7,8],\"padding_mode\":\"reflect\"}]",
        "PIL.transform(size=40:30,method=2,data=1:-0.5,resample=bicubic,fillcolor=1,center=-7:8,"
        "padding_mode=reflect)");
}

static void check_brief(const struct mr_call_text *call, const char *want)
{
    char text[100];
    struct mr_text_writer w;
    mr_text_writer_begin(&w, text, sizeof text);
    mr_call_text_put_brief(&w, call, &color);
    mr_text_writer_end(&w);
    assert_string_equal(text, want);
}

static void brief_calls_have_numbers_and_boxes(void **state)
{
    (void)state;
    static const struct mr_image_arg box[MR_CALL_MAX_NAMED] = {
        {.name = "top", .kind = MR_ARG_INTEGER},
        {.name = "left", .kind = MR_ARG_INTEGER},
        {.name = "height", .kind = MR_ARG_INTEGER},
        {.name = "width", .kind = MR_ARG_INTEGER},
        {.name = "size", .kind = MR_ARG_INTEGER, .n = 2}};
    const double values[] = {1, -2, 80, 90, 224, 224};
    const struct mr_call_text crop = {.name = "resized_crop", .keywords = box, .args = values};
    check_brief(&crop, "resized_crop 90x80-2+1");
    const struct mr_image_call calls[] = {
        {.kind = MR_CALL_EQUALIZE},
        {.kind = MR_CALL_HUE, .args = {-0.25}},
        {.kind = MR_CALL_GAUSSIAN_BLUR, .args = {23, (double)0.7f}},
        {.kind = MR_CALL_ROTATE, .args = {-13.5, MR_BICUBIC, 1, 2, 3, NAN, NAN}},
        {.kind = MR_CALL_ROTATE_EXPAND, .args = {90, MR_NEAREST, 1, 2, 3, NAN, NAN}},
        {.kind = MR_CALL_AFFINE, .args = {0, -3, 4, 1, 0.5, 0, MR_NEAREST, 0, 0, 0, 7, 8}},
        {.kind = MR_CALL_PERSPECTIVE, .args = {1, 0, 0, 0, 1, 0, 0, 0, MR_BILINEAR}},
    };
    static const char *const want[] = {"equalize",     "hue -0.25", "gaussian_blur 23 0.7",
                                       "rotate -13.5", "rotate 90", "affine 0 -3:4 1 0.5:0 7:8",
                                       "PIL.transform"};
    for (uint32_t i = 0; i < sizeof calls / sizeof *calls; i++) {
        const struct mr_call_text text = mr_call_text_of(&calls[i]);
        check_brief(&text, want[i]);
    }
}

static bool is_identity(enum mr_image_call_kind kind, double first, const struct mr_image *image)
{
    const struct mr_image_call call = {.kind = kind, .args = {first}};
    const struct mr_call_text text = mr_call_text_of(&call);
    return mr_call_text_is_identity(&text, image);
}

static void identities_are_known(void **state)
{
    (void)state;
    assert_true(is_identity(MR_CALL_POSTERIZE, 8, &color));
    assert_true(is_identity(MR_CALL_SOLARIZE, 256, &color));
    assert_true(is_identity(MR_CALL_BRIGHTNESS, 1, &color));
    assert_true(is_identity(MR_CALL_CONTRAST, 1, &color));
    assert_true(is_identity(MR_CALL_SATURATION, 1, &color));
    assert_true(is_identity(MR_CALL_SHARPNESS, 1, &color));
    assert_true(is_identity(MR_CALL_PIL_GAUSSIAN_BLUR, 0, &color));
    assert_true(is_identity(MR_CALL_GRAYSCALE, 3, &gray));
    assert_false(is_identity(MR_CALL_GRAYSCALE, 3, &color));
    assert_false(is_identity(MR_CALL_BRIGHTNESS, 1.5, &color));
    assert_false(is_identity(MR_CALL_HUE, 0, &color)); /* HSV and back loses bits */
    assert_false(is_identity(MR_CALL_INVERT, 0, &color));
    assert_false(is_identity(MR_CALL_GAUSSIAN_BLUR, 1, &color));
    struct mr_image_call same = {.kind = MR_CALL_PERSPECTIVE, .args = {1, 0, 0, 0, 1}};
    struct mr_call_text text = mr_call_text_of(&same);
    assert_true(mr_call_text_is_identity(&text, &color));
    same.args[6] = 0.001;
    assert_false(mr_call_text_is_identity(&text, &color));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_have_the_keywords_of_torchvision),
        cmocka_unit_test(every_kind_of_argument_is_written),
        cmocka_unit_test(brief_calls_have_numbers_and_boxes),
        cmocka_unit_test(identities_are_known),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
