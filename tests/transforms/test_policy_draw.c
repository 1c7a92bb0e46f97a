/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The draws of image operations from Philox: each frequency is that of torchvision's distribution.
 * The seeds are fixed.
 */
#include "tests/transforms/file_plan.h"
#include "transforms/geometry.h"
#include "transforms/image_ops/image_call.h"

#include <jansson.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_DRAWS = 100000, MAX_CLASSES = 1024, WIDTH = 331, HEIGHT = 331 };

/* Counts of the classes of one question, and their probabilities. */
struct tally {
    uint32_t n;
    uint32_t counts[MAX_CLASSES];
    double chances[MAX_CLASSES];
};

/* Gives the class of a sample; UINT32_MAX: it cannot be drawn. */
typedef uint32_t classify(const struct mr_geometry *g, const void *context);

/* The 99.9th percentile of chi-square by Wilson and Hilferty. */
static double find_percentile(uint32_t degrees)
{
    double part = 2.0 / (9.0 * degrees);
    return degrees * pow(1.0 - part + 3.09 * sqrt(part), 3.0);
}

/* Classes with probability 0 must not be drawn. */
static void check_tally(const char *text, const struct tally *tally, uint32_t n_draws)
{
    double square = 0.0, sum = 0.0;
    uint32_t n_possible = 0;
    for (uint32_t i = 0; i < tally->n; i++) {
        double want = n_draws * tally->chances[i];
        sum += tally->chances[i];
        if (want == 0.0 && tally->counts[i] > 0)
            fail_msg("%s: class %u was drawn", text, i);
        if (want == 0.0)
            continue;
        square += (tally->counts[i] - want) * (tally->counts[i] - want) / want;
        n_possible++;
    }
    assert_true(fabs(sum - 1.0) < 1e-9);
    if (n_possible > 1 && square > find_percentile(n_possible - 1))
        fail_msg("%s: chi-square %.1f of %u classes is above %.1f", text, square, n_possible,
                 find_percentile(n_possible - 1));
}

static void check_draws(const char *text, struct tally *tally, classify *classify_sample,
                        const void *context)
{
    struct mr_plan plan = file_plan(text);
    struct mr_geometry *g = malloc(sizeof *g);
    assert_non_null(g);
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        struct mr_rng rng;
        mr_rng_init(&rng, 11, 5, i);
        assert_int_equal(mr_geometry_make(&plan, WIDTH, HEIGHT, &rng, g, NULL), MR_OK);
        uint32_t k = classify_sample(g, context);
        if (k >= tally->n)
            fail_msg("%s: draw %u is in no class", text, (unsigned)i);
        tally->counts[k]++;
    }
    check_tally(text, tally, N_DRAWS);
    free(g);
}

/* Changes of the policies in torchvision's order. */
enum { N_CHANGES = 14, INVERT = 14, N_CLASSES_OF_CHANGE = 64 };

static uint32_t find_change(const struct mr_image_call *call)
{
    static const uint32_t changes[MR_N_CALL_KINDS] = {
        [MR_CALL_ROTATE] = 5,     [MR_CALL_BRIGHTNESS] = 6,    [MR_CALL_SATURATION] = 7,
        [MR_CALL_CONTRAST] = 8,   [MR_CALL_SHARPNESS] = 9,     [MR_CALL_POSTERIZE] = 10,
        [MR_CALL_SOLARIZE] = 11,  [MR_CALL_AUTOCONTRAST] = 12, [MR_CALL_EQUALIZE] = 13,
        [MR_CALL_INVERT] = INVERT};
    if (call->kind != MR_CALL_AFFINE)
        return changes[call->kind];
    if (isnan(call->args[10]))
        return call->args[1] != 0.0 ? 3 : 4;
    return call->args[4] != 0.0 ? 1 : 2;
}

