/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Resampling is Pillow's, bit for bit: golden checksums, and a slow reference over random stages.
 */
#include "tests/transforms/reference.h"
#include "transforms/resample.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

/* Set the need of a stage as geometry.c finds it. */
static void set_need(struct mr_stage *s)
{
    int64_t left, right, top, bottom;
    mr_axis_span(s->interpolation, s->source.width, s->resized_width, s->live.x, s->live.width,
                 &left, &right);
    mr_axis_span(s->interpolation, s->source.height, s->resized_height, s->live.y, s->live.height,
                 &top, &bottom);
    s->need = (struct mr_box){s->source.x + left, s->source.y + top, right - left, bottom - top};
}

/* Run a stage. Rows are pushed in groups of 1 to 5, from memory that is overwritten afterwards. */
static struct image run_stage(struct mr_resample *resample, const struct mr_stage *stage,
                              const struct image *image, uint64_t *random)
{
    struct image out = image_make(stage->window.width, stage->window.height, image->channels);
    size_t out_len = (size_t)(out.width * out.height * out.channels);
    memset(out.pixels, 0xa5, out_len + 1);
    struct mr_tensor_writer writer = {.kernels = &mr_kernels_c,
                                      .out = out.pixels,
                                      .width = (uint32_t)out.width,
                                      .height = (uint32_t)out.height,
                                      .channels = (uint32_t)out.channels,
                                      .dtype = MR_U8,
                                      .layout = MR_NHWC};
    assert_int_equal(mr_resample_begin(resample, stage, (uint32_t)image->channels, &writer, NULL),
                     MR_OK);
    size_t row_len = (size_t)(stage->need.width * image->channels);
    for (int64_t y = 0; y < stage->need.height;) {
        const uint8_t *rows[5];
        uint8_t *copies[5];
        uint32_t n = 0, most = 1 + (uint32_t)reference_below(random, 5);
        for (; n < most && y < stage->need.height; n++, y++) {
            copies[n] = malloc(row_len);
            memcpy(copies[n],
                   image->pixels +
                       ((stage->need.y + y) * image->width + stage->need.x) * image->channels,
                   row_len);
            rows[n] = copies[n];
        }
        mr_resample_push(resample, rows, n);
        for (uint32_t i = 0; i < n; i++)
            free(copies[i]);
    }
    assert_int_equal(out.pixels[out_len], 0xa5);
    return out;
}

static int64_t json_field(json_t *object, const char *name)
{
    return json_integer_value(json_object_get(object, name));
}

static uint32_t crc_field(json_t *object, const char *name)
{
    return (uint32_t)strtoul(json_string_value(json_object_get(object, name)), NULL, 16);
}

static void golden_resizes_hold(void **state)
{
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/resize_bilinear.json", 0, &why);
    assert_non_null(root);
    struct mr_resample resample = {.kernels = *state};
    uint64_t random = 1;
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(root, "cases"), i, one)
    {
        json_t *box = json_object_get(one, "box_left_top_right_bottom");
        int64_t edge[4];
        for (size_t k = 0; k < 4; k++)
            edge[k] = json_integer_value(json_array_get(box, k));
        struct mr_stage stage = {.source = {edge[0], edge[1], edge[2] - edge[0], edge[3] - edge[1]},
                                 .resized_width = json_field(one, "out_w"),
                                 .resized_height = json_field(one, "out_h")};
        stage.window = stage.live =
            (struct mr_box){0, 0, stage.resized_width, stage.resized_height};
        set_need(&stage);
        struct image image = image_synthetic(json_field(one, "in_w"), json_field(one, "in_h"));
        struct image out = run_stage(&resample, &stage, &image, &random);
        uint32_t crc = reference_crc(out.pixels, (size_t)(3 * out.width * out.height));
        if (crc != crc_field(one, "crc32_rgb_hwc"))
            fail_msg("case %zu: %08x", i, crc);
        image_free(&image);
        image_free(&out);
    }
    assert_int_equal(i, 84);
    mr_resample_fini(&resample);
    json_decref(root);
}

