/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixing: rows and soft labels are those of torchvision and timm, draws have their distributions,
 * texts are parsed.
 */
#include "base/half.h"
#include "base/mix.h"
#include "tests/support/assert_words.h"
#include "transforms/erase.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/mixing/mix_store.h"
#include "transforms/plan_compile.h"
#include "transforms/simd/kernels.h"
#include "transforms/tensor_write.h"
#include "transforms/transform.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

enum { TEXT = 512, MAX_ROWS = 4, MAX_VALUES = 3 * 64 };

#define NORMALIZE "normalize(mean=0.485:0.456:0.406,std=0.229:0.224:0.225,exact)"

static mr_transform *parse(const char *text)
{
    mr_transform *transform;
    mr_error error;
    assert_ok(mr_transform_parse(text, &transform, &error), &error);
    return transform;
}

static mr_status compile(const char *text, uint32_t height, uint32_t width, mr_dtype dtype,
                         mr_layout layout, struct mr_plan *plan, mr_error *error)
{
    const struct mr_sample_kind kind = {.picture = 1,
                                        .dtype = MR_U8,
                                        .ndim = 3,
                                        .layout = MR_NHWC,
                                        .shape = {height, width, 3},
                                        .data_bytes = (uint64_t)height * width * 3};
    mr_transform *transform = parse(text);
    mr_status status = mr_plan_compile(transform, &kind, dtype, layout, plan, error);
    mr_transform_destroy(transform);
    return status;
}

static struct mr_plan *make_plan(const char *text, uint32_t height, uint32_t width, mr_dtype dtype,
                                 mr_layout layout)
{
    struct mr_plan *plan = malloc(sizeof *plan);
    mr_error error;
    assert_non_null(plan);
    assert_ok(compile(text, height, width, dtype, layout, plan, &error), &error);
    return plan;
}

static struct mr_mix_store *make_store(const struct mr_plan *plan)
{
    struct mr_mix_store *store;
    mr_error error;
    assert_ok(mr_mix_store_create(plan, &store, &error), &error);
    return store;
}

static uint32_t read_number(const json_t *row, const char *name)
{
    return (uint32_t)json_integer_value(json_object_get(row, name));
}

static size_t read_bytes(const json_t *row, const char *name, uint8_t *out, size_t size)
{
    const char *text = json_string_value(json_object_get(row, name));
    size_t n = strlen(text) / 2;
    assert_true(n <= size);
    for (size_t i = 0; i < n; i++) {
        unsigned byte;
        assert_int_equal(sscanf(text + 2 * i, "%2x", &byte), 1);
        out[i] = (uint8_t)byte;
    }
    return n;
}

/* Interleave a row of planes. */
static void interleave(const uint8_t *planes, uint32_t n_pixels, uint8_t *out)
{
    for (uint32_t k = 0; k < n_pixels; k++)
        for (uint32_t c = 0; c < 3; c++)
            out[3 * k + c] = planes[c * n_pixels + k];
}

static void check_box(size_t number, const json_t *row, const struct mr_mix *mix)
{
    const int32_t got[4] = {mix->x1, mix->y1, mix->x2, mix->y2};
    const json_t *box = json_object_get(row, "box");
    for (size_t i = 0; i < 4; i++)
        if (got[i] != json_integer_value(json_array_get(box, i)))
            fail_msg("case %zu: number %zu of the box is %d", number, i, got[i]);
    if (mix->lambda != (float)json_number_value(json_object_get(row, "weight")))
        fail_msg("case %zu: lambda is %.9g", number, (double)mix->lambda);
}

static struct mr_mix read_mix(const json_t *row)
{
    bool is_timm = strcmp(json_string_value(json_object_get(row, "by")), "timm") == 0;
    bool cuts = strcmp(json_string_value(json_object_get(row, "kind")), "cutmix") == 0;
    double lambda = json_number_value(json_object_get(row, "lambda"));
    struct mr_mix mix = {.kind = cuts ? MR_MIX_CUT : MR_MIX_UP,
                         .rule = is_timm ? MR_MIX_BYTES : MR_MIX_FLOATS,
                         .lambda = (float)lambda,
                         .rest = (float)(1 - lambda)};
    if (cuts)
        mr_mix_draw_box((enum mr_mix_rule)mix.rule, (float)lambda, read_number(row, "x"),
                        read_number(row, "y"), read_number(row, "width"),
                        read_number(row, "height"), &mix);
    return mix;
}

