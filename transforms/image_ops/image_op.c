/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of operations and their draws. torchvision compares some probabilities in f32
 * (torch.rand(1) < p), some as Python's floats (torch.rand(1).item() < p); so does this file.
 */
#include "transforms/image_ops/image_op.h"

#include "transforms/image_ops/image_gaussian_blur.h"
#include "transforms/image_ops/image_op_warp.h"
#include "transforms/image_ops/image_policy.h"
#include "transforms/image_ops/image_timm.h"

#include <math.h>
#include <stdio.h>

uint32_t mr_image_op_width(const struct mr_image_param *param)
{
    switch ((enum mr_image_param_kind)param->kind) {
    case MR_PARAM_RANGE:
    case MR_PARAM_SPAN:
    case MR_PARAM_PAIR: return 2;
    case MR_PARAM_COLOR: return 3;
    case MR_PARAM_RANGES: return 4;
    case MR_PARAM_POLICY: return MR_TIMM_N_VALUES;
    default: return 1;
    }
}

bool mr_image_op_draws_size(uint32_t which, const double *args)
{
    return mr_image_ops[which].draw == mr_image_op_warp_rotation && args[8] == 1.0;
}

uint32_t mr_image_op_max_calls(uint32_t which, const double *args)
{
    const struct mr_image_op *op = &mr_image_ops[which];
    if (op->count_calls)
        return op->count_calls(args);
    return op->repeats ? op->max_calls * (uint32_t)args[0] : op->max_calls;
}

/* The first n_args arguments are the call's; the next one is p. */
static void draw_call(struct mr_image_params_source *draw, enum mr_image_call_kind kind,
                      uint32_t n_args)
{
    if (mr_rng_chance(draw->rng, draw->args[n_args]))
        mr_image_calls_add(draw->calls, kind, n_args, draw->args);
}

static void draw_invert(struct mr_image_params_source *draw)
{
    draw_call(draw, MR_CALL_INVERT, 0);
}

static void draw_posterize(struct mr_image_params_source *draw)
{
    draw_call(draw, MR_CALL_POSTERIZE, 1);
}

static void draw_solarize(struct mr_image_params_source *draw)
{
    draw_call(draw, MR_CALL_SOLARIZE, 1);
}

static void draw_autocontrast(struct mr_image_params_source *draw)
{
    draw_call(draw, MR_CALL_AUTOCONTRAST, 0);
}

static void draw_equalize(struct mr_image_params_source *draw)
{
    draw_call(draw, MR_CALL_EQUALIZE, 0);
}

static void draw_grayscale(struct mr_image_params_source *draw)
{
    mr_image_calls_add(draw->calls, MR_CALL_GRAYSCALE, 1, draw->args);
}

static void draw_random_grayscale(struct mr_image_params_source *draw)
{
    const double channels = 3;
    if (mr_rng_chance(draw->rng, (double)(float)draw->args[0]))
        mr_image_calls_add(draw->calls, MR_CALL_GRAYSCALE, 1, &channels);
}

static void draw_sharpness(struct mr_image_params_source *draw)
{
    draw_call(draw, MR_CALL_SHARPNESS, 1);
}

static void draw_hflip(struct mr_image_params_source *draw)
{
    if (mr_rng_chance(draw->rng, (double)(float)draw->args[0]))
        mr_image_calls_add(draw->calls, MR_CALL_HFLIP, 0, NULL);
}

static void draw_vflip(struct mr_image_params_source *draw)
{
    if (mr_rng_chance(draw->rng, (double)(float)draw->args[0]))
        mr_image_calls_add(draw->calls, MR_CALL_VFLIP, 0, NULL);
}

/* torch.randperm(n) of at most 4. */
static void draw_order(struct mr_image_params_source *draw, uint32_t n, uint32_t order_out[4])
{
    for (uint32_t i = 0; i < n; i++)
        order_out[i] = i;
    for (uint32_t i = 0; i + 1 < n; i++) {
        uint32_t other = i + mr_rng_below(draw->rng, n - i), part = order_out[other];
        order_out[other] = order_out[i];
        order_out[i] = part;
    }
}