static void golden_center_crops_hold(void **state)
{
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/resize_center_crop.json", 0, &why);
    assert_non_null(root);
    struct mr_resample resample = {.kernels = *state};
    uint64_t random = 1;
    size_t i;
    json_t *one;
    json_array_foreach(json_object_get(root, "cases"), i, one)
    {
        struct mr_plan plan = {.n_ops = 2,
                               .ops = {{.kind = MR_OP_RESIZE_SHORT, .height = 232, .width = 232},
                                       {.kind = MR_OP_CENTER_CROP, .height = 224, .width = 224}}};
        struct image image = image_synthetic(json_field(one, "in_w"), json_field(one, "in_h"));
        for (plan.n_ops = 1; plan.n_ops <= 2; plan.n_ops++) {
            struct mr_geometry g;
            struct mr_rng rng;
            mr_rng_init(&rng, 0, 0, 0);
            assert_int_equal(mr_geometry_make(&plan, (uint32_t)image.width, (uint32_t)image.height,
                                              &rng, &g, NULL),
                             MR_OK);
            assert_int_equal(g.n_stages, 1);
            assert_int_equal(g.stages[0].resized_width, json_field(one, "resized_w"));
            assert_int_equal(g.stages[0].resized_height, json_field(one, "resized_h"));
            struct image out = run_stage(&resample, &g.stages[0], &image, &random);
            assert_int_equal(
                reference_crc(out.pixels, (size_t)(3 * out.width * out.height)),
                crc_field(one, plan.n_ops == 1 ? "crc32_resized" : "crc32_center_crop_224"));
            image_free(&out);
        }
        image_free(&image);
    }
    assert_true(i >= 6);
    mr_resample_fini(&resample);
    json_decref(root);
}

static uint32_t hash_resize(struct mr_resample *resample, const struct mr_stage *stage,
                            struct image image)
{
    uint64_t random = 1;
    struct image out = run_stage(resample, stage, &image, &random);
    uint32_t crc = reference_crc(out.pixels, (size_t)(3 * out.width * out.height));
    image_free(&image);
    image_free(&out);
    return crc;
}

/* Rows of [in_w, in_h, out_w, out_h, crc of the synthetic image, crc of noise], for each filter. */
static void golden_filters_hold(void **state)
{
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/resize_filters.json", 0, &why), *rows, *row;
    assert_non_null(root);
    struct mr_resample resample = {.kernels = *state};
    for (int f = 0; f < MR_N_FILTERS; f++) {
        size_t i, n = 0;
        json_array_foreach((rows = json_object_get(json_object_get(root, "filters"),
                                                   mr_transform_interpolations[f])),
                           i, row)
        {
            int64_t size[4];
            for (size_t k = 0; k < 4; k++)
                size[k] = json_integer_value(json_array_get(row, k));
            struct mr_stage stage = {.source = {0, 0, size[0], size[1]},
                                     .resized_width = size[2],
                                     .resized_height = size[3],
                                     .interpolation = (enum mr_interpolation)f,
                                     .window = {0, 0, size[2], size[3]},
                                     .live = {0, 0, size[2], size[3]}};
            set_need(&stage);
            struct image noise = image_make(size[0], size[1], 3);
            image_fill(&noise, 0);
            struct image images[2] = {image_synthetic(size[0], size[1]), noise};
            for (size_t k = 0; k < 2; k++, n++) {
                uint32_t want =
                    (uint32_t)strtoul(json_string_value(json_array_get(row, 4 + k)), NULL, 16);
                uint32_t crc = hash_resize(&resample, &stage, images[k]);
                if (crc != want)
                    fail_msg("%s, %lldx%lld to %lldx%lld, image %zu: %08x, Pillow has %08x",
                             mr_transform_interpolations[f], (long long)size[0], (long long)size[1],
                             (long long)size[2], (long long)size[3], k, crc, want);
            }
        }
        assert_true(n >= 100);
    }
    mr_resample_fini(&resample);
    json_decref(root);
}

static int64_t pick_size(uint64_t *random)
{
    switch (reference_below(random, 4)) {
    case 0: return 1 + (int64_t)reference_below(random, 4);
    case 1: return 1 + (int64_t)reference_below(random, 300);
    default: return 1 + (int64_t)reference_below(random, 70);
    }
}

/* A box inside 0..size, on one axis. */
static void pick_part(uint64_t *random, int64_t size, int64_t *start, int64_t *length)
{
    *length = 1 + (int64_t)reference_below(random, (uint64_t)size);
    *start = (int64_t)reference_below(random, (uint64_t)(size - *length + 1));
}

static struct mr_stage pick_stage(uint64_t *random, int64_t width, int64_t height)
{
    struct mr_stage s = {.hflip = reference_below(random, 2), .vflip = reference_below(random, 2)};
    if (reference_below(random, 3))
        s.interpolation = (enum mr_interpolation)reference_below(random, MR_N_FILTERS);
    pick_part(random, width, &s.source.x, &s.source.width);
    pick_part(random, height, &s.source.y, &s.source.height);
    s.resized_width = reference_below(random, 4) ? pick_size(random) : s.source.width;
    s.resized_height = reference_below(random, 4) ? pick_size(random) : s.source.height;
    s.live = (struct mr_box){0, 0, s.resized_width, s.resized_height};
    s.window = s.live;
    if (reference_below(random, 2)) {
        pick_part(random, s.resized_width, &s.live.x, &s.live.width);
        pick_part(random, s.resized_height, &s.live.y, &s.live.height);
        int64_t left = (int64_t)reference_below(random, 4),
                top = (int64_t)reference_below(random, 4);
        s.window = (struct mr_box){s.live.x - left, s.live.y - top,
                                   s.live.width + left + (int64_t)reference_below(random, 4),
                                   s.live.height + top + (int64_t)reference_below(random, 4)};
    }
    set_need(&s);
    return s;
}