static void check_case(size_t number, const json_t *row, uint32_t n_classes)
{
    static uint8_t in[MAX_ROWS * MAX_VALUES], want[4 * MAX_ROWS * MAX_VALUES],
        soft[4 * MAX_ROWS * 8];
    static uint8_t rows[MAX_ROWS][MAX_VALUES], out[4 * MAX_VALUES];
    uint32_t n = read_number(row, "n"), height = read_number(row, "height"),
             width = read_number(row, "width");
    struct mr_mix mix = read_mix(row);
    bool is_timm = mix.rule == MR_MIX_BYTES;
    const json_t *labels = json_object_get(row, "labels");
    struct mr_plan *plan = make_plan(is_timm ? "timm_mixup" : NORMALIZE "+mixup", height, width,
                                     is_timm ? MR_U8 : MR_F32, MR_NCHW);
    struct mr_mix_store *store = make_store(plan);
    check_box(number, row, &mix);
    assert_int_equal(read_bytes(row, "in", in, sizeof in), n * height * width * 3);
    assert_int_equal(read_bytes(row, "out", want, sizeof want), n * plan->out_bytes);
    assert_int_equal(read_bytes(row, "soft", soft, sizeof soft), n * n_classes * sizeof(float));
    for (uint32_t i = 0; i < n; i++)
        interleave(in + (size_t)i * height * width * 3, height * width, rows[i]);
    for (uint32_t i = 0; i < n; i++) {
        uint32_t k = mr_mix_partner(mix.rule, i, n);
        float label[8];
        mr_mix_store_run(store, &mix, &(struct mr_mix_row){.pixels = rows[i]},
                         &(struct mr_mix_row){.pixels = rows[k]}, out);
        if (memcmp(out, want + i * plan->out_bytes, plan->out_bytes) != 0)
            fail_msg("case %zu: row %u differs", number, i);
        mr_mix_store_label(&mix, is_timm ? 0.1 : 0.0, json_integer_value(json_array_get(labels, i)),
                           json_integer_value(json_array_get(labels, k)), n_classes, label);
        if (memcmp(label, soft + i * n_classes * sizeof *label, n_classes * sizeof *label) != 0)
            fail_msg("case %zu: label %u differs", number, i);
    }
    mr_mix_store_destroy(store);
    free(plan);
}

static void rows_are_torchvisions_and_timms(void **state)
{
    (void)state;
    json_error_t where;
    json_t *file = json_load_file(MR_TEST_DATA "/mixing.json", 0, &where);
    if (!file)
        fail_msg("%s: %s", where.source, where.text);
    const json_t *cases = json_object_get(file, "cases");
    assert_int_equal(json_array_size(cases), 48);
    for (size_t i = 0; i < json_array_size(cases); i++)
        check_case(i, json_array_get(cases, i), read_number(file, "classes"));
    json_decref(file);
}

static float value_at(const struct mr_plan *plan, const void *tensor, size_t at)
{
    if (plan->dtype == MR_F32)
        return ((const float *)tensor)[at];
    uint16_t bits = ((const uint16_t *)tensor)[at];
    return plan->dtype == MR_BF16 ? mr_half_from_bf16(bits) : mr_half_from_f16(bits);
}

static float round_value(mr_dtype dtype, float value)
{
    if (dtype == MR_BF16)
        return mr_half_from_bf16(mr_half_bf16(value));
    return dtype == MR_F16 ? mr_half_from_f16(mr_half_f16(value)) : value;
}

enum { HEIGHT = 9, WIDTH = 21, N_VALUES = HEIGHT * WIDTH * 3 };

/* A sample's floats without mixing, erased. */
static void make_floats(const char *text, mr_layout layout, const uint8_t *pixels,
                        const struct mr_rng *draws, struct mr_erase *erase_out, float *out)
{
    struct mr_plan *plan = make_plan(text, HEIGHT, WIDTH, MR_F32, layout);
    for (size_t k = 0; k < N_VALUES; k++) {
        size_t c = k % 3, at = layout == MR_NCHW ? c * HEIGHT * WIDTH + k / 3 : k;
        out[at] = fmaf((float)pixels[k], plan->scale[c], plan->bias[c]);
    }
    mr_erase_draw(plan, WIDTH, HEIGHT, draws, erase_out);
    mr_erase_run(plan, erase_out, out);
    free(plan);
}