/*
 * ColorJitter.get_params: an order, then a factor for each part whose range is more than its
 * neutral value.
 */
static void draw_color_jitter(struct mr_image_params_source *draw)
{
    static const enum mr_image_call_kind kinds[4] = {MR_CALL_BRIGHTNESS, MR_CALL_CONTRAST,
                                                     MR_CALL_SATURATION, MR_CALL_HUE};
    static const double neutral[4] = {1.0, 1.0, 1.0, 0.0};
    uint32_t order[4];
    bool is_used[4];
    double factors[4] = {0};
    draw_order(draw, 4, order);
    for (uint32_t i = 0; i < 4; i++) {
        const double *range = &draw->args[2 * i];
        is_used[i] = range[0] != neutral[i] || range[1] != neutral[i];
        if (is_used[i])
            factors[i] = (double)mr_rng_uniform(draw->rng, (float)range[0], (float)range[1]);
    }
    for (uint32_t i = 0; i < 4; i++)
        if (is_used[order[i]])
            mr_image_calls_add(draw->calls, kinds[order[i]], 1, &factors[order[i]]);
}

/* A span of one value is drawn too, as in torchvision; this rounds the value to f32. */
static double draw_span(struct mr_image_params_source *draw, const double *span)
{
    return (double)mr_rng_uniform(draw->rng, (float)span[0], (float)span[1]);
}

static void draw_channel_permutation(struct mr_image_params_source *draw)
{
    uint32_t order[4];
    draw_order(draw, 3, order);
    const double args[3] = {order[0], order[1], order[2]};
    mr_image_calls_add(draw->calls, MR_CALL_PERMUTE_CHANNELS, 3, args);
}

/* RandomPhotometricDistort.make_params of v2. */
static void draw_photometric_distort(struct mr_image_params_source *draw)
{
    static const enum mr_image_call_kind kinds[4] = {MR_CALL_BRIGHTNESS, MR_CALL_CONTRAST,
                                                     MR_CALL_SATURATION, MR_CALL_HUE};
    const double p = (double)(float)draw->args[8];
    double factors[4];
    bool is_used[4];
    for (uint32_t i = 0; i < 4; i++) {
        is_used[i] = mr_rng_chance(draw->rng, p);
        factors[i] = is_used[i] ? draw_span(draw, &draw->args[2 * i]) : 0.0;
    }
    bool contrast_first = mr_rng_chance(draw->rng, 0.5);
    const uint32_t orders[2][4] = {{0, 2, 3, 1}, {0, 1, 2, 3}};
    for (uint32_t i = 0; i < 4; i++) {
        uint32_t which = orders[contrast_first][i];
        if (is_used[which])
            mr_image_calls_add(draw->calls, kinds[which], 1, &factors[which]);
    }
    if (mr_rng_chance(draw->rng, p))
        draw_channel_permutation(draw);
}

static bool refuse_quality(const double *args, char why_out[MR_IMAGE_OP_WHY])
{
    snprintf(why_out, MR_IMAGE_OP_WHY, "quality: whole numbers are expected");
    return args[0] != floor(args[0]) || args[1] != floor(args[1]);
}

static void draw_jpeg(struct mr_image_params_source *draw)
{
    const double *span = draw->args;
    const double quality = span[0] + mr_rng_below(draw->rng, (uint32_t)(span[1] - span[0]) + 1);
    mr_image_calls_add(draw->calls, MR_CALL_JPEG, 1, &quality);
}

static void draw_gaussian_blur(struct mr_image_params_source *draw)
{
    const double args[2] = {draw->args[0], draw_span(draw, draw->args + 1)};
    mr_image_calls_add(draw->calls, MR_CALL_GAUSSIAN_BLUR, 2, args);
}

