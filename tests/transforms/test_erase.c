/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Random erasing: the boxes are torchvision's, their content is as asked for, and the texts say
 * what happens.
 */
#include "base/half.h"
#include "base/normal.h"
#include "tests/support/assert_words.h"
#include "transforms/erase.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { HEIGHT = 9, WIDTH = 7, CHANNELS = 3, N_ELEMENTS = HEIGHT * WIDTH * CHANNELS, TEXT = 512 };

static mr_transform *parse(const char *text)
{
    mr_transform *transform;
    mr_error error;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    return transform;
}

static void refuse_text(const char *text, const char *words)
{
    mr_transform *transform;
    mr_error error;
    assert_error(mr_transform_parse(text, &transform, &error), MR_ERR_INVALID, &error, words);
}

static mr_status compile(const char *text, mr_dtype dtype, mr_layout layout, struct mr_plan *plan,
                         mr_error *error)
{
    const struct mr_sample_kind kind = {.picture = 1,
                                        .dtype = MR_U8,
                                        .ndim = 3,
                                        .layout = MR_NHWC,
                                        .shape = {HEIGHT, WIDTH, CHANNELS},
                                        .data_bytes = N_ELEMENTS};
    mr_transform *transform = parse(text);
    mr_status status = mr_plan_compile(transform, &kind, dtype, layout, plan, error);
    mr_transform_destroy(transform);
    return status;
}

static struct mr_plan *make_plan(const char *text, mr_dtype dtype, mr_layout layout)
{
    struct mr_plan *plan = malloc(sizeof *plan);
    mr_error error;
    assert_non_null(plan);
    assert_ok(compile(text, dtype, layout, plan, &error), &error);
    return plan;
}

static double read_number(const json_t *row, const char *name, size_t i)
{
    const json_t *value = json_object_get(row, name);
    return json_number_value(json_is_array(value) ? json_array_get(value, i) : value);
}

static void check_case(size_t number, const json_t *row)
{
    char text[TEXT];
    struct mr_mt19937 mt;
    struct mr_rng rng;
    snprintf(text, sizeof text, "random_erasing(%.17g,%.17g:%.17g,%.17g:%.17g)",
             read_number(row, "p", 0), read_number(row, "scale", 0), read_number(row, "scale", 1),
             read_number(row, "ratio", 0), read_number(row, "ratio", 1));
    struct mr_plan *plan = make_plan(text, MR_F32, MR_NCHW);
    mr_mt19937_init(&mt, (uint64_t)read_number(row, "seed", 0));
    mr_rng_init_torch(&rng, &mt);
    const json_t *boxes = json_object_get(row, "boxes");
    for (size_t i = 0; i < json_array_size(boxes); i++) {
        const json_t *box = json_array_get(boxes, i);
        struct mr_erase erase;
        mr_erase_draw(plan, (uint32_t)read_number(row, "width", 0),
                      (uint32_t)read_number(row, "height", 0), &rng, &erase);
        if (erase.n != (json_is_array(box) ? 1u : 0u))
            fail_msg("case %zu, image %zu: %u boxes", number, i, erase.n);
        const int32_t got[4] = {erase.boxes[0].i, erase.boxes[0].j, erase.boxes[0].h,
                                erase.boxes[0].w};
        for (size_t k = 0; erase.n && k < 4; k++)
            if (got[k] != json_integer_value(json_array_get(box, k)))
                fail_msg("case %zu, image %zu: number %zu of the box is %d", number, i, k, got[k]);
    }
    free(plan);
}

