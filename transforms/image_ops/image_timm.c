/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Levels are computed as in timm, in Python's doubles. Draws are Philox's, in timm's order. timm
 * draws from Python's and NumPy's generators, so only the distributions can be equal.
 */
#include "transforms/image_ops/image_timm.h"

#include "base/normal.h"
#include "transforms/interpolation.h"

#include <math.h>
#include <stdio.h>

enum op {
    AUTOCONTRAST,
    EQUALIZE,
    INVERT,
    ROTATE,
    POSTERIZE,
    POSTERIZE_INCREASING,
    POSTERIZE_ORIGINAL,
    SOLARIZE,
    SOLARIZE_INCREASING,
    SOLARIZE_ADD,
    COLOR,
    COLOR_INCREASING,
    CONTRAST,
    CONTRAST_INCREASING,
    BRIGHTNESS,
    BRIGHTNESS_INCREASING,
    SHARPNESS,
    SHARPNESS_INCREASING,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    DESATURATE,
    GAUSSIAN_BLUR,
    GAUSSIAN_BLUR_RAND,
    N_OPS
};

const char *const mr_image_timm_names[] = {[AUTOCONTRAST] = "AutoContrast",
                                           [EQUALIZE] = "Equalize",
                                           [INVERT] = "Invert",
                                           [ROTATE] = "Rotate",
                                           [POSTERIZE] = "Posterize",
                                           [POSTERIZE_INCREASING] = "PosterizeIncreasing",
                                           [POSTERIZE_ORIGINAL] = "PosterizeOriginal",
                                           [SOLARIZE] = "Solarize",
                                           [SOLARIZE_INCREASING] = "SolarizeIncreasing",
                                           [SOLARIZE_ADD] = "SolarizeAdd",
                                           [COLOR] = "Color",
                                           [COLOR_INCREASING] = "ColorIncreasing",
                                           [CONTRAST] = "Contrast",
                                           [CONTRAST_INCREASING] = "ContrastIncreasing",
                                           [BRIGHTNESS] = "Brightness",
                                           [BRIGHTNESS_INCREASING] = "BrightnessIncreasing",
                                           [SHARPNESS] = "Sharpness",
                                           [SHARPNESS_INCREASING] = "SharpnessIncreasing",
                                           [SHEAR_X] = "ShearX",
                                           [SHEAR_Y] = "ShearY",
                                           [TRANSLATE_X] = "TranslateXRel",
                                           [TRANSLATE_Y] = "TranslateYRel",
                                           [DESATURATE] = "Desaturate",
                                           [GAUSSIAN_BLUR] = "GaussianBlur",
                                           [GAUSSIAN_BLUR_RAND] = "GaussianBlurRand",
                                           NULL};

const char *const mr_image_timm_filters[] = {"random", "nearest", "bilinear", "bicubic", NULL};

/* One half of a pair of AutoAugment. */
struct half {
    enum op op; /* POSTERIZE: the table's own, or POSTERIZE_INCREASING in a table with an r */
    double p;
    double magnitude;
};

enum { N_PAIRS = 25 };

