/* SPDX-License-Identifier: Apache-2.0 */
/* Draws of image operations and structures: how often, and what they do not depend on. */
#include "tests/transforms/file_plan.h"
#include "transforms/geometry.h"

#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

enum { N_DRAWS = 100000 };

static void draw_geometry(const struct mr_plan *plan, uint64_t index, struct mr_geometry *g)
{
    struct mr_rng rng;
    mr_rng_init(&rng, 7, 3, index);
    assert_int_equal(mr_geometry_make(plan, 100, 80, &rng, g, NULL), MR_OK);
}

/* Spell a sample's calls by their kinds: i for invert and so on. */
static void spell_calls(const struct mr_geometry *g, char text_out[64])
{
    static const char letters[MR_N_CALL_KINDS] = {[MR_CALL_INVERT] = 'i',
                                                  [MR_CALL_POSTERIZE] = 'p',
                                                  [MR_CALL_SOLARIZE] = 's',
                                                  [MR_CALL_AUTOCONTRAST] = 'a',
                                                  [MR_CALL_EQUALIZE] = 'e',
                                                  [MR_CALL_GRAYSCALE] = 'g',
                                                  [MR_CALL_BRIGHTNESS] = 'b',
                                                  [MR_CALL_CONTRAST] = 'c',
                                                  [MR_CALL_SATURATION] = 't',
                                                  [MR_CALL_HUE] = 'h',
                                                  [MR_CALL_SHARPNESS] = 'r',
                                                  [MR_CALL_GAUSSIAN_BLUR] = 'u',
                                                  [MR_CALL_PIL_GAUSSIAN_BLUR] = 'l',
                                                  [MR_CALL_ROTATE] = 'o',
                                                  [MR_CALL_AFFINE] = 'f',
                                                  [MR_CALL_PERSPECTIVE] = 'v',
                                                  [MR_CALL_HFLIP] = 'x',
                                                  [MR_CALL_VFLIP] = 'y'};
    uint32_t i = 0;
    for (; i < g->calls.n && i < 63; i++)
        text_out[i] = letters[g->calls.calls[i].kind];
    text_out[i] = '\0';
}

struct outcome {
    const char *calls;
    double p;
};

/*
 * The outcomes, up to the first with p 0, have the probabilities p; N_DRAWS samples must pass a
 * chi-square test.
 */
static void check_chances(const char *text, const struct outcome *outcomes)
{
    struct mr_plan plan = file_plan(text);
    struct mr_geometry *g = malloc(sizeof *g);
    uint32_t counts[32] = {0}, n = 0;
    while (outcomes[n].calls)
        n++;
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        char calls[64];
        uint32_t k = 0;
        draw_geometry(&plan, i, g);
        spell_calls(g, calls);
        while (k < n && strcmp(outcomes[k].calls, calls) != 0)
            k++;
        if (k == n)
            fail_msg("%s: \"%s\" was drawn", text, calls);
        counts[k]++;
    }
    double square = 0.0;
    for (uint32_t k = 0; k < n; k++) {
        double want = N_DRAWS * outcomes[k].p;
        square += (counts[k] - want) * (counts[k] - want) / want;
    }
    /*
     * Far beyond the 99.9th percentile of n - 1 degrees of freedom. Every run makes the same draws.
     */
    double limit = (n - 1) + 3.1 * sqrt(2.0 * (n - 1)) + 6.0;
    if (square > limit)
        fail_msg("%s: chi-square %.1f of %u outcomes is above %.1f", text, square, n, limit);
    free(g);
}

