/* SPDX-License-Identifier: Apache-2.0 */
/*
 * random_crop and pad with every padding mode, and resize with max_size: draws and bytes are
 * torchvision's
 * (tests/data/make_random_crops.py).
 */
#include "tests/support/assert_words.h"
#include "tests/transforms/reference.h"
#include "transforms/geometry.h"
#include "transforms/plan_runner.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const struct mr_codec_limits limits;

static struct mr_plan make_plan(const char *text, const struct image *image)
{
    struct mr_sample_kind kind = {.picture = 1,
                                  .dtype = MR_U8,
                                  .ndim = 3,
                                  .shape = {image->height, image->width, 3},
                                  .layout = MR_NHWC,
                                  .data_bytes = (uint64_t)(image->width * image->height * 3)};
    struct mr_plan plan;
    mr_transform *transform;
    mr_error error;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    if (mr_plan_compile(transform, &kind, MR_U8, MR_NHWC, &plan, &error) != MR_OK)
        fail_msg("%s: %s", text, error.text);
    mr_transform_destroy(transform);
    return plan;
}

static void check_case(json_t *one)
{
    int64_t seed = json_integer_value(json_array_get(one, 0));
    struct image image = image_synthetic(json_integer_value(json_array_get(one, 1)),
                                         json_integer_value(json_array_get(one, 2)));
    const char *text = json_string_value(json_array_get(one, 3));
    struct mr_plan plan = make_plan(text, &image);
    struct mr_plan_runner *runner;
    struct mr_plan_runner_report report;
    struct mr_mt19937 mt;
    struct mr_rng rng;
    mr_error error;
    uint8_t *out = calloc(1, plan.out_bytes);
    assert_int_equal(mr_plan_runner_create(&plan, &limits, false, &runner, NULL), MR_OK);
    mr_mt19937_init(&mt, (uint64_t)seed);
    mr_rng_init_torch(&rng, &mt);
    for (size_t i = 4; i < json_array_size(one); i++) {
        char crc[9];
        if (mr_plan_runner_run(runner, image.pixels, plan.kind.data_bytes, false, &rng, out,
                               &report, &error) != MR_OK)
            fail_msg("%s: %s", text, error.text);
        snprintf(crc, sizeof crc, "%08x", reference_crc(out, plan.out_bytes));
        if (strcmp(crc, json_string_value(json_array_get(one, i))) != 0)
            fail_msg("%s of %lldx%lld, draw %zu: crc %s instead of %s", text,
                     (long long)image.width, (long long)image.height, i - 4, crc,
                     json_string_value(json_array_get(one, i)));
    }
    mr_plan_runner_destroy(runner);
    free(out);
    image_free(&image);
}

static void padded_images_are_torchvisions(void **state)
{
    (void)state;
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/random_crops.json", 0, &why), *one;
    size_t i;
    assert_non_null(root);
    json_array_foreach(json_object_get(root, "cases"), i, one) check_case(one);
    json_decref(root);
    assert_true(i >= 500);
}

/* On one axis, compared with walking from edge to edge. */
static void places_beyond_an_edge_are_numpys(void **state)
{
    (void)state;
    for (int64_t n = 1; n <= 6; n++)
        for (int64_t i = -30; i < 30; i++) {
            int64_t reflected = i, symmetric = i;
            while (reflected < 0 || reflected >= n)
                reflected = n == 1 ? 0 : reflected < 0 ? -reflected : 2 * (n - 1) - reflected;
            while (symmetric < 0 || symmetric >= n)
                symmetric = symmetric < 0 ? -1 - symmetric : 2 * n - 1 - symmetric;
            bool inside = i >= 0 && i < n;
            assert_int_equal(mr_padding_place(MR_PADDING_REFLECT, n, i), reflected);
            assert_int_equal(mr_padding_place(MR_PADDING_SYMMETRIC, n, i), symmetric);
            assert_int_equal(mr_padding_place(MR_PADDING_EDGE, n, i), inside  ? i
                                                                      : i < 0 ? 0
                                                                              : n - 1);
            assert_int_equal(mr_padding_place(MR_PADDING_CONSTANT, n, i), inside ? i : -1);
        }
    assert_int_equal(mr_padding_place(MR_PADDING_REFLECT, INT32_MAX, -65535), 65535);
}

static struct mr_geometry draw_geometry(const char *text, int64_t width, int64_t height,
                                        uint64_t seed)
{
    struct image image = {.width = width, .height = height};
    struct mr_plan plan = make_plan(text, &image);
    struct mr_geometry g;
    struct mr_rng rng;
    mr_error error;
    mr_rng_init(&rng, seed, 0, 0);
    if (mr_geometry_make(&plan, (uint32_t)width, (uint32_t)height, &rng, &g, &error) != MR_OK)
        fail_msg("%s: %s", text, error.text);
    return g;
}

static void a_crop_takes_no_more_of_the_image_than_it_shows(void **state)
{
    (void)state;
    uint32_t n_inside = 0, n_mirrored = 0;
    for (uint64_t seed = 0; seed < 60; seed++) {
        struct mr_geometry g =
            draw_geometry("random_crop(20,padding=30,padding_mode=reflect)+hflip", 100, 80, seed);
        struct mr_geometry zeros = draw_geometry("random_crop(20,padding=30)+hflip", 100, 80, seed);
        const struct mr_stage *s = &g.stages[0];
        assert_int_equal(g.n_stages, 1);
        /* the same draws */
        assert_memory_equal(&s->window, &zeros.stages[0].window, sizeof s->window);
        assert_int_equal(s->hflip, zeros.stages[0].hflip);
        assert_memory_equal(&g.crop, &zeros.crop, sizeof g.crop);
        assert_true(s->need.x >= 0 && s->need.x + s->need.width <= 100);
        assert_true(s->need.y >= 0 && s->need.y + s->need.height <= 80);
        assert_true(s->need.width >= 10 && s->need.width <= 20);
        assert_true(s->need.height >= 10 && s->need.height <= 20);
        n_inside += !s->is_padded;
        n_mirrored += s->window.x + s->window.width <= 0; /* all of it is outside the image */
    }
    assert_in_range(n_inside, 1, 40);
    assert_in_range(n_mirrored, 1, 40);
}

static void a_constant_of_zero_is_a_window_that_reaches_outside(void **state)
{
    (void)state;
    struct mr_geometry g =
        draw_geometry("random_crop(40,padding=8,fill=0,padding_mode=constant)+hflip", 32, 32, 1);
    assert_int_equal(g.n_stages, 1);
    assert_false(g.stages[0].is_padded);
    assert_true(g.stages[0].live.width <= 32);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(padded_images_are_torchvisions),
        cmocka_unit_test(places_beyond_an_edge_are_numpys),
        cmocka_unit_test(a_crop_takes_no_more_of_the_image_than_it_shows),
        cmocka_unit_test(a_constant_of_zero_is_a_window_that_reaches_outside),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