/* original and v0. */
static const struct half pairs[2][N_PAIRS][2] = {
    {{{POSTERIZE, 0.4, 8}, {ROTATE, 0.6, 9}},  {{SOLARIZE, 0.6, 5}, {AUTOCONTRAST, 0.6, 5}},
     {{EQUALIZE, 0.8, 8}, {EQUALIZE, 0.6, 3}}, {{POSTERIZE, 0.6, 7}, {POSTERIZE, 0.6, 6}},
     {{EQUALIZE, 0.4, 7}, {SOLARIZE, 0.2, 4}}, {{EQUALIZE, 0.4, 4}, {ROTATE, 0.8, 8}},
     {{SOLARIZE, 0.6, 3}, {EQUALIZE, 0.6, 7}}, {{POSTERIZE, 0.8, 5}, {EQUALIZE, 1.0, 2}},
     {{ROTATE, 0.2, 3}, {SOLARIZE, 0.6, 8}},   {{EQUALIZE, 0.6, 8}, {POSTERIZE, 0.4, 6}},
     {{ROTATE, 0.8, 8}, {COLOR, 0.4, 0}},      {{ROTATE, 0.4, 9}, {EQUALIZE, 0.6, 2}},
     {{EQUALIZE, 0.0, 7}, {EQUALIZE, 0.8, 8}}, {{INVERT, 0.6, 4}, {EQUALIZE, 1.0, 8}},
     {{COLOR, 0.6, 4}, {CONTRAST, 1.0, 8}},    {{ROTATE, 0.8, 8}, {COLOR, 1.0, 2}},
     {{COLOR, 0.8, 8}, {SOLARIZE, 0.8, 7}},    {{SHARPNESS, 0.4, 7}, {INVERT, 0.6, 8}},
     {{SHEAR_X, 0.6, 5}, {EQUALIZE, 1.0, 9}},  {{COLOR, 0.4, 0}, {EQUALIZE, 0.6, 3}},
     {{EQUALIZE, 0.4, 7}, {SOLARIZE, 0.2, 4}}, {{SOLARIZE, 0.6, 5}, {AUTOCONTRAST, 0.6, 5}},
     {{INVERT, 0.6, 4}, {EQUALIZE, 1.0, 8}},   {{COLOR, 0.6, 4}, {CONTRAST, 1.0, 8}},
     {{EQUALIZE, 0.8, 8}, {EQUALIZE, 0.6, 3}}},
    {{{EQUALIZE, 0.8, 1}, {SHEAR_Y, 0.8, 4}},
     {{COLOR, 0.4, 9}, {EQUALIZE, 0.6, 3}},
     {{COLOR, 0.4, 1}, {ROTATE, 0.6, 8}},
     {{SOLARIZE, 0.8, 3}, {EQUALIZE, 0.4, 7}},
     {{SOLARIZE, 0.4, 2}, {SOLARIZE, 0.6, 2}},
     {{COLOR, 0.2, 0}, {EQUALIZE, 0.8, 8}},
     {{EQUALIZE, 0.4, 8}, {SOLARIZE_ADD, 0.8, 3}},
     {{SHEAR_X, 0.2, 9}, {ROTATE, 0.6, 8}},
     {{COLOR, 0.6, 1}, {EQUALIZE, 1.0, 2}},
     {{INVERT, 0.4, 9}, {ROTATE, 0.6, 0}},
     {{EQUALIZE, 1.0, 9}, {SHEAR_Y, 0.6, 3}},
     {{COLOR, 0.4, 7}, {EQUALIZE, 0.6, 0}},
     {{POSTERIZE, 0.4, 6}, {AUTOCONTRAST, 0.4, 7}},
     {{SOLARIZE, 0.6, 8}, {COLOR, 0.6, 9}},
     {{SOLARIZE, 0.2, 4}, {ROTATE, 0.8, 9}},
     {{ROTATE, 1.0, 7}, {TRANSLATE_Y, 0.8, 9}},
     {{SHEAR_X, 0.0, 0}, {SOLARIZE, 0.8, 4}},
     {{SHEAR_Y, 0.8, 0}, {COLOR, 0.6, 4}},
     {{COLOR, 1.0, 0}, {ROTATE, 0.6, 2}},
     {{EQUALIZE, 0.8, 4}, {EQUALIZE, 0.0, 8}},
     {{EQUALIZE, 1.0, 4}, {AUTOCONTRAST, 0.6, 2}},
     {{SHEAR_Y, 0.4, 7}, {SOLARIZE_ADD, 0.6, 7}},
     {{POSTERIZE, 0.8, 2}, {SOLARIZE, 0.6, 10}},
     {{SOLARIZE, 0.6, 8}, {EQUALIZE, 0.6, 1}},
     {{COLOR, 0.8, 6}, {ROTATE, 0.4, 5}}},
};

static const struct half three[3] = {
    {SOLARIZE, 1.0, 5}, {DESATURATE, 1.0, 10}, {GAUSSIAN_BLUR_RAND, 1.0, 10}};

/* What a rand policy chooses from. With weights no operation is chosen twice. */
struct set {
    uint32_t n;
    bool has_weights;
    struct {
        enum op op;
        double weight;
    } entries[15];
};

