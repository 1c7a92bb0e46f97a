/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line that explains a sample: its form, its calls in their order, and that they are the
 * sample's own draws.
 */
#include "tests/support/assert_words.h"
#include "transforms/geometry.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/plan_compile.h"

#include <jansson.h>
#include <locale.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { WIDTH = 500, HEIGHT = 375 };

struct wish {
    const char *text; /* NULL: the loader's default */
    uint64_t epoch;
    int64_t index;
    uint32_t occurrence;
    uint32_t width;
    uint32_t height;
};

/* others  NULL, or the options that a wish has not */
static mr_status explain(const struct wish *wish, const mr_explain_options *others,
                         char text_out[8192], mr_error *error)
{
    mr_transform *transform = NULL;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    size_t len = 0;
    if (others)
        options = *others;
    options.seed = 7;
    options.epoch = wish->epoch;
    options.index = wish->index;
    options.occurrence = wish->occurrence;
    options.width = wish->width;
    options.height = wish->height;
    if (wish->text && mr_transform_parse(wish->text, &transform, error) != MR_OK)
        fail_msg("%s", error->text);
    mr_status status = mr_transform_explain(transform, &options, text_out, 8192, &len, error);
    if (status == MR_OK)
        assert_int_equal(len, strlen(text_out));
    mr_transform_destroy(transform);
    return status;
}

static void expect_line(const struct wish *wish, const mr_explain_options *options,
                        const char *want)
{
    char text[8192];
    mr_error error;
    assert_ok(explain(wish, options, text, &error), &error);
    assert_string_equal(text, want);
}

/* Of index 3 in epoch 1, 40 x 30 pixels. */
static void expect_calls(const char *transform, const mr_explain_options *options, const char *want)
{
    const struct wish wish = {.text = transform, .epoch = 1, .index = 3, .width = 40, .height = 30};
    char line[8192];
    snprintf(
        line, sizeof line,
        "{\"index\":3,\"epoch\":1,\"occurrence\":0,\"name\":null,\"size\":[40,30],\"calls\":[%s]}",
        want);
    expect_line(&wish, options, line);
}

static void calls_come_in_the_order_of_the_list(void **state)
{
    (void)state;
    expect_calls("none", NULL, "");
    expect_calls("vflip(1)+resize(20:10)+hflip(1)+invert(1)", NULL,
                 "[\"vflip\",{}],[\"resize\",{\"size\":[20,10],\"interpolation\":2}],[\"hflip\",{}]"
                 ",[\"invert\",{}]");
    expect_calls("resize(15,interp=lanczos)+center_crop(10)", NULL,
                 "[\"resize\",{\"size\":[15,20],\"interpolation\":1}],[\"center_crop\",{\"output_"
                 "size\":[10,10]}]");
    expect_calls("resize(60,interp=nearest)+center_crop(100:90)+normalize(mean=0.5,std=0.5)", NULL,
                 "[\"resize\",{\"size\":[60,80],\"interpolation\":0}],[\"center_crop\",{\"output_"
                 "size\":[100,90]}]");
    expect_calls("random_crop(34:44,padding=2)+hflip(1)", NULL,
                 "[\"pad\",{\"padding\":[2,2,2,2]}],[\"hflip\",{}]");
    expect_calls("random_crop(34:44,padding=2,padding_mode=reflect)", NULL,
                 "[\"pad\",{\"padding\":[2,2,2,2],\"fill\":[0,0,0],\"padding_mode\":\"reflect\"}]");
    expect_calls("grayscale+random_crop(34:44,padding=2,fill=9)", NULL,
                 "[\"rgb_to_grayscale\",{\"num_output_channels\":1}],"
                 "[\"pad\",{\"padding\":[2,2,2,2],\"fill\":[9],\"padding_mode\":\"constant\"}]");
    expect_calls("random_crop(30:40,padding=0)+posterize(3,p=1)", NULL,
                 "[\"posterize\",{\"bits\":3}]");
    expect_calls("random_apply(invert(1)+random_choice(equalize(1),equalize(1)),1)+hflip(1)", NULL,
                 "[\"invert\",{}],[\"equalize\",{}],[\"hflip\",{}]");
}

static void calls_that_change_nothing_are_left_out(void **state)
{
    (void)state;
    expect_calls("hflip(0)+invert(0)+posterize(8,p=1)+color_jitter(brightness=1:1)", NULL, "");
    expect_calls("resize(30)+center_crop(30:40)+resize(30:40)", NULL, "");
    expect_calls("random_resized_crop(30:40,scale=1:1,ratio=1.3333333333333333:1.3333333333333333)",
                 NULL, "");
    expect_calls("adjust_sharpness(1,p=1)", NULL, "");
}

static void exif_comes_first_and_turns_the_image(void **state)
{
    (void)state;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    options.orientation = 6;
    expect_calls("exif+resize(15)", &options,
                 "[\"PIL.exif_transpose\",{}],[\"resize\",{\"size\":[20,15],\"interpolation\":2}]");
    expect_calls("resize(15)", &options, "[\"resize\",{\"size\":[15,20],\"interpolation\":2}]");
    options.orientation = 3;
    expect_calls("exif+resize(15)", &options,
                 "[\"PIL.exif_transpose\",{}],[\"resize\",{\"size\":[15,20],\"interpolation\":2}]");
    options.orientation = 1;
    expect_calls("exif", &options, "");
}