static void boxes_are_torchvisions(void **state)
{
    (void)state;
    json_error_t where;
    json_t *file = json_load_file(MR_TEST_DATA "/erasing.json", 0, &where);
    if (!file)
        fail_msg("%s: %s", where.source, where.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_int_equal(json_array_size(cases), 100);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(i, json_array_get(cases, i));
    json_decref(file);
}

static void normal_numbers_have_the_quantiles(void **state)
{
    (void)state;
    static const struct {
        uint32_t word;
        double value;
    } known[] = {{0x7fffffff, 0.0},        {0x40000000, 0.67448975},  {0x10000000, 1.53412054},
                 {0x00100000, 3.4871041},  {0xc0000000, -0.67448975}, {0, 5.41998317},
                 {0x80000000, -5.41998317}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fabs((double)mr_normal_of(mr_normal_nodes, known[i].word) - known[i].value) > 1e-4)
            fail_msg("0x%08x gives %g, not %g", known[i].word,
                     (double)mr_normal_of(mr_normal_nodes, known[i].word), known[i].value);
    double sum = 0, squares = 0, before = INFINITY;
    enum { STEP = 4099 };
    uint64_t n = 0;
    for (uint64_t tail = 0; tail < UINT64_C(1) << 31; tail += STEP, n++) {
        double value = (double)mr_normal_of(mr_normal_nodes, (uint32_t)tail);
        assert_true(value <= before);
        assert_true((double)mr_normal_of(mr_normal_nodes, (uint32_t)tail | 0x80000000u) == -value);
        before = value;
        sum += value;
        squares += value * value;
    }
    assert_true(fabs(sum / (double)n - sqrt(2 / M_PI)) < 1e-4); /* of the upper half */
    assert_true(fabs(squares / (double)n - 1) < 1e-3);
}

static float get_element(const struct mr_plan *plan, const void *tensor, int y, int x, int c)
{
    size_t at = plan->layout == MR_NCHW ? (size_t)(c * HEIGHT + y) * WIDTH + (size_t)x
                                        : (size_t)(y * WIDTH + x) * CHANNELS + (size_t)c;
    if (plan->dtype == MR_F32)
        return ((const float *)tensor)[at];
    uint16_t bits = ((const uint16_t *)tensor)[at];
    uint32_t wide = (uint32_t)bits << 16; /* of bf16 */
    float value;
    memcpy(&value, &wide, sizeof value);
    return plan->dtype == MR_BF16 ? value : (float)bits;
}

static float convert_value(const struct mr_plan *plan, float value)
{
    uint32_t wide = (uint32_t)mr_half_bf16(value) << 16;
    float narrow;
    memcpy(&narrow, &wide, sizeof narrow);
    if (plan->dtype == MR_F32)
        return value;
    return plan->dtype == MR_BF16 ? narrow : (float)mr_half_f16(value);
}

static void check_tensor(const char *value, mr_dtype dtype, mr_layout layout)
{
    char text[TEXT];
    snprintf(text, sizeof text, "random_erasing(1,0.1:0.4,value=%s)", value);
    struct mr_plan *plan = make_plan(text, dtype, layout);
    struct mr_rng rng;
    struct mr_erase erase;
    float whole[N_ELEMENTS] = {0};
    mr_rng_init(&rng, 3, 1, 4);
    mr_erase_draw(plan, WIDTH, HEIGHT, &rng, &erase);
    assert_int_equal(erase.n, 1);
    mr_erase_run(plan, &erase, whole);
    struct mr_rng normals = rng;
    mr_rng_init_place(&normals, &rng, plan->n_ops + 2);
    for (int c = 0; c < CHANNELS; c++) {
        const float constants[3] = {0.5f, -2.0f, 3.0f};
        float one = plan->erase.erase_mode == MR_ERASE_RAND
                        ? mr_normal_of(mr_normal_nodes, mr_rng_u32(&normals))
                        : constants[c];
        for (int y = 0; y < HEIGHT; y++)
            for (int x = 0; x < WIDTH; x++) {
                const struct mr_erase_box *box = &erase.boxes[0];
                bool inside =
                    y >= box->i && y < box->i + box->h && x >= box->j && x < box->j + box->w;
                bool is_drawn = inside && plan->erase.erase_mode == MR_ERASE_RANDOM;
                float want = is_drawn ? mr_normal_of(mr_normal_nodes, mr_rng_u32(&normals))
                             : inside ? one
                                      : 0.0f;
                assert_true(get_element(plan, whole, y, x, c) == convert_value(plan, want));
            }
    }
    free(plan);
}

static void boxes_are_filled_and_nothing_else(void **state)
{
    (void)state;
    static const char *const values[] = {"0.5:-2:3", "random", "rand"};
    for (size_t v = 0; v < sizeof values / sizeof *values; v++)
        for (int layout = MR_NCHW; layout <= MR_NHWC; layout++) {
            check_tensor(values[v], MR_F32, (mr_layout)layout);
            check_tensor(values[v], MR_F16, (mr_layout)layout);
            check_tensor(values[v], MR_BF16, (mr_layout)layout);
        }
}

static void a_count_is_the_most_boxes(void **state)
{
    (void)state;
    struct mr_plan *plan = make_plan("random_erasing(1,0.02:0.3,count=4)", MR_F32, MR_NCHW);
    unsigned n_of[MR_ERASE_MAX_BOXES + 1] = {0};
    for (uint64_t index = 0; index < 4000; index++) {
        struct mr_rng rng;
        struct mr_erase erase;
        mr_rng_init(&rng, 1, 0, index);
        mr_erase_draw(plan, 224, 224, &rng, &erase);
        n_of[erase.n]++;
        for (uint32_t k = 0; k < erase.n; k++)
            assert_true(erase.boxes[k].i >= 0 && erase.boxes[k].i + erase.boxes[k].h <= 224 &&
                        erase.boxes[k].j >= 0 && erase.boxes[k].j + erase.boxes[k].w <= 224);
    }
    for (int n = 1; n <= MR_ERASE_MAX_BOXES; n++)
        assert_in_range(n_of[n], 850, 1150);
    free(plan);
}

static void its_text_parses_back(void **state)
{
    (void)state;
    static const char *const texts[][2] = {
        {"random_erasing", "random_erasing(0.5,scale=0.02:0.33,ratio=0.3:3.3,value=0)"},
        {"random_erasing(0.1,value=random,count=3)",
         "random_erasing(0.1,scale=0.02:0.33,ratio=0.3:3.3,value=random,count=3)"},
        {"random_erasing:0.25", "random_erasing(0.25,scale=0.02:0.33,ratio=0.3:3.3,value=0)"},
        {"random_erasing(1,0.1:0.2,1:1,0.5:0:-1)",
         "random_erasing(1,scale=0.1:0.2,ratio=1:1,value=0.5:0:-1)"},
        {"random_erasing(0.1,random,0.1:0.2)",
         "random_erasing(0.1,scale=0.1:0.2,ratio=0.3:3.3,value=random)"},
        {"random_erasing(1,0:1,1:1,RAND,2)",
         "random_erasing(1,scale=0:1,ratio=1:1,value=rand,count=2)"},
        {"random_erasing(value=rand)",
         "random_erasing(0.5,scale=0.02:0.33,ratio=0.3:3.3,value=rand)"},
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        char text[TEXT];
        mr_transform *transform = parse(texts[i][0]);
        mr_transform_format(transform, text, sizeof text);
        assert_string_equal(text, texts[i][1]);
        mr_transform_destroy(transform);
        transform = parse(texts[i][1]);
        mr_transform_format(transform, text, sizeof text);
        assert_string_equal(text, texts[i][1]);
        mr_transform_destroy(transform);
    }
}

static void wrong_erasing_is_refused(void **state)
{
    (void)state;
    refuse_text("random_erasing(1.5)", "p: a probability");
    refuse_text("random_erasing(scale=0.5:0.2)", "scale: two parts");
    refuse_text("random_erasing(ratio=0:1)", "ratio: 1e-6");
    refuse_text("random_erasing(count=5)", "count: a number from 1 to 4");
    refuse_text("random_erasing(value=black)", "a value is one number");
    refuse_text("random_erasing(0.5,random,rand)", "'rand' is unknown or given twice");
    refuse_text("random_erasing(random=1)", "this word takes no value");
    refuse_text("random_erasing(value=1:2)", "a value is one number");
    refuse_text("random_erasing+hflip", "hflip is after random_erasing, which must come last");
    refuse_text("random_erasing+normalize(mean=0,std=1)", "normalize is after random_erasing");
    refuse_text("random_erasing+random_erasing", "random_erasing is after random_erasing");
    refuse_text("random_apply(random_erasing)", "only image operations and structures");
    struct mr_plan *plan = malloc(sizeof *plan);
    mr_error error;
    assert_non_null(plan);
    assert_int_equal(compile("random_erasing", MR_U8, MR_NCHW, plan, &error), MR_ERR_INVALID);
    assert_string_equal(
        error.text,
        "random_erasing cannot be applied: dtype is u8, and it erases normalized floats");
    free(plan);
}

static void explain(const char *text, mr_explain_form form, char line_out[TEXT])
{
    mr_transform *transform = parse(text);
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    options.seed = 7;
    options.epoch = 1;
    options.index = 3;
    options.width = 40;
    options.height = 30;
    options.form = (uint32_t)form;
    assert_int_equal(mr_transform_explain(transform, &options, line_out, TEXT, NULL, NULL), MR_OK);
    mr_transform_destroy(transform);
}

static void an_explanation_has_what_comes_after(void **state)
{
    (void)state;
    static const char text[] =
        "resize(24:20)+normalize(mean=0.5,std=0.5)+random_erasing(1,0.2:0.4,value=0.5)";
    struct mr_plan *plan = make_plan(text, MR_F32, MR_NCHW);
    struct mr_rng rng;
    struct mr_erase erase;
    char line[TEXT], want[TEXT];
    mr_rng_init(&rng, 7, 1, 3);
    mr_erase_draw(plan, 20, 24, &rng, &erase);
    const struct mr_erase_box *box = &erase.boxes[0];
    explain(text, MR_EXPLAIN_JSON, line);
    snprintf(want, sizeof want,
             "],\"after\":[[\"erase\",{\"i\":%d,\"j\":%d,\"h\":%d,\"w\":%d,\"v\":[0.5,0.5,0.5]}]]}",
             box->i, box->j, box->h, box->w);
    assert_words(line, want);
    explain(text, MR_EXPLAIN_BRIEF, line);
    snprintf(want, sizeof want, ", erase %dx%d+%d+%d", box->w, box->h, box->j, box->i);
    assert_words(line, want);
    explain("random_erasing(1,0.2:0.4,value=random)", MR_EXPLAIN_JSON, line);
    assert_words(line, "\"v\":\"random\"}]]}");
    explain("random_erasing(0)", MR_EXPLAIN_JSON, line);
    assert_words(line, "\"after\":[]}");
    explain("hflip", MR_EXPLAIN_JSON, line);
    assert_null(strstr(line, "after"));
    free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(boxes_are_torchvisions),
        cmocka_unit_test(normal_numbers_have_the_quantiles),
        cmocka_unit_test(boxes_are_filled_and_nothing_else),
        cmocka_unit_test(a_count_is_the_most_boxes),
        cmocka_unit_test(its_text_parses_back),
        cmocka_unit_test(wrong_erasing_is_refused),
        cmocka_unit_test(an_explanation_has_what_comes_after),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