static const struct set sets[] = {
    [MR_TIMM_USUAL] = {15,
                       false,
                       {{AUTOCONTRAST},
                        {EQUALIZE},
                        {INVERT},
                        {ROTATE},
                        {POSTERIZE},
                        {SOLARIZE},
                        {SOLARIZE_ADD},
                        {COLOR},
                        {CONTRAST},
                        {BRIGHTNESS},
                        {SHARPNESS},
                        {SHEAR_X},
                        {SHEAR_Y},
                        {TRANSLATE_X},
                        {TRANSLATE_Y}}},
    [MR_TIMM_INCREASING] = {15,
                            false,
                            {{AUTOCONTRAST},
                             {EQUALIZE},
                             {INVERT},
                             {ROTATE},
                             {POSTERIZE_INCREASING},
                             {SOLARIZE_INCREASING},
                             {SOLARIZE_ADD},
                             {COLOR_INCREASING},
                             {CONTRAST_INCREASING},
                             {BRIGHTNESS_INCREASING},
                             {SHARPNESS_INCREASING},
                             {SHEAR_X},
                             {SHEAR_Y},
                             {TRANSLATE_X},
                             {TRANSLATE_Y}}},
    [MR_TIMM_WEIGHTED] = {15,
                          true,
                          {{ROTATE, 3},
                           {SHEAR_X, 2},
                           {SHEAR_Y, 2},
                           {TRANSLATE_X, 1},
                           {TRANSLATE_Y, 1},
                           {COLOR_INCREASING, 0.25},
                           {SHARPNESS_INCREASING, 0.25},
                           {AUTOCONTRAST, 0.25},
                           {SOLARIZE_INCREASING, 0.05},
                           {SOLARIZE_ADD, 0.05},
                           {CONTRAST_INCREASING, 0.05},
                           {BRIGHTNESS_INCREASING, 0.05},
                           {EQUALIZE, 0.05},
                           {POSTERIZE_INCREASING, 0.05},
                           {INVERT, 0.05}}},
    [MR_TIMM_SET_3A] = {3, false, {{SOLARIZE_INCREASING}, {DESATURATE}, {GAUSSIAN_BLUR}}},
    [MR_TIMM_SET_3AW] = {14,
                         true,
                         {{SOLARIZE_INCREASING, 6},
                          {DESATURATE, 6},
                          {GAUSSIAN_BLUR, 6},
                          {ROTATE, 3},
                          {SHEAR_X, 2},
                          {SHEAR_Y, 2},
                          {POSTERIZE_INCREASING, 1},
                          {AUTOCONTRAST, 1},
                          {COLOR_INCREASING, 1},
                          {SHARPNESS_INCREASING, 1},
                          {CONTRAST_INCREASING, 1},
                          {BRIGHTNESS_INCREASING, 1},
                          {EQUALIZE, 1},
                          {INVERT, 1}}},
};

/* The magnitude that timm calls 10. */
#define DENOMINATOR 10.0
/* From this deviation on, every magnitude up to a rand policy's own is equally likely. */
#define UNIFORM_STD 100.0

static double at_least(double value, double least)
{
    return value < least ? least : value;
}

static double at_most(double value, double most)
{
    return value > most ? most : value;
}

static void add_warp(double sign, const struct mr_timm_choice *choice, uint32_t place, double value,
                     const double *fill, struct mr_image_calls *calls)
{
    double args[10] = {1.0, 0.0, 0.0, 0.0, 1.0, 0.0, choice->filter, fill[0], fill[1], fill[2]};
    args[place] = sign * value + 0.0; /* no -0 */
    mr_image_calls_add(calls, MR_CALL_PIL_AFFINE, 10, args);
}

static void add_rotation(double degrees, const struct mr_timm_choice *choice, const double *fill,
                         struct mr_image_calls *calls)
{
    const double args[7] = {degrees + 0.0, choice->filter, fill[0],    fill[1],
                            fill[2],       (double)NAN,    (double)NAN};
    mr_image_calls_add(calls, MR_CALL_ROTATE, 7, args);
}

static void add_call(enum mr_image_call_kind kind, double arg, struct mr_image_calls *calls)
{
    mr_image_calls_add(calls, kind, 1, &arg);
}

/* More than 8 bits count as 8, fewer than 0 as 0. */
static void add_posterize(double bits, struct mr_image_calls *calls)
{
    add_call(MR_CALL_POSTERIZE, at_least(at_most(bits, 8.0), 0.0), calls);
}