/* Run the stage on whole images: crop, resize, cut the live part, pad, flip. */
static struct image slow_stage(const struct mr_stage *s, const struct image *image)
{
    struct image out = image_make(image->width, image->height, image->channels);
    memcpy(out.pixels, image->pixels, (size_t)(image->width * image->height * image->channels));
    reference_crop(&out, s->source.x, s->source.y, s->source.width, s->source.height);
    reference_resize(&out, s->resized_width, s->resized_height, s->interpolation);
    reference_crop(&out, s->live.x, s->live.y, s->live.width, s->live.height);
    reference_crop(&out, s->window.x - s->live.x, s->window.y - s->live.y, s->window.width,
                   s->window.height);
    if (s->hflip)
        reference_hflip(&out);
    if (s->vflip)
        reference_vflip(&out);
    return out;
}

static void random_stages_equal_the_slow_reference(void **state)
{
    uint64_t random = reference_seed();
    struct mr_resample resample = {.kernels = *state};
    for (int i = 0; i < 700; i++) {
        struct image image =
            image_make(pick_size(&random), pick_size(&random), reference_below(&random, 3) ? 3 : 1);
        image_fill(&image, reference_random(&random));
        struct mr_stage stage = pick_stage(&random, image.width, image.height);
        struct image fast = run_stage(&resample, &stage, &image, &random);
        struct image slow = slow_stage(&stage, &image);
        if (!image_equal(&fast, &slow))
            fail_msg("case %d: interpolation %d, source %lldx%lld to %lldx%lld, %d channels, flips "
                     "%d %d",
                     i, stage.interpolation, (long long)stage.source.width,
                     (long long)stage.source.height, (long long)stage.resized_width,
                     (long long)stage.resized_height, image.channels, stage.hflip, stage.vflip);
        image_free(&image);
        image_free(&fast);
        image_free(&slow);
    }
    mr_resample_fini(&resample);
}

static void very_many_taps_do_not_overflow(void **state)
{
    struct mr_resample resample = {.kernels = *state};
    uint64_t random = 7;
    for (int i = 0; i < 2 * MR_N_FILTERS; i++) {
        bool upright = i % 2;
        struct image image = upright ? image_make(2, 60000, 3) : image_make(60000, 2, 3);
        memset(image.pixels, 255, 2 * 60000 * 3);
        struct mr_stage stage = {.source = {0, 0, image.width, image.height},
                                 .resized_width = 1,
                                 .resized_height = 1,
                                 .interpolation = (enum mr_interpolation)(i / 2),
                                 .window = {0, 0, 1, 1},
                                 .live = {0, 0, 1, 1}};
        set_need(&stage);
        struct image fast = run_stage(&resample, &stage, &image, &random);
        struct image slow = slow_stage(&stage, &image);
        assert_true(image_equal(&fast, &slow));
        image_free(&image);
        image_free(&fast);
        image_free(&slow);
    }
    mr_resample_fini(&resample);
}

/* Run all tests with the set of loops, or print that this machine lacks it. */
static int test_set(enum mr_cpu cpu)
{
    const struct mr_kernel_ops *kernels = mr_kernels_find(cpu);
    void *state = (void *)(uintptr_t)kernels;
    struct CMUnitTest tests[] = {
        cmocka_unit_test_prestate(golden_resizes_hold, state),
        cmocka_unit_test_prestate(golden_center_crops_hold, state),
        cmocka_unit_test_prestate(golden_filters_hold, state),
        cmocka_unit_test_prestate(random_stages_equal_the_slow_reference, state),
        cmocka_unit_test_prestate(very_many_taps_do_not_overflow, state),
    };
    if (!kernels) {
        print_message("skipped: this machine has no %s\n", mr_cpu_name(cpu));
        return 0;
    }
    return cmocka_run_group_tests_name(mr_cpu_name(cpu), tests, NULL, NULL);
}

int main(void)
{
    int n_failed = 0;
    for (enum mr_cpu cpu = MR_CPU_C; cpu < MR_CPU_N; cpu++)
        n_failed += test_set(cpu);
    return n_failed;
}