static void check_erased(const char *erasing, const struct mr_mix *mix, mr_dtype dtype,
                         mr_layout layout)
{
    char text[TEXT];
    static uint8_t pixels[2][N_VALUES];
    static float own[N_VALUES], other[N_VALUES], out[N_VALUES];
    struct mr_rng draws[2];
    struct mr_erase erases[2];
    for (unsigned i = 0; i < 2; i++) {
        mr_rng_init(&draws[i], 5, 0, i);
        for (unsigned k = 0; k < N_VALUES; k++)
            pixels[i][k] = (uint8_t)(k * 37 + i * 101 + k * k % 13);
    }
    snprintf(text, sizeof text, "normalize(mean=0.4,std=0.3)+%s", erasing);
    make_floats(text, layout, pixels[0], &draws[0], &erases[0], own);
    make_floats(text, layout, pixels[1], &draws[1], &erases[1], other);
    strcat(text, "+cutmix");
    struct mr_plan *plan = make_plan(text, HEIGHT, WIDTH, dtype, layout);
    struct mr_mix_store *store = make_store(plan);
    mr_mix_store_run(store, mix, &(struct mr_mix_row){pixels[0], &erases[0]},
                     &(struct mr_mix_row){pixels[1], &erases[1]}, out);
    for (size_t k = 0; k < N_VALUES; k++) {
        size_t pixel = layout == MR_NCHW ? k % (HEIGHT * WIDTH) : k / 3;
        bool inside = mr_mix_in_box(mix, (int32_t)(pixel % WIDTH), (int32_t)(pixel / WIDTH));
        float want = mix->kind == MR_MIX_UP    ? mr_mix_floats(mix, own[k], other[k])
                     : mix->kind == MR_MIX_CUT ? (inside ? other : own)[k]
                                               : own[k];
        if (value_at(plan, out, k) != round_value(dtype, want))
            fail_msg("%s, dtype %s, layout %d: element %zu is %g, not %g", text,
                     mr_dtype_name(dtype), (int)layout, k, (double)value_at(plan, out, k),
                     (double)round_value(dtype, want));
    }
    mr_mix_store_destroy(store);
    free(plan);
}

static void both_rows_are_erased_before_they_are_mixed(void **state)
{
    (void)state;
    static const char *const erasing[] = {"random_erasing(1,0.2:0.5,value=0.5:-2:3,count=4)",
                                          "random_erasing(1,0.2:0.5,value=random,count=2)",
                                          "random_erasing(1,0.2:0.5,value=rand)"};
    static const mr_dtype dtypes[] = {MR_F32, MR_F16, MR_BF16};
    const struct mr_mix mixes[] = {
        {.kind = MR_MIX_UP, .lambda = 0.3f, .rest = 0.7f},
        {.kind = MR_MIX_CUT, .lambda = 0.5f, .rest = 0.5f, .x1 = 3, .y1 = 2, .x2 = 14, .y2 = 9},
        {.kind = MR_MIX_CUT, .lambda = 1, .x1 = 3, .y1 = 2, .x2 = 3, .y2 = 9},
        {.kind = MR_MIX_NONE, .lambda = 1}};
    for (size_t e = 0; e < 3; e++)
        for (size_t m = 0; m < 4; m++)
            for (size_t d = 0; d < 3; d++)
                for (int layout = MR_NCHW; layout <= MR_NHWC; layout++)
                    check_erased(erasing[e], &mixes[m], dtypes[d], (mr_layout)layout);
}

static void bytes_are_rounded_to_even(void **state)
{
    (void)state;
    const struct mr_mix half = {.lambda = 0.5f, .rest = 0.5f},
                        third = {.lambda = 1.0f / 3, .rest = 2.0f / 3};
    assert_int_equal(mr_mix_bytes(&half, 1, 0), 0);
    assert_int_equal(mr_mix_bytes(&half, 3, 0), 2);
    for (int a = 0; a < 256; a++)
        for (int b = 0; b < 256; b++)
            assert_int_equal(mr_mix_bytes(&third, (uint8_t)a, (uint8_t)b),
                             (int)rintf((float)b * third.rest + (float)a * third.lambda));
}