/* From -1 to 1; from 0 to 1 without a sign. */
static double find_strength(const struct mr_image_call *call)
{
    const double *args = call->args, degrees = 180.0 / 3.14159265358979323846;
    switch (find_change(call)) {
    case 1: return tan(args[4] / degrees) / 0.99;
    case 2: return tan(args[5] / degrees) / 0.99;
    case 3: return args[1] / 32.0;
    case 4: return args[2] / 32.0;
    case 5: return args[0] / 135.0;
    case 6:
    case 7:
    case 8:
    case 9: return (args[0] - 1.0) / 0.99;
    case 10: return (8.0 - args[0]) / 6.0;
    case 11: return 1.0 - args[0] / 255.0;
    default: return 0.0;
    }
}

/* Two bins: 0 and the largest magnitude. A shear or a translation by 0 does not show its axis. */
static uint32_t classify_wide(const struct mr_geometry *g, const void *context)
{
    const struct mr_image_call *calls = g->calls.calls;
    (void)context;
    if (g->calls.n == 0)
        return 0;
    uint32_t change = find_change(calls);
    double strength = find_strength(calls);
    bool hidden = calls->kind == MR_CALL_AFFINE && strength == 0.0;
    if (g->calls.n > 1 || (fabs(strength) > 1e-6 && fabs(fabs(strength) - 1.0) > 1e-6))
        return UINT32_MAX;
    return (hidden ? (isnan(calls->args[10]) ? 3 : 1) : change) * 3 + (fabs(strength) < 0.5 ? 0
                                                                       : strength < 0.0     ? 1
                                                                                            : 2);
}

static void trivial_augment_has_changes_signs_and_bins_equally_often(void **state)
{
    (void)state;
    struct tally tally = {.n = 3 * N_CHANGES};
    for (uint32_t change = 0; change < N_CHANGES; change++) {
        double *chances = &tally.chances[3 * change];
        bool is_signed = change >= 1 && change <= 9, is_constant = change == 0 || change >= 12;
        chances[0] = is_constant ? 1.0 : 0.5;
        chances[1] = is_signed ? 0.25 : 0.0;
        chances[2] = is_constant ? 0.0 : is_signed ? 0.25 : 0.5;
        if (change == 1 || change == 3)
            chances[0] = 1.0; /* of both axes */
        if (change == 2 || change == 4)
            chances[0] = 0.0;
        for (int i = 0; i < 3; i++)
            chances[i] /= N_CHANGES;
    }
    check_draws("trivial_augment_wide(2)", &tally, classify_wide, NULL);
}

/* Which of 31 magnitudes a rotation or a brightness has; all other calls are one class. */
static uint32_t classify_bin(const struct mr_geometry *g, const void *context)
{
    const enum mr_image_call_kind *kind = context;
    const struct mr_image_call *calls = g->calls.calls;
    return g->calls.n && calls->kind == *kind
               ? 1 + (uint32_t)lround(fabs(find_strength(calls)) * 30.0)
               : 0;
}

static void trivial_augment_has_every_magnitude_equally_often(void **state)
{
    (void)state;
    static const enum mr_image_call_kind kinds[] = {MR_CALL_ROTATE, MR_CALL_BRIGHTNESS,
                                                    MR_CALL_SOLARIZE};
    for (size_t k = 0; k < sizeof kinds / sizeof *kinds; k++) {
        struct tally tally = {.n = 32, .chances = {13 / 14.0}};
        for (int bin = 0; bin < 31; bin++)
            tally.chances[1 + bin] = 1 / 14.0 / 31.0;
        check_draws("trivial_augment_wide", &tally, classify_bin, &kinds[k]);
    }
}

/*
 * Two changes with their signs. Identity shows as a missing call, so the pairs with it are one
 * class.
 */
static uint32_t classify_pair(const struct mr_geometry *g, const void *context)
{
    const struct mr_image_call *calls = g->calls.calls;
    uint32_t class = 0;
    (void)context;
    if (g->calls.n < 2) /* Identity twice, or once in either place */
        return g->calls.n == 0 ? 0 : 2 * find_change(calls) + (find_strength(calls) < 0.0);
    for (uint32_t i = 0; i < 2; i++)
        class =
            class * 2 * N_CHANGES + 2 * find_change(&calls[i]) + (find_strength(&calls[i]) < 0.0);
    return class;
}