static void draw_pil_gaussian_blur(struct mr_image_params_source *draw)
{
    const double radius = draw_span(draw, draw->args);
    mr_image_calls_add(draw->calls, MR_CALL_PIL_GAUSSIAN_BLUR, 1, &radius);
}

#define CHANCE(value)                                                                              \
    {                                                                                              \
        .name = "p", .hi = 1.0, .defaults = { value }                                              \
    }

/* Of a blend. With a larger factor most images have only 0 and 255 left. */
#define MAX_FACTOR 1000.0
#define FACTORS(part, letter)                                                                      \
    {                                                                                              \
        .name = part, .short_name = letter, .kind = MR_PARAM_RANGE, .hi = MAX_FACTOR, .center = 1, \
        .defaults[0] = 1, .defaults[1] = 1                                                         \
    }

#define SPAN(part, least, most, from, to)                                                          \
    {                                                                                              \
        .name = part, .kind = MR_PARAM_SPAN, .lo = least, .hi = most, .defaults[0] = from,         \
        .defaults[1] = to                                                                          \
    }

#define MAX_DEGREES 36000.0
#define DEGREES                                                                                    \
    {                                                                                              \
        .name = "degrees", .kind = MR_PARAM_RANGE, .lo = -MAX_DEGREES, .hi = MAX_DEGREES,          \
        .required = true                                                                           \
    }
#define INTERP(place)                                                                              \
    {                                                                                              \
        .name = "interp", .kind = MR_PARAM_WORD, .words = mr_image_op_warp_filters, .defaults = {  \
            place                                                                                  \
        }                                                                                          \
    }
#define FILL                                                                                       \
    {                                                                                              \
        .name = "fill", .kind = MR_PARAM_COLOR, .hi = 255                                          \
    }
#define CENTER                                                                                     \
    {                                                                                              \
        .name = "center", .kind = MR_PARAM_PAIR, .lo = -100000, .hi = 100000, .optional = true     \
    }
/* torch's linspace computes in f32. */
#define BINS                                                                                       \
    {                                                                                              \
        .name = "num_magnitude_bins", .short_name = "bins", .kind = MR_PARAM_INTEGER, .lo = 2,     \
        .hi = 1000, .defaults[0] = 31                                                              \
    }

/* Operations of torchvision's v1 and v2. */
#define AFFINE(text, function)                                                                     \
    {                                                                                              \
        .name = text, .max_calls = 1,                                                              \
        .params =                                                                                  \
            {DEGREES,                                                                              \
             {.name = "translate", .kind = MR_PARAM_PAIR, .hi = 1, .optional = true},              \
             {.name = "scale", .kind = MR_PARAM_SPAN, .lo = 0.001, .hi = 1000, .optional = true},  \
             {.name = "shear", .kind = MR_PARAM_RANGES, .lo = -180, .hi = 180, .optional = true},  \
             INTERP(0),                                                                            \
             FILL,                                                                                 \
             CENTER},                                                                              \
        .draw = (function)                                                                         \
    }
#define RAND_AUGMENT(text, function)                                                               \
    {                                                                                              \
        .name = text, .max_calls = 1, .repeats = true,                                             \
        .params = {{.name = "num_ops",                                                             \
                    .short_name = "n",                                                             \
                    .kind = MR_PARAM_INTEGER,                                                      \
                    .lo = 1,                                                                       \
                    .hi = MR_IMAGE_MAX_CALLS,                                                      \
                    .defaults = {2}},                                                              \
                   {.name = "magnitude",                                                           \
                    .short_name = "m",                                                             \
                    .kind = MR_PARAM_INTEGER,                                                      \
                    .hi = 999,                                                                     \
                    .defaults = {9}},                                                              \
                   BINS,                                                                           \
                   INTERP(0),                                                                      \
                   FILL},                                                                          \
        .refuse = mr_image_policy_refuse_rand, .draw = (function)                                  \
    }
#define TRIVIAL_AUGMENT_WIDE(text, function)                                                       \
    {                                                                                              \
        .name = text, .max_calls = 1, .params = {BINS, INTERP(0), FILL}, .draw = (function)        \
    }