static void every_set_of_loops_has_the_same_bits(void **state)
{
    (void)state;
    enum { N = 203 };
    static float own[N], partner[N], out[N];
    static uint8_t bytes[2][N], made[N];
    static const enum mr_cpu sets[] = {MR_CPU_C, MR_CPU_AVX2, MR_CPU_AVX512};
    const struct mr_mix mix = {.lambda = 0.3717f, .rest = (float)(1 - (double)0.3717f)};
    for (int k = 0; k < N; k++) {
        own[k] = sinf((float)k) * 2.5f;
        partner[k] = cosf((float)k * 3) * 2.5f;
        bytes[0][k] = (uint8_t)(k * 7);
        bytes[1][k] = (uint8_t)(k * k + 3);
    }
    for (size_t s = 0; s < sizeof sets / sizeof *sets; s++) {
        const struct mr_kernel_ops *kernels = mr_kernels_find(sets[s]);
        for (size_t n = 0; kernels && n <= N; n += n < 70 ? 1 : 19) {
            out[n < N ? n : 0] = -7;
            kernels->mix_floats(&mix, own, partner, n, out);
            kernels->mix_bytes(&mix, bytes[0], bytes[1], n, made);
            assert_true(n == N || out[n] == -7);
            for (size_t k = 0; k < n; k++) {
                assert_true(out[k] == mr_mix_floats(&mix, own[k], partner[k]));
                assert_int_equal(made[k], mr_mix_bytes(&mix, bytes[0][k], bytes[1][k]));
            }
        }
    }
}

static void every_row_is_the_partner_of_exactly_one(void **state)
{
    (void)state;
    for (uint32_t n = 1; n < 9; n++)
        for (uint32_t i = 0; i < n; i++)
            for (uint32_t rule = MR_MIX_FLOATS; rule <= MR_MIX_BYTES; rule++)
                assert_int_equal(mr_mix_partner(rule, mr_mix_partner_of(rule, i, n), n), i);
    assert_int_equal(mr_mix_partner(MR_MIX_FLOATS, 0, 5), 4);
    assert_int_equal(mr_mix_partner(MR_MIX_FLOATS, 3, 5), 2);
    assert_int_equal(mr_mix_partner(MR_MIX_BYTES, 1, 6), 4);
}

/*
 * Beta(a, a) has mean 1/2 and variance 1 / (4 (2a + 1)). Its distribution function is checked at a
 * few points.
 */
static void lambdas_are_of_beta(void **state)
{
    (void)state;
    enum { N = 40000 };
    static const struct {
        double alpha, at, below;
    } known[] = {{1, 0.25, 0.25},
                 {0.5, 0.25, 1.0 / 3},
                 {2, 0.25, 0.15625},
                 {0.2, 0.1, 0.336553},
                 {8, 0.4, 0.213103}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
        struct mr_rng rng;
        double sum = 0, squares = 0, a = known[i].alpha;
        unsigned n_below = 0;
        mr_rng_init(&rng, 1, 2, 3);
        for (int k = 0; k < N; k++) {
            float lambda = mr_mix_draw_lambda(&rng, a);
            assert_true(lambda >= 0 && lambda <= 1);
            sum += (double)lambda;
            squares += ((double)lambda - 0.5) * ((double)lambda - 0.5);
            n_below += (double)lambda < known[i].at;
        }
        double variance = 0.25 / (2 * a + 1), p = known[i].below;
        if (fabs(sum / N - 0.5) > 4 * sqrt(variance / N) ||
            fabs(squares / N - variance) > 0.03 * variance ||
            fabs(n_below - N * p) > 4 * sqrt(N * p * (1 - p)))
            fail_msg("alpha %g: mean %g, variance %g, not %g, below %g: %g, not %g", a, sum / N,
                     squares / N, variance, known[i].at, n_below / (double)N, p);
    }
}