void mr_image_timm_add(const struct mr_timm_choice *choice, uint32_t width, uint32_t height,
                       const double fill[3], struct mr_image_calls *calls)
{
    const double level = choice->magnitude / DENOMINATOR, sign = choice->negates ? -1.0 : 1.0;
    const double factor = level * 1.8 + 0.1, increasing = at_least(1.0 + sign * (level * 0.9), 0.1);
    switch ((enum op)choice->op) {
    case AUTOCONTRAST: mr_image_calls_add(calls, MR_CALL_AUTOCONTRAST, 0, NULL); break;
    case EQUALIZE: mr_image_calls_add(calls, MR_CALL_EQUALIZE, 0, NULL); break;
    case INVERT: mr_image_calls_add(calls, MR_CALL_INVERT, 0, NULL); break;
    case ROTATE: add_rotation(sign * (level * 30.0), choice, fill, calls); break;
    case POSTERIZE: add_posterize(trunc(level * 4.0), calls); break;
    case POSTERIZE_INCREASING: add_posterize(4.0 - trunc(level * 4.0), calls); break;
    case POSTERIZE_ORIGINAL: add_posterize(trunc(level * 4.0) + 4.0, calls); break;
    case SOLARIZE: add_call(MR_CALL_SOLARIZE, at_most(trunc(level * 256.0), 256.0), calls); break;
    case SOLARIZE_INCREASING:
        add_call(MR_CALL_SOLARIZE, 256.0 - at_most(trunc(level * 256.0), 256.0), calls);
        break;
    case SOLARIZE_ADD:
        add_call(MR_CALL_SOLARIZE_ADD, at_most(trunc(level * 110.0), 128.0), calls);
        break;
    case COLOR: add_call(MR_CALL_SATURATION, factor, calls); break;
    case COLOR_INCREASING: add_call(MR_CALL_SATURATION, increasing, calls); break;
    case CONTRAST: add_call(MR_CALL_CONTRAST, factor, calls); break;
    case CONTRAST_INCREASING: add_call(MR_CALL_CONTRAST, increasing, calls); break;
    case BRIGHTNESS: add_call(MR_CALL_BRIGHTNESS, factor, calls); break;
    case BRIGHTNESS_INCREASING: add_call(MR_CALL_BRIGHTNESS, increasing, calls); break;
    case SHARPNESS: add_call(MR_CALL_SHARPNESS, factor, calls); break;
    case SHARPNESS_INCREASING: add_call(MR_CALL_SHARPNESS, increasing, calls); break;
    case SHEAR_X: add_warp(sign, choice, 1, level * 0.3, fill, calls); break;
    case SHEAR_Y: add_warp(sign, choice, 3, level * 0.3, fill, calls); break;
    case TRANSLATE_X: add_warp(sign, choice, 2, level * 0.45 * width, fill, calls); break;
    case TRANSLATE_Y: add_warp(sign, choice, 5, level * 0.45 * height, fill, calls); break;
    case DESATURATE:
        add_call(MR_CALL_SATURATION, 1.0 - at_most(0.5 + 0.5 * level, 1.0), calls);
        break;
    case GAUSSIAN_BLUR:
        add_call(MR_CALL_PIL_GAUSSIAN_BLUR, at_most(0.1 + (2.0 - 0.1) * level, 2.0), calls);
        break;
    case GAUSSIAN_BLUR_RAND:
        add_call(MR_CALL_PIL_GAUSSIAN_BLUR, 0.1 + (2.0 * at_most(level, 1.0) - 0.1) * choice->part,
                 calls);
        break;
    case N_OPS: break;
    }
}

static double draw_part(struct mr_image_params_source *draw)
{
    return (double)mr_rng_uniform(draw->rng, 0.0f, 1.0f);
}

static double draw_filter(struct mr_image_params_source *draw)
{
    static const double filters[] = {-1.0, MR_NEAREST, MR_BILINEAR, MR_BICUBIC};
    double filter = filters[(size_t)draw->args[MR_TIMM_N_VALUES]];
    return filter >= 0.0 ? filter : mr_rng_below(draw->rng, 2) ? MR_BICUBIC : MR_BILINEAR;
}