static double chance_of_change(uint32_t change, uint32_t sign)
{
    bool is_signed = change >= 1 && change <= 9;
    return (is_signed ? 0.5 : sign ? 0.0 : 1.0) / N_CHANGES;
}

static void rand_augment_draws_changes_and_signs_independently(void **state)
{
    (void)state;
    struct tally tally = {.n = 4 * N_CHANGES * N_CHANGES};
    for (uint32_t one = 0; one < 2 * N_CHANGES; one++) {
        for (uint32_t two = 0; two < 2 * N_CHANGES; two++) {
            bool is_pair = one >= 2 && two >= 2;
            uint32_t class = is_pair ? one * 2 * N_CHANGES + two : one + two;
            double p = chance_of_change(one / 2, one % 2) * chance_of_change(two / 2, two % 2);
            if (p > 0.0)
                tally.chances[class] += p;
        }
    }
    check_draws("rand_augment(2,9)", &tally, classify_pair, NULL);
}

/* A sample's calls by name: their index in the JSON's list of outcomes. */
static uint32_t classify_names(const struct mr_geometry *g, const void *context)
{
    const json_t *outcomes = context;
    char names[100] = "";
    uint32_t k = 0;
    for (uint32_t i = 0; i < g->calls.n; i++) {
        size_t used = strlen(names);
        snprintf(names + used, sizeof names - used, "%s%s", i ? " " : "",
                 mr_image_call_ops[g->calls.calls[i].kind].name);
    }
    while (k < json_array_size(outcomes) &&
           strcmp(json_string_value(json_array_get(json_array_get(outcomes, k), 0)), names) != 0)
        k++;
    return k;
}

static void auto_augment_has_its_pairs_as_often_as_torchvision(void **state)
{
    (void)state;
    json_error_t why;
    json_t *root = json_load_file(MR_TEST_DATA "/draws.json", 0, &why), *outcomes, *outcome;
    const char *text;
    size_t n = 0, i;
    assert_non_null(root);
    json_object_foreach(json_object_get(root, "chances"), text, outcomes)
    {
        struct tally tally = {.n = (uint32_t)json_array_size(outcomes)};
        json_array_foreach(outcomes, i, outcome) tally.chances[i] =
            json_number_value(json_array_get(outcome, 1));
        check_draws(text, &tally, classify_names, outcomes);
        n++;
    }
    assert_int_equal(n, 3);
    json_decref(root);
}

/* The signs of the two calls: none, or which of four pairs. */
static uint32_t classify_signs(const struct mr_geometry *g, const void *context)
{
    const struct mr_image_call *calls = g->calls.calls;
    (void)context;
    bool has_two = g->calls.n == 2 && find_change(&calls[0]) < 10 && find_change(&calls[1]) < 10;
    return has_two ? 1 + 2 * (find_strength(&calls[0]) < 0.0) + (find_strength(&calls[1]) < 0.0)
                   : 0;
}

static void auto_augment_draws_both_signs(void **state)
{
    (void)state;
    /*
     * Rotate and TranslateX 0.21, Sharpness twice 0.72, ShearY and TranslateY 0.35, and so on;
     * Color 0 has no sign.
     */
    const double pairs[] = {0.7 * 0.3, 0.8 * 0.9, 0.5 * 0.7, 0.4 * 0.6, 0.3 * 0.7,
                            0.6 * 0.6, 0.7 * 0.5, 0.4 * 0.2, 0.9 * 0.2, 0.9 * 0.7};
    double sum = 0.0;
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++)
        sum += pairs[i] / 25.0;
    double neutral = 0.1 * 0.7 / 25.0; /* Brightness 3 and Color 0 */
    struct tally tally = {.n = 5, .chances = {1.0 - sum - neutral}};
    for (int i = 1; i < 5; i++)
        tally.chances[i] = sum / 4.0 + (i % 2 ? neutral / 2.0 : 0.0);
    check_draws("auto_augment(cifar10)", &tally, classify_signs, NULL);
}