/* Batches are drawn separately: another argument changes all draws at random. */
static void batches_draw_kinds_and_boxes(void **state)
{
    (void)state;
    enum { N = 4000, SIDE = 16 };
    const struct mr_op op = {
        .kind = MR_OP_TIMM_MIXUP, .alpha = {0.8, 1}, .mix_prob = 0.75, .switch_prob = 0.4};
    unsigned n[3] = {0}, columns[SIDE] = {0};
    for (unsigned b = 0; b < N; b++) {
        struct mr_mix mix, again, other;
        mr_mix_draw_batch(&op, false, 7, 1, b, 2, SIDE, SIDE, &mix);
        mr_mix_draw_batch(&op, false, 7, 1, b, 2, SIDE, SIDE, &again);
        mr_mix_draw_batch(&op, false, 7, 1, b, 3, SIDE, SIDE, &other);
        assert_memory_equal(&mix, &again, sizeof mix);
        assert_true(mix.kind != MR_MIX_UP || memcmp(&mix, &other, sizeof mix) != 0);
        assert_int_equal(mix.rule, MR_MIX_BYTES);
        assert_true(mix.lambda >= 0 && mix.lambda <= 1 && mix.x1 >= 0 && mix.x1 <= mix.x2 &&
                    mix.x2 <= SIDE);
        n[mix.kind]++;
        for (int x = mix.x1; mix.kind == MR_MIX_CUT && mix.y1 < mix.y2 && x < mix.x2; x++)
            columns[x]++;
    }
    const double parts[3] = {0.25, 0.75 * 0.6, 0.75 * 0.4};
    for (int k = 0; k < 3; k++)
        if (fabs(n[k] - N * parts[k]) > 4 * sqrt(N * parts[k] * (1 - parts[k])))
            fail_msg("kind %d: %u of %d", k, n[k], N);
    for (int x = 0; x < SIDE; x++)
        assert_true(columns[x] > n[MR_MIX_CUT] / 4);
}

static void check_format(const char *text, const char *want)
{
    char long_form[TEXT];
    mr_transform *transform = parse(text), *again;
    mr_transform_format(transform, long_form, sizeof long_form);
    assert_string_equal(long_form, want);
    again = parse(long_form);
    mr_transform_format(again, long_form, sizeof long_form);
    assert_string_equal(long_form, want);
    mr_transform_destroy(transform);
    mr_transform_destroy(again);
}

static void texts_are_read_and_written(void **state)
{
    (void)state;
    check_format("mixup", "mixup(1)");
    check_format("hflip+CutMix(0.5)", "hflip(0.5)+cutmix(0.5)");
    check_format("mixup(alpha=0.2)", "mixup(0.2)");
    check_format("mixup_or_cutmix(0.2)", "mixup_or_cutmix(mixup=0.2,cutmix=1,switch_prob=0.5)");
    check_format("random_erasing(0.1)+mixup_or_cutmix(0.2,1,0.7)",
                 "random_erasing(0.1,scale=0.02:0.33,ratio=0.3:3.3,value=0)+"
                 "mixup_or_cutmix(mixup=0.2,cutmix=1,switch_prob=0.7)");
    check_format("timm_mixup",
                 "timm_mixup(mixup=1,cutmix=0,prob=1,switch_prob=0.5,label_smoothing=0.1)");
    check_format("timm_mixup(0.8,1,0.5,label_smoothing=0)",
                 "timm_mixup(mixup=0.8,cutmix=1,prob=0.5,switch_prob=0.5,label_smoothing=0)");
    check_format(
        "timm_mixup(mixup=0.8,cutmix=1.0,prob=1,switch_prob=0.5,label_smoothing=0.1,mode=batch)",
        "timm_mixup(mixup=0.8,cutmix=1,prob=1,switch_prob=0.5,label_smoothing=0.1)");
}

static void explain(const char *text, const mr_explain_options *options, const char *want)
{
    char line[2 * TEXT];
    mr_transform *transform = parse(text);
    mr_error error;
    assert_ok(mr_transform_explain(transform, options, line, sizeof line, NULL, &error), &error);
    assert_words(line, want);
    mr_transform_destroy(transform);
}