#define AUTO_AUGMENT(text, function)                                                               \
    {                                                                                              \
        .name = text, .max_calls = 2,                                                              \
        .params = {{.name = "policy", .kind = MR_PARAM_WORD, .words = mr_image_policy_names},      \
                   INTERP(0),                                                                      \
                   FILL},                                                                          \
        .draw = (function)                                                                         \
    }

#define AUGMIX(text, function)                                                                     \
    {                                                                                              \
        .name = text,                                                                              \
        .params = {{.name = "severity",                                                            \
                    .kind = MR_PARAM_INTEGER,                                                      \
                    .lo = 1,                                                                       \
                    .hi = MR_IMAGE_POLICY_BINS,                                                    \
                    .defaults = {3}},                                                              \
                   {.name = "mixture_width",                                                       \
                    .kind = MR_PARAM_INTEGER,                                                      \
                    .lo = 1,                                                                       \
                    .hi = MR_IMAGE_POLICY_MAX_CHAINS,                                              \
                    .defaults = {3}},                                                              \
                   {.name = "chain_depth",                                                         \
                    .kind = MR_PARAM_INTEGER,                                                      \
                    .lo = -1,                                                                      \
                    .hi = MR_IMAGE_MAX_CALLS,                                                      \
                    .defaults = {-1}},                                                             \
                   {.name = "alpha", .lo = 0.001, .hi = 1000, .defaults = {1}},                    \
                   {.name = "all_ops", .kind = MR_PARAM_INTEGER, .hi = 1, .defaults = {1}},        \
                   INTERP(1),                                                                      \
                   {.name = "fill", .kind = MR_PARAM_COLOR, .hi = 255, .optional = true}},         \
        .refuse = mr_image_policy_refuse_augmix, .count_calls = mr_image_policy_count_augmix,      \
        .draw = (function)                                                                         \
    }