/* One argument of the first call, in classes of equal width. */
struct span {
    uint32_t arg;
    double lo;
    double hi;
    uint32_t n;
};

static uint32_t classify_value(const struct mr_geometry *g, const void *context)
{
    const struct span *span = context;
    double at = (g->calls.calls[0].args[span->arg] - span->lo) / (span->hi - span->lo) * span->n;
    if (g->calls.n == 0 || !(at >= -1e-5 && at <= span->n + 1e-5))
        return UINT32_MAX;
    return at >= span->n ? span->n - 1 : at < 0.0 ? 0 : (uint32_t)at;
}

static void check_uniform(const char *text, const struct span *span)
{
    struct tally tally = {.n = span->n};
    for (uint32_t i = 0; i < span->n; i++)
        tally.chances[i] = 1.0 / span->n;
    check_draws(text, &tally, classify_value, span);
}

static void ranges_are_drawn_from_uniformly(void **state)
{
    (void)state;
    check_uniform("gaussian_blur(23,0.1:2)", &(struct span){1, 0.1, 2.0, 50});
    check_uniform("pil_gaussian_blur(0.1:2)", &(struct span){0, 0.1, 2.0, 50});
    check_uniform("color_jitter(0.4)", &(struct span){0, 0.6, 1.4, 50});
    check_uniform("color_jitter(0,2)", &(struct span){0, 0.0, 3.0, 50});
    check_uniform("rotation(30)", &(struct span){0, -30.0, 30.0, 50});
    check_uniform("rotation(-5:170)", &(struct span){0, -5.0, 170.0, 50});
    check_uniform("affine(10,0.1:0.2,0.5:2,-1:2:3:5)", &(struct span){0, -10.0, 10.0, 50});
    check_uniform("affine(10,0.1:0.2,0.5:2,-1:2:3:5)", &(struct span){3, 0.5, 2.0, 50});
    check_uniform("affine(10,0.1:0.2,0.5:2,-1:2:3:5)", &(struct span){4, -1.0, 2.0, 50});
    check_uniform("affine(10,0.1:0.2,0.5:2,-1:2:3:5)", &(struct span){5, 3.0, 5.0, 50});
    check_uniform("color_jitter(hue=0.5)", &(struct span){0, -0.5, 0.5, 50});
}

/* augmix's changes, where the axes of a shear and of a translation are one. */
static const uint32_t augmix_kinds[] = {
    MR_CALL_TENSOR_AFFINE,     MR_CALL_TENSOR_AFFINE,   MR_CALL_TENSOR_ROTATE,
    MR_CALL_POSTERIZE,         MR_CALL_SOLARIZE,        MR_CALL_TENSOR_AUTOCONTRAST,
    MR_CALL_EQUALIZE,          MR_CALL_TENSOR_CONTRAST, MR_CALL_TENSOR_BRIGHTNESS,
    MR_CALL_TENSOR_SATURATION, MR_CALL_TENSOR_SHARPNESS};
enum { N_AUGMIX = sizeof augmix_kinds / sizeof *augmix_kinds, N_STRENGTHS = 5 };

/* 0; less and more along x or without an axis; less and more along y. */
static uint32_t find_side(double x, double y)
{
    return x < 0.0 ? 1 : x > 0.0 ? 2 : y < 0.0 ? 3 : y > 0.0 ? 4 : 0;
}