static void chances_are_those_of_the_text(void **state)
{
    (void)state;
    check_chances("invert", (struct outcome[]){{"i", 0.5}, {"", 0.5}, {NULL, 0}});
    check_chances("posterize(4,0.25)", (struct outcome[]){{"p", 0.25}, {"", 0.75}, {NULL, 0}});
    check_chances("solarize(128,p=0.9)", (struct outcome[]){{"s", 0.9}, {"", 0.1}, {NULL, 0}});
    check_chances(
        "random_grayscale+equalize(0.2)",
        (struct outcome[]){{"g", 0.08}, {"e", 0.18}, {"ge", 0.02}, {"", 0.72}, {NULL, 0}});
    check_chances("autocontrast(1)+invert(0)+grayscale",
                  (struct outcome[]){{"ag", 1.0}, {NULL, 0}});
    check_chances("random_apply(invert(1)+equalize(0.5),0.3)",
                  (struct outcome[]){{"ie", 0.15}, {"i", 0.15}, {"", 0.7}, {NULL, 0}});
    check_chances("random_choice(invert(1),posterize(4,1)+equalize(1),solarize(0,0.5))",
                  (struct outcome[]){
                      {"i", 1 / 3.0}, {"pe", 1 / 3.0}, {"s", 1 / 6.0}, {"", 1 / 6.0}, {NULL, 0}});
    check_chances("random_order(invert(1),posterize(4,1)+equalize(1),solarize(0,1))",
                  (struct outcome[]){{"ipes", 1 / 6.0},
                                     {"ispe", 1 / 6.0},
                                     {"peis", 1 / 6.0},
                                     {"pesi", 1 / 6.0},
                                     {"sipe", 1 / 6.0},
                                     {"spei", 1 / 6.0},
                                     {NULL, 0}});
    check_chances(
        "random_choice(random_apply(random_choice(invert(1),equalize(1)),0.5),autocontrast(1))",
        (struct outcome[]){{"i", 0.125}, {"e", 0.125}, {"", 0.25}, {"a", 0.5}, {NULL, 0}});
    check_chances("random_order(hflip,vflip(0.2))",
                  (struct outcome[]){
                      {"", 0.4}, {"x", 0.4}, {"y", 0.1}, {"xy", 0.05}, {"yx", 0.05}, {NULL, 0}});
}

static void jitter_has_every_order_equally_often(void **state)
{
    (void)state;
    static const char *const orders[24] = {"bcth", "bcht", "btch", "bthc", "bhct", "bhtc",
                                           "cbth", "cbht", "ctbh", "cthb", "chbt", "chtb",
                                           "tbch", "tbhc", "tcbh", "tchb", "thbc", "thcb",
                                           "hbct", "hbtc", "hcbt", "hctb", "htbc", "htcb"};
    struct outcome outcomes[25] = {{NULL, 0}};
    for (int i = 0; i < 24; i++)
        outcomes[i] = (struct outcome){orders[i], 1 / 24.0};
    check_chances("color_jitter(0.8,0.8,0.8,0.2)", outcomes);
    check_chances("gaussian_blur(3)+pil_gaussian_blur(0.1:2)",
                  (struct outcome[]){{"ul", 1.0}, {NULL, 0}});
    /* A part that does nothing is not drawn. */
    check_chances("color_jitter(0.8,hue=0.2)",
                  (struct outcome[]){{"bh", 0.5}, {"hb", 0.5}, {NULL, 0}});
}

/* Each factor, in 20 classes of equal width. */
static void jitter_draws_its_factors_uniformly(void **state)
{
    (void)state;
    static const double lo[4] = {0.2, 0.5, 0.0, -0.2}, hi[4] = {1.8, 1.5, 2.0, 0.2};
    struct mr_plan plan = file_plan("color_jitter(0.8,0.5,3:3,0.2)+color_jitter(saturation=1)");
    struct mr_geometry *g = malloc(sizeof *g);
    uint32_t counts[4][20] = {{0}};
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        draw_geometry(&plan, i, g);
        assert_int_equal(g->calls.n, 5);
        for (uint32_t k = 0; k < 5; k++) {
            const struct mr_image_call *call = &g->calls.calls[k];
            uint32_t part = call->kind - MR_CALL_BRIGHTNESS;
            if (part == 2 && k < 4) {
                assert_true(call->args[0] == 3.0);
                continue;
            }
            double at = (call->args[0] - lo[part]) / (hi[part] - lo[part]) * 20;
            assert_true(at > -1e-5 && at < 20 + 1e-5);
            counts[part][at >= 20 ? 19 : at < 0 ? 0 : (int)at]++;
        }
    }
    for (int part = 0; part < 4; part++) {
        double square = 0.0, want = N_DRAWS / 20.0;
        for (int k = 0; k < 20; k++)
            square += (counts[part][k] - want) * (counts[part][k] - want) / want;
        /* the 99.9th percentile of 19 degrees of freedom; the draws never change */
        assert_true(square < 43.8);
    }
    free(g);
}