static double draw_magnitude(struct mr_image_params_source *draw, double magnitude)
{
    const double *args = draw->args, std = args[MR_TIMM_STD];
    if (std > UNIFORM_STD && args[MR_TIMM_FAMILY] == MR_TIMM_RAND)
        magnitude *= draw_part(draw);
    else if (std > 0.0)
        magnitude += std * (double)mr_normal_of(mr_normal_nodes, mr_rng_u32(draw->rng));
    return at_least(at_most(magnitude, args[MR_TIMM_MOST]), 0.0);
}

/* timm's AugmentOp. */
static void draw_op(struct mr_image_params_source *draw, const struct half *half)
{
    struct mr_timm_choice choice = {.op = half->op};
    if (half->p < 1.0 && !(draw_part(draw) <= half->p))
        return;
    choice.magnitude = draw_magnitude(draw, half->magnitude);
    choice.negates = mr_rng_below(draw->rng, 2);
    choice.filter = draw_filter(draw);
    choice.part = draw_part(draw);
    mr_image_timm_add(&choice, draw->width, draw->height, draw->args + MR_TIMM_N_VALUES + 1,
                      draw->calls);
}

/* Choose an operation that is not chosen yet, with a probability by its weight. */
static uint32_t draw_weighted(struct mr_image_params_source *draw, const struct set *set,
                              uint32_t chosen)
{
    double sum = 0.0;
    uint32_t last = 0;
    for (uint32_t i = 0; i < set->n; i++)
        sum += chosen >> i & 1 ? 0.0 : set->entries[i].weight;
    double at = sum * draw_part(draw);
    for (uint32_t i = 0; i < set->n; i++) {
        if (chosen >> i & 1)
            continue;
        last = i;
        at -= set->entries[i].weight;
        if (at < 0.0)
            break;
    }
    return last;
}

/* All operations are chosen before the first one draws. */
static void draw_rand(struct mr_image_params_source *draw)
{
    const double *args = draw->args;
    const struct set *set = &sets[(size_t)args[MR_TIMM_SET]];
    const uint32_t n = (uint32_t)args[MR_TIMM_CALLS];
    uint32_t chosen = 0;
    uint8_t places[MR_IMAGE_MAX_CALLS];
    for (uint32_t i = 0; i < n; i++) {
        uint32_t place =
            set->has_weights ? draw_weighted(draw, set, chosen) : mr_rng_below(draw->rng, set->n);
        places[i] = (uint8_t)place;
        chosen |= 1u << place;
    }
    for (uint32_t i = 0; i < n; i++) {
        const struct half half = {set->entries[places[i]].op, args[MR_TIMM_CHANCE],
                                  args[MR_TIMM_MAGNITUDE]};
        draw_op(draw, &half);
    }
}

static enum op find_posterize(enum mr_timm_family family)
{
    if (family == MR_TIMM_ORIGINAL_R || family == MR_TIMM_V0_R)
        return POSTERIZE_INCREASING;
    return family == MR_TIMM_ORIGINAL ? POSTERIZE_ORIGINAL : POSTERIZE;
}

static void draw_auto(struct mr_image_params_source *draw, enum mr_timm_family family)
{
    bool is_original = family == MR_TIMM_ORIGINAL || family == MR_TIMM_ORIGINAL_R;
    const struct half *pair = pairs[is_original ? 0 : 1][mr_rng_below(draw->rng, N_PAIRS)];
    for (int i = 0; i < 2; i++) {
        struct half half = pair[i];
        half.op = half.op == POSTERIZE ? find_posterize(family) : half.op;
        draw_op(draw, &half);
    }
}

void mr_image_timm_draw(struct mr_image_params_source *draw)
{
    enum mr_timm_family family = (enum mr_timm_family)draw->args[MR_TIMM_FAMILY];
    if (family == MR_TIMM_RAND)
        draw_rand(draw);
    else if (family == MR_TIMM_3A)
        draw_op(draw, &three[mr_rng_below(draw->rng, 3)]);
    else
        draw_auto(draw, family);
}

bool mr_image_timm_refuse(const double *args, char why_out[MR_IMAGE_OP_WHY])
{
    const struct set *set = &sets[(size_t)args[MR_TIMM_SET]];
    snprintf(why_out, MR_IMAGE_OP_WHY,
             "policy: n is above the number of operations, and with weights none is chosen twice");
    return set->has_weights && args[MR_TIMM_CALLS] > set->n;
}