static void a_raw_picture_of_one_channel_stays_gray_until_the_end(void **state)
{
    (void)state;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    options.raw_channels = 1;
    options.orientation = 6;
    expect_calls("exif+hflip(1)", &options, "[\"hflip\",{}]");
    expect_calls("rgb+hflip(1)", &options, "[\"hflip\",{}],[\"PIL.convert\",{\"mode\":\"RGB\"}]");
    expect_calls("random_grayscale(1)", &options, "");
    options.raw_channels = 3;
    expect_calls("rgb+hflip(1)", &options, "[\"hflip\",{}]");
    expect_calls(
        "grayscale+rgb", &options,
        "[\"rgb_to_grayscale\",{\"num_output_channels\":1}],[\"PIL.convert\",{\"mode\":\"RGB\"}]");
    expect_calls("random_grayscale(1)", &options,
                 "[\"rgb_to_grayscale\",{\"num_output_channels\":3}]");
}

static void a_hole_has_no_calls(void **state)
{
    (void)state;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    options.hole = true;
    options.name = "n01/\"a\".jpg";
    expect_line(
        &(struct wish){.text = "hflip", .epoch = 2, .index = 9}, &options,
        "{\"index\":9,\"epoch\":2,\"occurrence\":0,\"name\":\"n01/\\\"a\\\".jpg\",\"size\":null,"
        "\"calls\":null}");
}

/* One call in JSON; words have a mixture's parts one after the other. */
static void a_mixture_has_its_weights_and_chains(void **state)
{
    (void)state;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    const char text[] = "hflip(1)+augmix_v2(10,2,2)+invert(1)";
    const struct wish wish = {.text = text, .index = 1, .width = 8, .height = 8};
    options.form = MR_EXPLAIN_BRIEF;
    expect_line(&wish, &options,
                "hflip, augmix 0.5824, chain 0.05077, tensor.affine 0 -1:0 1 0:0, posterize 4, "
                "chain 0.3669, tensor.adjust_saturation 0.1, tensor.autocontrast, sum, invert");
    options.form = MR_EXPLAIN_JSON;
    expect_line(&wish, &options,
                "{\"index\":1,\"epoch\":0,\"occurrence\":0,\"name\":null,\"size\":[8,8],\"calls\":["
                "[\"hflip\",{}],"
                "[\"v2.augmix\",{\"weight\":0.58236187696456909,\"chains\":["
                "[0.050769373774528503,[[\"tensor.affine\",{\"angle\":0.0,\"translate\":[-1,0],"
                "\"scale\":1.0,\"shear\":[0.0,0.0],\"interpolation\":2}],"
                "[\"posterize\",{\"bits\":4}]]],"
                "[0.3668687641620636,[[\"tensor.adjust_saturation\",{\"saturation_factor\":0."
                "10000002384185791}],"
                "[\"tensor.autocontrast\",{}]]]]}],"
                "[\"invert\",{}]]}");
}

/* A sample's words have its calls alone. */
static void words_have_the_calls_alone(void **state)
{
    (void)state;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    const struct wish wish = {.text = "hflip(1)+posterize(4,p=1)", .width = 8, .height = 8};
    options.form = MR_EXPLAIN_WORDS;
    options.name = "x";
    expect_line(&wish, &options, "hflip, posterize(bits=4)");
    options.form = MR_EXPLAIN_BRIEF;
    expect_line(&wish, &options, "hflip, posterize 4");
    expect_line(&(struct wish){.text = "center_crop(4)+random_crop(2)", .width = 8, .height = 8},
                &options, "center_crop 4:4, crop 2x2+2+0");
    expect_line(&(struct wish){.text = "none", .width = 8, .height = 8}, &options, "");
}

static const char recipe[] =
    "random_resized_crop(22:21,interp=random)+random_crop(20,padding=3)+hflip+"
    "color_jitter(0.4,0.4,0.4,0.1)+vflip+random_resized_crop(8)";

static int64_t integer_at(const json_t *object, const char *key)
{
    const json_t *value = json_object_get(object, key);
    assert_true(json_is_integer(value));
    return json_integer_value(value);
}