/* For samples 0 to 199, the boxes of the geometry and the first calls must be equal. */
static void expect_prefix(const char *shorter, const char *longer)
{
    struct mr_plan a = file_plan(shorter), b = file_plan(longer);
    struct mr_geometry *g = calloc(2, sizeof *g);
    for (uint64_t i = 0; i < 200; i++) {
        draw_geometry(&a, i, &g[0]);
        draw_geometry(&b, i, &g[1]);
        assert_memory_equal(&g[0].crop, &g[1].crop, sizeof g[0].crop);
        assert_int_equal(g[0].stages[0].hflip, g[1].stages[0].hflip);
        assert_true(g[0].calls.n <= g[1].calls.n);
        for (uint32_t k = 0; k < g[0].calls.n; k++) {
            assert_int_equal(g[0].calls.calls[k].kind, g[1].calls.calls[k].kind);
            assert_memory_equal(g[0].calls.calls[k].args, g[1].calls.calls[k].args,
                                sizeof g[0].calls.calls[k].args);
        }
    }
    free(g);
}

static void an_operation_at_the_end_changes_no_draw_before_it(void **state)
{
    (void)state;
    expect_prefix("train:64", "train:64+invert");
    expect_prefix("train:64+invert+solarize(9)",
                  "train:64+invert+solarize(9)+random_order(equalize,invert)");
    expect_prefix(
        "train:64+random_apply(invert+equalize(0.4))",
        "train:64+random_apply(invert+equalize(0.4))+posterize(3)+random_crop(30)+autocontrast");
}

static void images_that_calls_change_are_made_whole(void **state)
{
    (void)state;
    struct mr_geometry *g = malloc(sizeof *g);
    struct mr_plan plan = file_plan("resize(50:60)+equalize(1)+center_crop(10)+hflip(1)");
    draw_geometry(&plan, 0, g);
    assert_int_equal(g->n_stages, 2);
    assert_int_equal(g->stages[0].window.width, 60);
    assert_int_equal(g->stages[0].window.height, 50);
    assert_int_equal(g->stages[0].n_calls, 1);
    assert_int_equal(g->stages[1].need.x, 25);
    assert_int_equal(g->stages[1].need.width, 10);
    assert_true(g->stages[1].hflip);
    assert_int_equal(g->crop.width, 100);
    /* Nothing is drawn: as if the operation were not there. */
    plan = file_plan("resize(50:60)+equalize(0)+center_crop(10)+hflip(1)");
    draw_geometry(&plan, 0, g);
    assert_int_equal(g->n_stages, 1);
    /* The call does not change the reported crop. */
    plan = file_plan("equalize(1)+center_crop(40)+invert(1)+center_crop(20)");
    draw_geometry(&plan, 0, g);
    assert_int_equal(g->n_stages, 3);
    assert_int_equal(g->crop.x, 40);
    assert_int_equal(g->crop.y, 30);
    assert_int_equal(g->crop.width, 20);
    plan = file_plan("hflip(1)+equalize(1)+center_crop(40:30)+resize(20)");
    draw_geometry(&plan, 0, g);
    assert_int_equal(g->crop.x, 35);
    assert_int_equal(g->crop.width, 30);
    free(g);
}

/* No call if three corners are on a line, and none with infinite coefficients. */
static void perspectives_have_four_corners(void **state)
{
    (void)state;
    static const uint32_t sizes[][2] = {{1, 1}, {1, 7}, {2, 2}, {3, 3}, {40, 3}, {64, 64}};
    struct mr_plan plan = file_plan("perspective(1,1)");
    struct mr_geometry *g = malloc(sizeof *g);
    for (uint32_t i = 0; i < 6; i++) {
        uint32_t n_calls = 0;
        for (uint64_t index = 0; index < 2000; index++) {
            struct mr_rng rng;
            mr_rng_init(&rng, 7, 3, index);
            assert_int_equal(mr_geometry_make(&plan, sizes[i][0], sizes[i][1], &rng, g, NULL),
                             MR_OK);
            for (uint32_t k = 0; k < 8 && g->calls.n; k++)
                assert_true(isfinite(g->calls.calls[0].args[k]));
            n_calls += g->calls.n;
        }
        assert_true(i < 2 ? n_calls == 0 : n_calls > 0 && n_calls < 2000);
    }
    free(g);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chances_are_those_of_the_text),
        cmocka_unit_test(jitter_has_every_order_equally_often),
        cmocka_unit_test(jitter_draws_its_factors_uniformly),
        cmocka_unit_test(an_operation_at_the_end_changes_no_draw_before_it),
        cmocka_unit_test(images_that_calls_change_are_made_whole),
        cmocka_unit_test(perspectives_have_four_corners),
    };
    return cmocka_run_group_tests_name("image_params", tests, NULL, NULL);
}