/* The one change of the one chain: start, chain, change, end. */
static uint32_t classify_augmix(const struct mr_geometry *g, const void *context)
{
    const struct mr_image_call *call = &g->calls.calls[2];
    const double *args = call->args;
    uint32_t k = 0, side = 0;
    (void)context;
    if (g->calls.n != 4)
        return UINT32_MAX;
    while (k < N_AUGMIX && augmix_kinds[k] != call->kind)
        k++;
    if (k == 0 && isnan(args[10]))
        k = 1;
    if (k < 2)
        side = k == 0 ? find_side(args[4], args[5]) : find_side(args[1], args[2]);
    else if (k == 2)
        side = find_side(args[0], 0.0);
    else if (k == 4)
        side = find_side(255.0 - args[0], 0.0);
    else if (k > 6)
        side = find_side(args[0] - 1.0, 0.0);
    return k * N_STRENGTHS + side;
}

/* Two magnitudes, of which the first is 0. The second one of posterize also keeps four bits. */
static void check_augmix(const char *text, uint32_t n_changes)
{
    struct tally tally = {.n = N_AUGMIX * N_STRENGTHS};
    for (uint32_t k = 0; k < (n_changes == 13 ? N_AUGMIX : 7u); k++) {
        double *chances = &tally.chances[k * N_STRENGTHS];
        bool has_axis = k < 2, is_signed = k < 3 || k > 6;
        chances[0] = is_signed || k == 4 ? 0.5 : 1.0;
        chances[1] = is_signed ? 0.25 : 0.0;
        chances[2] = k == 4 ? 0.5 : is_signed ? 0.25 : 0.0;
        for (uint32_t i = 0; i < 3; i++)
            chances[i] /= n_changes;
        chances[0] *= has_axis ? 2 : 1;
        chances[3] = has_axis ? chances[1] : 0.0;
        chances[4] = has_axis ? chances[2] : 0.0;
    }
    check_draws(text, &tally, classify_augmix, NULL);
}

static uint32_t classify_depth(const struct mr_geometry *g, const void *context)
{
    (void)context;
    return g->calls.n - 4;
}

/* Classes of the first chain's part of all chains. */
static uint32_t classify_share(const struct mr_geometry *g, const void *context)
{
    const struct mr_image_call *calls = g->calls.calls;
    double share = calls[1].args[0] / (1.0 - calls[0].args[0]);
    (void)context;
    return share < 1.0 ? (uint32_t)(share * 20.0) : 19;
}

/* Beta(1, 2) is the weight of one of three, Beta(1/2, 1/2) that of one of two. */
static double cumulate(double alpha, double x)
{
    return alpha == 1.0 ? 1.0 - (1.0 - x) * (1.0 - x) : 2.0 / acos(-1.0) * asin(sqrt(x));
}

static void augmix_has_the_distributions_of_torchvision(void **state)
{
    (void)state;
    check_augmix("augmix(2,1,1)", 13);
    check_augmix("augmix_v2(2,1,1)", 13);
    check_augmix("augmix(2,1,1,all_ops=0)", 9);
    struct tally depths = {.n = 3, .chances = {1.0 / 3, 1.0 / 3, 1.0 / 3}};
    check_draws("augmix(mixture_width=1)", &depths, classify_depth, NULL);
    check_uniform("augmix", &(struct span){0, 0.0, 1.0, 50});
    static const char *const texts[] = {"augmix(3,3,1,1)", "augmix(3,2,1,0.5)"};
    for (int k = 0; k < 2; k++) {
        struct tally shares = {.n = 20};
        for (int i = 0; i < 20; i++)
            shares.chances[i] =
                cumulate(k ? 0.5 : 1.0, (i + 1) / 20.0) - cumulate(k ? 0.5 : 1.0, i / 20.0);
        check_draws(texts[k], &shares, classify_share, NULL);
    }
}

/* Rounded to whole pixels, so the two at the ends are drawn half as often. */
static uint32_t classify_translation(const struct mr_geometry *g, const void *context)
{
    (void)context;
    return (uint32_t)((int)g->calls.calls[0].args[2] + 33);
}