/* The sample's own stages and calls against what its line says. */
static void check_draws(const struct mr_plan *plan, const struct wish *wish, struct mr_geometry *g)
{
    char text[8192];
    mr_error error;
    struct mr_rng rng;
    json_error_t why;
    mr_rng_init(&rng, 7, wish->epoch, (uint64_t)wish->index);
    mr_rng_set_occurrence(&rng, wish->occurrence);
    assert_int_equal(mr_geometry_make(plan, wish->width, wish->height, &rng, g, &error), MR_OK);
    assert_int_equal(explain(wish, NULL, text, &error), MR_OK);
    json_t *line = json_loads(text, 0, &why);
    const json_t *calls = json_object_get(line, "calls"), *first = json_array_get(calls, 0);
    const json_t *args = json_array_get(first, 1);
    assert_string_equal(json_string_value(json_array_get(first, 0)), "resized_crop");
    assert_int_equal(integer_at(args, "left"), g->crop.x);
    assert_int_equal(integer_at(args, "top"), g->crop.y);
    assert_int_equal(integer_at(args, "width"), g->crop.width);
    assert_int_equal(integer_at(args, "height"), g->crop.height);
    assert_int_equal(integer_at(args, "interpolation"),
                     g->stages[0].interpolation == MR_BICUBIC ? 3 : 2);
    uint32_t n = 0;
    for (size_t i = 0; i < json_array_size(calls); i++) {
        const json_t *call = json_array_get(calls, i);
        if (strncmp(json_string_value(json_array_get(call, 0)), "adjust_", 7) != 0)
            continue;
        const struct mr_image_call *drawn = &g->calls.calls[n++];
        assert_string_equal(json_string_value(json_array_get(call, 0)),
                            mr_image_call_ops[drawn->kind].name);
        const json_t *factor = json_object_iter_value(json_object_iter(json_array_get(call, 1)));
        assert_true(json_real_value(factor) == drawn->args[0]);
    }
    assert_int_equal(n, g->calls.n);
    json_decref(line);
}

static void the_line_has_the_draws_of_the_sample(void **state)
{
    (void)state;
    static const struct mr_sample_kind files = {.encoded = 1, .picture = 1};
    struct mr_plan plan;
    mr_transform *transform;
    mr_error error;
    struct mr_geometry *g = malloc(sizeof *g);
    assert_non_null(g);
    assert_int_equal(mr_transform_parse(recipe, &transform, &error), MR_OK);
    assert_int_equal(mr_plan_compile(transform, &files, MR_U8, MR_NCHW, &plan, &error), MR_OK);
    mr_transform_destroy(transform);
    for (int64_t i = 0; i < 100; i++)
        check_draws(&plan,
                    &(struct wish){.text = recipe,
                                   .epoch = (uint64_t)i % 3,
                                   .index = i,
                                   .occurrence = (uint32_t)i % 2,
                                   .width = WIDTH,
                                   .height = HEIGHT},
                    g);
    free(g);
}

static void another_occurrence_is_another_sample(void **state)
{
    (void)state;
    char first[8192], second[8192];
    mr_error error;
    struct wish wish = {.text = NULL, .index = 5, .width = WIDTH, .height = HEIGHT};
    assert_int_equal(explain(&wish, NULL, first, &error), MR_OK);
    wish.occurrence = 1;
    assert_int_equal(explain(&wish, NULL, second, &error), MR_OK);
    assert_words(first, "\"occurrence\":0");
    assert_words(second, "\"occurrence\":1");
    assert_string_not_equal(strstr(first, "\"calls\""), strstr(second, "\"calls\""));
}

static void what_cannot_be_explained_is_refused(void **state)
{
    (void)state;
    char text[8192] = "before";
    mr_error error;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    struct wish wish = {.text = "random_crop(100)", .width = 40, .height = 30};
    assert_int_equal(explain(&wish, NULL, text, &error), MR_ERR_DAMAGED);
    assert_string_equal(error.text, "crop 100x100 is larger than the image 40x30 with padding 0");
    wish.text = "hflip", wish.width = 0;
    assert_int_equal(explain(&wish, NULL, text, &error), MR_ERR_DAMAGED);
    wish.width = 40;
    options.orientation = 9;
    assert_int_equal(explain(&wish, &options, text, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "orientation 9 is above 8");
    options.orientation = 0;
    options.raw_channels = 2;
    assert_int_equal(explain(&wish, &options, text, &error), MR_ERR_INVALID);
    options.raw_channels = 0;
    options.form = 3;
    assert_int_equal(explain(&wish, &options, text, &error), MR_ERR_INVALID);
    options.form = MR_EXPLAIN_JSON;
    options.reserved[1] = 1;
    assert_int_equal(explain(&wish, &options, text, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "reserved of the mr_explain_options is not 0");
    assert_int_equal(mr_transform_explain(NULL, NULL, NULL, 0, NULL, &error), MR_ERR_INVALID);
    assert_string_equal(error.text, "options is NULL");
    options = (mr_explain_options){0};
    assert_int_equal(explain(&wish, &options, text, &error), MR_ERR_INVALID);
    assert_string_equal(text, "before");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(calls_come_in_the_order_of_the_list),
        cmocka_unit_test(calls_that_change_nothing_are_left_out),
        cmocka_unit_test(exif_comes_first_and_turns_the_image),
        cmocka_unit_test(a_raw_picture_of_one_channel_stays_gray_until_the_end),
        cmocka_unit_test(a_hole_has_no_calls),
        cmocka_unit_test(words_have_the_calls_alone),
        cmocka_unit_test(a_mixture_has_its_weights_and_chains),
        cmocka_unit_test(the_line_has_the_draws_of_the_sample),
        cmocka_unit_test(another_occurrence_is_another_sample),
        cmocka_unit_test(what_cannot_be_explained_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