static void explanations_have_partner_lambda_and_box(void **state)
{
    (void)state;
    mr_explain_options options = MR_EXPLAIN_OPTIONS_INIT;
    char want[TEXT];
    const struct mr_op op = {
        .kind = MR_OP_CUTMIX, .alpha = {0, 1}, .mix_prob = 1, .switch_prob = 0.5};
    struct mr_mix mix;
    mr_mix_draw_batch(&op, false, 3, 1, 9, 2, 16, 16, &mix);
    options.seed = 3;
    options.epoch = 1;
    options.index = 5;
    options.width = options.height = 16;
    options.raw_channels = 3;
    options.batch = 9;
    options.rank = 2;
    options.n_rows = 6;
    snprintf(want, sizeof want,
             "\"after\":[],\"mix\":{\"kind\":\"cutmix\",\"row\":5,\"lambda\":%.17g,\"box\":[%d,%d,%"
             "d,%d]}}",
             (double)mix.lambda, mix.x1, mix.y1, mix.x2, mix.y2);
    explain("random_erasing(0)+cutmix", &options, want);
    options.row = 2;
    explain("mixup", &options, "\"mix\":{\"kind\":\"mixup\",\"row\":1,\"lambda\":0.");
    explain("timm_mixup", &options, "\"mix\":{\"kind\":\"mixup\",\"row\":3,\"lambda\":0.");
    explain("timm_mixup(prob=0)", &options, "\"mix\":null}");
    options.partner_is_hole = true;
    explain("mixup", &options, "\"mix\":null}");
    options.partner_is_hole = false;
    options.form = MR_EXPLAIN_WORDS;
    explain("hflip(1)+mixup", &options, "hflip, mixup row 1 0.");
    options.form = MR_EXPLAIN_JSON;
    options.row = 0;
    options.n_rows = 1;
    explain("mixup", &options, "\"mix\":null}");
    options.hole = true;
    explain("random_erasing+mixup", &options, "\"calls\":null,\"after\":null,\"mix\":null}");
    options.hole = false;
    options.n_rows = 0;
    explain("mixup", &options, "\"calls\":[]}");
    options.row = options.n_rows = 4;
    mr_transform *transform = parse("mixup");
    mr_error error;
    assert_int_equal(mr_transform_explain(transform, &options, NULL, 0, NULL, &error),
                     MR_ERR_INVALID);
    assert_string_equal(error.text, "row 4 is not below n_rows 4");
    mr_transform_destroy(transform);
}

static void refuse(const char *text, const char *words)
{
    mr_transform *transform;
    mr_error error;
    assert_error(mr_transform_parse(text, &transform, &error), MR_ERR_INVALID, &error, words);
}

static void wrong_arguments_are_refused(void **state)
{
    (void)state;
    struct mr_plan *plan = malloc(sizeof *plan);
    mr_error error;
    assert_non_null(plan);
    refuse("mixup(0)", "character 7: an alpha from 1e-6 to 1000 is expected");
    refuse("mixup(-1)", "character 7: an alpha from 1e-6 to 1000 is expected");
    refuse("cutmix(0)", "character 8: an alpha from 1e-6 to 1000 is expected");
    refuse("mixup(alpha=1001)", "an alpha from 1e-6 to 1000 is expected");
    refuse("mixup(1e-310)", "an alpha from 1e-6 to 1000 is expected");
    refuse("timm_mixup(-1)", "an alpha of 0, or from 1e-6 to 1000, is expected");
    refuse("timm_mixup(cutmix=9e-7)", "an alpha of 0, or from 1e-6 to 1000, is expected");
    refuse("mixup(1,2)", "unknown or given twice");
    refuse("mixup_or_cutmix(1,0)", "character 19: an alpha from 1e-6 to 1000 is expected");
    refuse("mixup_or_cutmix(1,1,2)", "a number from 0 to 1 is expected");
    refuse("timm_mixup(mixup=0)", "mixup and cutmix are both 0; one alpha must be above 0");
    refuse("timm_mixup(mode=pair)", "mode: only batch is available");
    refuse("timm_mixup(prob=1.5)", "a number from 0 to 1 is expected");
    refuse("mixup+hflip", "hflip is after mixup, which must come last");
    refuse("mixup+random_erasing", "random_erasing is after mixup, which must come last");
    refuse("cutmix+mixup", "mixup is after cutmix, which must come last");
    refuse("random_apply(mixup)", "only image operations and structures");
    assert_error(compile("mixup", 4, 4, MR_U8, MR_NCHW, plan, &error), MR_ERR_INVALID, &error,
                 "mixup cannot be applied: dtype is u8, and it mixes floats");
    assert_int_equal(compile("timm_mixup", 4, 4, MR_U8, MR_NCHW, plan, &error), MR_OK);
    free(plan);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(rows_are_torchvisions_and_timms),
        cmocka_unit_test(both_rows_are_erased_before_they_are_mixed),
        cmocka_unit_test(bytes_are_rounded_to_even),
        cmocka_unit_test(every_set_of_loops_has_the_same_bits),
        cmocka_unit_test(every_row_is_the_partner_of_exactly_one),
        cmocka_unit_test(lambdas_are_of_beta),
        cmocka_unit_test(batches_draw_kinds_and_boxes),
        cmocka_unit_test(texts_are_read_and_written),
        cmocka_unit_test(explanations_have_partner_lambda_and_box),
        cmocka_unit_test(wrong_arguments_are_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