static void translations_are_whole_pixels(void **state)
{
    (void)state;
    const double most = 0.1 * HEIGHT; /* 33.1 */
    struct tally tally = {.n = 67};
    for (uint32_t i = 0; i < tally.n; i++)
        tally.chances[i] = (i == 0 || i == 66 ? most - 32.5 : 1.0) / (2.0 * most);
    check_draws("affine(0,0.3:0.1)", &tally, classify_translation, NULL);
}

/* Where the upper left corner moves to; the coefficients map that place to 0, 0. */
static uint32_t classify_corner(const struct mr_geometry *g, const void *context)
{
    const double *c = g->calls.calls[0].args;
    const uint32_t *axis = context;
    double below = c[0] * c[4] - c[1] * c[3];
    double at = *axis ? (c[2] * c[3] - c[0] * c[5]) / below : (c[1] * c[5] - c[2] * c[4]) / below;
    return g->calls.n == 1 && fabs(at - rint(at)) < 1e-3 ? (uint32_t)lround(at) : UINT32_MAX;
}

static void corners_move_equally_often_to_each_pixel(void **state)
{
    (void)state;
    for (uint32_t axis = 0; axis < 2; axis++) {
        struct tally tally = {.n = 83}; /* 0 to 331 / 2 * 0.5, rounded down twice */
        for (uint32_t i = 0; i < tally.n; i++)
            tally.chances[i] = 1.0 / tally.n;
        check_draws("perspective(0.5,1)", &tally, classify_corner, &axis);
    }
}

/* 4 x 5 places, and both flips. */
static uint32_t classify_place(const struct mr_geometry *g, const void *context)
{
    (void)context;
    uint32_t place = (uint32_t)(g->crop.x + 5 * g->crop.y);
    return 4 * place + 2 * g->stages[0].hflip + g->stages[0].vflip;
}

static void crops_and_flips_are_independent(void **state)
{
    (void)state;
    struct tally tally = {.n = 80};
    for (uint32_t i = 0; i < tally.n; i++)
        tally.chances[i] = (i & 2 ? 0.3 : 0.7) * (i & 1 ? 0.6 : 0.4) / 20.0;
    check_draws("random_crop(328:327)+hflip(0.3)+vflip(0.6)", &tally, classify_place, NULL);
}

static uint32_t classify_any(const struct mr_geometry *g, const void *context)
{
    (void)context;
    return g->calls.n > 0;
}

static void chances_are_p(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        double p;
    } cases[] = {{"invert(0.1)", 0.1},
                 {"posterize(4,0.3)", 0.3},
                 {"solarize(9,0.5)", 0.5},
                 {"autocontrast(0.9)", 0.9},
                 {"equalize(0.75)", 0.75},
                 {"adjust_sharpness(2,0.01)", 0.01},
                 {"perspective(0.5,0.35)", 0.35},
                 {"random_grayscale(0.2)", 0.2},
                 {"random_apply(color_jitter(1),0.8)", 0.8}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct tally tally = {.n = 2, .chances = {1.0 - cases[i].p, cases[i].p}};
        check_draws(cases[i].text, &tally, classify_any, NULL);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(trivial_augment_has_changes_signs_and_bins_equally_often),
        cmocka_unit_test(trivial_augment_has_every_magnitude_equally_often),
        cmocka_unit_test(rand_augment_draws_changes_and_signs_independently),
        cmocka_unit_test(auto_augment_has_its_pairs_as_often_as_torchvision),
        cmocka_unit_test(augmix_has_the_distributions_of_torchvision),
        cmocka_unit_test(auto_augment_draws_both_signs),
        cmocka_unit_test(ranges_are_drawn_from_uniformly),
        cmocka_unit_test(translations_are_whole_pixels),
        cmocka_unit_test(corners_move_equally_often_to_each_pixel),
        cmocka_unit_test(crops_and_flips_are_independent),
        cmocka_unit_test(chances_are_p),
    };
    return cmocka_run_group_tests_name("policy_draw", tests, NULL, NULL);
}