const struct mr_image_op mr_image_ops[] = {
    {.name = "invert", .max_calls = 1, .params = {CHANCE(0.5)}, .draw = draw_invert},
    {.name = "posterize",
     .max_calls = 1,
     .params = {{.name = "bits", .kind = MR_PARAM_INTEGER, .lo = 1, .hi = 8, .required = true},
                CHANCE(0.5)},
     .draw = draw_posterize},
    {.name = "solarize",
     .max_calls = 1,
     .params = {{.name = "threshold", .lo = 0, .hi = 256, .required = true}, CHANCE(0.5)},
     .draw = draw_solarize},
    {.name = "autocontrast", .max_calls = 1, .params = {CHANCE(0.5)}, .draw = draw_autocontrast},
    {.name = "equalize", .max_calls = 1, .params = {CHANCE(0.5)}, .draw = draw_equalize},
    {.name = "grayscale",
     .max_calls = 1,
     .sets_channels = true,
     .params = {{.name = "num_output_channels",
                 .kind = MR_PARAM_CHANNELS,
                 .lo = 1,
                 .hi = 3,
                 .defaults = {1}}},
     .draw = draw_grayscale},
    {.name = "color_jitter",
     .max_calls = 4,
     .params = {FACTORS("brightness", "b"),
                FACTORS("contrast", "c"),
                FACTORS("saturation", "s"),
                {.name = "hue", .short_name = "h", .kind = MR_PARAM_RANGE, .lo = -0.5, .hi = 0.5}},
     .draw = draw_color_jitter},
    {.name = "adjust_sharpness",
     .max_calls = 1,
     .params = {{.name = "sharpness_factor", .hi = MAX_FACTOR, .required = true}, CHANCE(0.5)},
     .draw = draw_sharpness},
    {.name = "random_grayscale",
     .max_calls = 1,
     .params = {CHANCE(0.1)},
     .draw = draw_random_grayscale},
    {.name = "gaussian_blur",
     .max_calls = 1,
     .params = {{.name = "kernel_size",
                 .short_name = "kernel",
                 .kind = MR_PARAM_ODD,
                 .lo = 1,
                 .hi = MR_IMAGE_GAUSSIAN_BLUR_MAX_KERNEL,
                 .required = true},
                {.name = "sigma",
                 .kind = MR_PARAM_SPAN,
                 .lo = 0.001,
                 .hi = 1000,
                 .defaults = {0.1, 2.0}}},
     .draw = draw_gaussian_blur,
     .check = mr_image_gaussian_blur_check},
    {.name = "pil_gaussian_blur",
     .max_calls = 1,
     .params = {{.name = "radius", .kind = MR_PARAM_SPAN, .hi = 1000, .required = true}},
     .draw = draw_pil_gaussian_blur},
    {.name = "rotation",
     .max_calls = 1,
     .params = {DEGREES,
                INTERP(0),
                CENTER,
                FILL,
                {.name = "expand", .kind = MR_PARAM_INTEGER, .hi = 1, .optional = true}},
     .draw = mr_image_op_warp_rotation},
    AFFINE("affine", mr_image_op_warp_affine),
    {.name = "perspective",
     .max_calls = 1,
     .params =
         {{.name = "distortion_scale", .hi = 1, .defaults = {0.5}}, CHANCE(0.5), INTERP(1), FILL},
     .draw = mr_image_op_warp_perspective},
    RAND_AUGMENT("rand_augment", mr_image_policy_draw_rand),
    TRIVIAL_AUGMENT_WIDE("trivial_augment_wide", mr_image_policy_draw_wide),
    AUTO_AUGMENT("auto_augment", mr_image_policy_draw_auto),
    {.name = "timm",
     .max_calls = 1,
     .repeats = true,
     .params = {{.name = "policy", .kind = MR_PARAM_POLICY, .required = true},
                {.name = "interp", .kind = MR_PARAM_WORD, .words = mr_image_timm_filters},
                {.name = "fill", .kind = MR_PARAM_COLOR, .hi = 255, .defaults = {124, 116, 104}}},
     .refuse = mr_image_timm_refuse,
     .draw = mr_image_timm_draw},
    RAND_AUGMENT("rand_augment_v2", mr_image_policy_draw_rand_v2),
    TRIVIAL_AUGMENT_WIDE("trivial_augment_wide_v2", mr_image_policy_draw_wide_v2),
    AUTO_AUGMENT("auto_augment_v2", mr_image_policy_draw_auto_v2),
    AUGMIX("augmix", mr_image_policy_draw_augmix),
    AUGMIX("augmix_v2", mr_image_policy_draw_augmix_v2),
    AFFINE("affine_v2", mr_image_op_warp_affine_v2),
    /* Inside structures only: elsewhere these names are geometry, in the pass of a crop. */
    {.name = "hflip", .max_calls = 1, .params = {CHANCE(0.5)}, .draw = draw_hflip},
    {.name = "vflip", .max_calls = 1, .params = {CHANCE(0.5)}, .draw = draw_vflip},
    {.name = "jpeg",
     .max_calls = 1,
     .params = {{.name = "quality", .kind = MR_PARAM_SPAN, .lo = 1, .hi = 100, .required = true}},
     .refuse = refuse_quality,
     .draw = draw_jpeg},
    {.name = "channel_permutation", .max_calls = 1, .draw = draw_channel_permutation},
    {.name = "photometric_distort",
     .max_calls = 5,
     .params = {SPAN("brightness", 0, MAX_FACTOR, 0.875, 1.125),
                SPAN("contrast", 0, MAX_FACTOR, 0.5, 1.5),
                SPAN("saturation", 0, MAX_FACTOR, 0.5, 1.5), SPAN("hue", -0.5, 0.5, -0.05, 0.05),
                CHANCE(0.5)},
     .draw = draw_photometric_distort},
};
const uint32_t mr_image_op_count = sizeof mr_image_ops / sizeof *mr_image_ops;
