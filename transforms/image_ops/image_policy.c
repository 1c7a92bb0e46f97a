/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Draws in the order of torchvision v1's autoaugment.py and of v2's _auto_augment.py, with their
 * tables. Magnitudes are those of torch's linspace in f32 on CPUs with fused multiply-add. The rest
 * of the arithmetic is in double, as in Python.
 */
#include "transforms/image_ops/image_policy.h"

#include "base/gamma.h"
#include "transforms/image_ops/image_op_warp.h"
#include "transforms/interpolation.h"

#include <math.h>
#include <stdio.h>

/* In the order of torchvision's spaces; INVERT is auto_augment's alone. */
enum change {
    IDENTITY,
    SHEAR_X,
    SHEAR_Y,
    TRANSLATE_X,
    TRANSLATE_Y,
    ROTATE,
    BRIGHTNESS,
    COLOR,
    CONTRAST,
    SHARPNESS,
    POSTERIZE,
    SOLARIZE,
    AUTOCONTRAST,
    EQUALIZE,
    N_CHANGES,
    INVERT = N_CHANGES
};

/* The largest magnitudes. */
struct space {
    double shear;
    double translate; /* pixels; 0: depends on the image's size */
    double rotate;
    double tone;
    float most_bits; /* that posterize keeps */
    double bits;     /* that posterize removes of them */
};

static const struct space usual_space = {
    .shear = 0.3, .rotate = 30.0, .tone = 0.9, .most_bits = 8.0f, .bits = 4.0};
static const struct space wide_space = {.shear = 0.99,
                                        .translate = 32.0,
                                        .rotate = 135.0,
                                        .tone = 0.99,
                                        .most_bits = 8.0f,
                                        .bits = 6.0};
static const struct space augmix_space = {
    .shear = 0.3, .rotate = 30.0, .tone = 0.9, .most_bits = 4.0f, .bits = 4.0};

/* One half of a policy: a change, its probability and its magnitude among ten. */
struct half {
    enum change change;
    float p;
    uint32_t bin;
};

enum { N_PAIRS = 25 };

const char *const mr_image_policy_names[] = {"imagenet", "cifar10", "svhn", NULL};

static const struct half policies[3][N_PAIRS][2] = {
    {
        {{POSTERIZE, 0.4f, 8}, {ROTATE, 0.6f, 9}}, {{SOLARIZE, 0.6f, 5}, {AUTOCONTRAST, 0.6f}},
        {{EQUALIZE, 0.8f}, {EQUALIZE, 0.6f}},      {{POSTERIZE, 0.6f, 7}, {POSTERIZE, 0.6f, 6}},
        {{EQUALIZE, 0.4f}, {SOLARIZE, 0.2f, 4}},   {{EQUALIZE, 0.4f}, {ROTATE, 0.8f, 8}},
        {{SOLARIZE, 0.6f, 3}, {EQUALIZE, 0.6f}},   {{POSTERIZE, 0.8f, 5}, {EQUALIZE, 1.0f}},
        {{ROTATE, 0.2f, 3}, {SOLARIZE, 0.6f, 8}},  {{EQUALIZE, 0.6f}, {POSTERIZE, 0.4f, 6}},
        {{ROTATE, 0.8f, 8}, {COLOR, 0.4f, 0}},     {{ROTATE, 0.4f, 9}, {EQUALIZE, 0.6f}},
        {{EQUALIZE, 0.0f}, {EQUALIZE, 0.8f}},      {{INVERT, 0.6f}, {EQUALIZE, 1.0f}},
        {{COLOR, 0.6f, 4}, {CONTRAST, 1.0f, 8}},   {{ROTATE, 0.8f, 8}, {COLOR, 1.0f, 2}},
        {{COLOR, 0.8f, 8}, {SOLARIZE, 0.8f, 7}},   {{SHARPNESS, 0.4f, 7}, {INVERT, 0.6f}},
        {{SHEAR_X, 0.6f, 5}, {EQUALIZE, 1.0f}},    {{COLOR, 0.4f, 0}, {EQUALIZE, 0.6f}},
        {{EQUALIZE, 0.4f}, {SOLARIZE, 0.2f, 4}},   {{SOLARIZE, 0.6f, 5}, {AUTOCONTRAST, 0.6f}},
        {{INVERT, 0.6f}, {EQUALIZE, 1.0f}},        {{COLOR, 0.6f, 4}, {CONTRAST, 1.0f, 8}},
        {{EQUALIZE, 0.8f}, {EQUALIZE, 0.6f}},
    },
    {
        {{INVERT, 0.1f}, {CONTRAST, 0.2f, 6}},
        {{ROTATE, 0.7f, 2}, {TRANSLATE_X, 0.3f, 9}},
        {{SHARPNESS, 0.8f, 1}, {SHARPNESS, 0.9f, 3}},
        {{SHEAR_Y, 0.5f, 8}, {TRANSLATE_Y, 0.7f, 9}},
        {{AUTOCONTRAST, 0.5f}, {EQUALIZE, 0.9f}},
        {{SHEAR_Y, 0.2f, 7}, {POSTERIZE, 0.3f, 7}},
        {{COLOR, 0.4f, 3}, {BRIGHTNESS, 0.6f, 7}},
        {{SHARPNESS, 0.3f, 9}, {BRIGHTNESS, 0.7f, 9}},
        {{EQUALIZE, 0.6f}, {EQUALIZE, 0.5f}},
        {{CONTRAST, 0.6f, 7}, {SHARPNESS, 0.6f, 5}},
        {{COLOR, 0.7f, 7}, {TRANSLATE_X, 0.5f, 8}},
        {{EQUALIZE, 0.3f}, {AUTOCONTRAST, 0.4f}},
        {{TRANSLATE_Y, 0.4f, 3}, {SHARPNESS, 0.2f, 6}},
        {{BRIGHTNESS, 0.9f, 6}, {COLOR, 0.2f, 8}},
        {{SOLARIZE, 0.5f, 2}, {INVERT, 0.0f}},
        {{EQUALIZE, 0.2f}, {AUTOCONTRAST, 0.6f}},
        {{EQUALIZE, 0.2f}, {EQUALIZE, 0.6f}},
        {{COLOR, 0.9f, 9}, {EQUALIZE, 0.6f}},
        {{AUTOCONTRAST, 0.8f}, {SOLARIZE, 0.2f, 8}},
        {{BRIGHTNESS, 0.1f, 3}, {COLOR, 0.7f, 0}},
        {{SOLARIZE, 0.4f, 5}, {AUTOCONTRAST, 0.9f}},
        {{TRANSLATE_Y, 0.9f, 9}, {TRANSLATE_Y, 0.7f, 9}},
        {{AUTOCONTRAST, 0.9f}, {SOLARIZE, 0.8f, 3}},
        {{EQUALIZE, 0.8f}, {INVERT, 0.1f}},
        {{TRANSLATE_Y, 0.7f, 9}, {AUTOCONTRAST, 0.9f}},
    },
    {
        {{SHEAR_X, 0.9f, 4}, {INVERT, 0.2f}},          {{SHEAR_Y, 0.9f, 8}, {INVERT, 0.7f}},
        {{EQUALIZE, 0.6f}, {SOLARIZE, 0.6f, 6}},       {{INVERT, 0.9f}, {EQUALIZE, 0.6f}},
        {{EQUALIZE, 0.6f}, {ROTATE, 0.9f, 3}},         {{SHEAR_X, 0.9f, 4}, {AUTOCONTRAST, 0.8f}},
        {{SHEAR_Y, 0.9f, 8}, {INVERT, 0.4f}},          {{SHEAR_Y, 0.9f, 5}, {SOLARIZE, 0.2f, 6}},
        {{INVERT, 0.9f}, {AUTOCONTRAST, 0.8f}},        {{EQUALIZE, 0.6f}, {ROTATE, 0.9f, 3}},
        {{SHEAR_X, 0.9f, 4}, {SOLARIZE, 0.3f, 3}},     {{SHEAR_Y, 0.8f, 8}, {INVERT, 0.7f}},
        {{EQUALIZE, 0.9f}, {TRANSLATE_Y, 0.6f, 6}},    {{INVERT, 0.9f}, {EQUALIZE, 0.6f}},
        {{CONTRAST, 0.3f, 3}, {ROTATE, 0.8f, 4}},      {{INVERT, 0.8f}, {TRANSLATE_Y, 0.0f, 2}},
        {{SHEAR_Y, 0.7f, 6}, {SOLARIZE, 0.4f, 8}},     {{INVERT, 0.6f}, {ROTATE, 0.8f, 4}},
        {{SHEAR_Y, 0.3f, 7}, {TRANSLATE_X, 0.9f, 3}},  {{SHEAR_X, 0.1f, 6}, {INVERT, 0.6f}},
        {{SOLARIZE, 0.7f, 2}, {TRANSLATE_Y, 0.6f, 7}}, {{SHEAR_Y, 0.8f, 4}, {INVERT, 0.8f}},
        {{SHEAR_X, 0.7f, 9}, {TRANSLATE_Y, 0.8f, 3}},  {{SHEAR_Y, 0.8f, 5}, {AUTOCONTRAST, 0.7f}},
        {{SHEAR_X, 0.7f, 2}, {INVERT, 0.1f}},
    },
};

/* What all changes of an operation share. */
struct policy {
    struct mr_image_params_source *draw;
    const struct space *space;
    bool is_v2;
    bool is_tensor; /* augmix */
    uint32_t n_bins;
    double look[4]; /* interpolation and fill, in the order of a call's arguments */
};

/* args: the operation's interp and fill. */
static struct policy make_policy(struct mr_image_params_source *draw, const struct space *space,
                                 bool is_v2, uint32_t n_bins, const double *args)
{
    return (struct policy){.draw = draw,
                           .space = space,
                           .is_v2 = is_v2,
                           .n_bins = n_bins,
                           .look = {mr_image_op_warp_filter(args[0]), args[1], args[2], args[3]}};
}

/* torch.linspace(lo, hi, n)[i]: in f32, from the nearer end, with one rounding. */
static double space_evenly(double lo, double hi, uint32_t n, uint32_t i)
{
    float start = (float)lo, end = (float)hi, step = (end - start) / (float)(n - 1);
    return (double)(i < n / 2 ? fmaf(step, (float)i, start) : fmaf(-step, (float)(n - 1 - i), end));
}

static double translation(const struct policy *p, uint32_t side)
{
    if (p->is_tensor)
        return (double)side / 3.0;
    return p->space->translate > 0.0 ? p->space->translate : 150.0 / 331.0 * (double)side;
}

/* Without a sign; 0 if the change has no magnitude. */
static double find_magnitude(const struct policy *p, enum change change, uint32_t bin)
{
    const struct space *space = p->space;
    uint32_t n = p->n_bins;
    switch (change) {
    case SHEAR_X:
    case SHEAR_Y: return space_evenly(0.0, space->shear, n, bin);
    case TRANSLATE_X: return space_evenly(0.0, translation(p, p->draw->width), n, bin);
    case TRANSLATE_Y: return space_evenly(0.0, translation(p, p->draw->height), n, bin);
    case ROTATE: return space_evenly(0.0, space->rotate, n, bin);
    case BRIGHTNESS:
    case COLOR:
    case CONTRAST:
    case SHARPNESS: return space_evenly(0.0, space->tone, n, bin);
    case POSTERIZE: {
        float bits = (float)bin / (float)((double)(n - 1) / space->bits);
        return p->is_v2 ? (double)rintf(space->most_bits - bits)
                        : (double)(space->most_bits - rintf(bits));
    }
    case SOLARIZE: {
        double v2 = 255.0 * space_evenly(1.0, 0.0, n, bin);
        return p->is_v2 ? p->is_tensor ? (double)(float)v2 : v2 : space_evenly(255.0, 0.0, n, bin);
    }
    default: return 0.0;
    }
}

static bool has_magnitude(enum change change)
{
    return change >= SHEAR_X && change <= SOLARIZE;
}

static bool has_sign(enum change change)
{
    return change >= SHEAR_X && change <= SHARPNESS;
}

/* center: of both coordinates; NAN means the image's centre. */
static void add_affine(const struct policy *p, double x, double y, double shear_x, double shear_y,
                       double center)
{
    const double *look = p->look;
    const double args[] = {0.0,     x,       y,       1.0,    shear_x, shear_y, look[0],
                           look[1], look[2], look[3], center, center,  p->is_v2};
    if (p->is_tensor)
        mr_image_calls_add(p->draw->calls, MR_CALL_TENSOR_AFFINE, 13, args);
    else
        mr_image_calls_add(p->draw->calls, MR_CALL_AFFINE, 12, args);
}

static void add_rotation(const struct policy *p, double angle)
{
    const double *look = p->look;
    double args[] = {angle, look[0], look[1], look[2], look[3], (double)NAN, (double)NAN};
    if (p->is_tensor)
        args[5] = p->is_v2;
    mr_image_calls_add(p->draw->calls, p->is_tensor ? MR_CALL_TENSOR_ROTATE : MR_CALL_ROTATE,
                       p->is_tensor ? 6 : 7, args);
}

static void add_call(const struct policy *p, enum mr_image_call_kind kind, uint32_t n_args,
                     double arg)
{
    mr_image_calls_add(p->draw->calls, kind, n_args, &arg);
}

/* A blend, with the kind that it has on images and on tensors. */
static void add_blend(const struct policy *p, enum mr_image_call_kind kind,
                      enum mr_image_call_kind tensor_kind, double magnitude)
{
    const double args[] = {1.0 + magnitude, p->is_v2};
    mr_image_calls_add(p->draw->calls, p->is_tensor ? tensor_kind : kind, p->is_tensor ? 2 : 1,
                       args);
}

/* Rounded towards 0, as Python's int(); never -0. */
static double whole(double value)
{
    return trunc(value) + 0.0;
}

/* math.degrees(math.atan(slope)) */
static double slope_degrees(double slope)
{
    return atan(slope) * (180.0 / 3.14159265358979323846);
}

/* autoaugment.py's _apply_op(). */
static void add_change(const struct policy *p, enum change change, double magnitude)
{
    switch (change) {
    case IDENTITY: break;
    case SHEAR_X: add_affine(p, 0.0, 0.0, slope_degrees(magnitude), 0.0, 0.0); break;
    case SHEAR_Y: add_affine(p, 0.0, 0.0, 0.0, slope_degrees(magnitude), 0.0); break;
    case TRANSLATE_X: add_affine(p, whole(magnitude), 0.0, 0.0, 0.0, (double)NAN); break;
    case TRANSLATE_Y: add_affine(p, 0.0, whole(magnitude), 0.0, 0.0, (double)NAN); break;
    case ROTATE: add_rotation(p, magnitude); break;
    case BRIGHTNESS: add_blend(p, MR_CALL_BRIGHTNESS, MR_CALL_TENSOR_BRIGHTNESS, magnitude); break;
    case COLOR: add_blend(p, MR_CALL_SATURATION, MR_CALL_TENSOR_SATURATION, magnitude); break;
    case CONTRAST: add_blend(p, MR_CALL_CONTRAST, MR_CALL_TENSOR_CONTRAST, magnitude); break;
    case SHARPNESS: add_blend(p, MR_CALL_SHARPNESS, MR_CALL_TENSOR_SHARPNESS, magnitude); break;
    case POSTERIZE: add_call(p, MR_CALL_POSTERIZE, 1, magnitude); break;
    case SOLARIZE: add_call(p, MR_CALL_SOLARIZE, 1, magnitude); break;
    case AUTOCONTRAST:
        if (p->is_tensor)
            add_call(p, MR_CALL_TENSOR_AUTOCONTRAST, 1, p->is_v2);
        else
            add_call(p, MR_CALL_AUTOCONTRAST, 0, 0.0);
        break;
    case EQUALIZE: add_call(p, MR_CALL_EQUALIZE, 0, 0.0); break;
    case INVERT: add_call(p, MR_CALL_INVERT, 0, 0.0); break;
    }
}

bool mr_image_policy_refuse_rand(const double *args, char why_out[MR_IMAGE_OP_WHY])
{
    snprintf(why_out, MR_IMAGE_OP_WHY,
             "magnitude %.0f is not below num_magnitude_bins, which is %.0f", args[1], args[2]);
    return args[1] >= args[2];
}

static bool draw_sign(const struct policy *p)
{
    struct mr_rng *rng = p->draw->rng;
    return p->is_v2 ? mr_rng_uniform(rng, 0.0f, 1.0f) <= 0.5f : mr_rng_below(rng, 2) != 0;
}

/* A change with this magnitude, and with a drawn sign if it has one. */
static void add_signed(const struct policy *p, enum change change, uint32_t bin)
{
    double magnitude = find_magnitude(p, change, bin);
    bool is_negative = has_sign(change) && draw_sign(p);
    add_change(p, change, is_negative ? -magnitude : magnitude);
}

static void draw_rand(struct mr_image_params_source *draw, bool is_v2)
{
    const double *args = draw->args;
    const struct policy p = make_policy(draw, &usual_space, is_v2, (uint32_t)args[2], args + 3);
    for (uint32_t i = 0; i < (uint32_t)args[0]; i++)
        add_signed(&p, (enum change)mr_rng_below(draw->rng, N_CHANGES), (uint32_t)args[1]);
}

void mr_image_policy_draw_rand(struct mr_image_params_source *draw)
{
    draw_rand(draw, false);
}

void mr_image_policy_draw_rand_v2(struct mr_image_params_source *draw)
{
    draw_rand(draw, true);
}

static void draw_wide(struct mr_image_params_source *draw, bool is_v2)
{
    const double *args = draw->args;
    const struct policy p = make_policy(draw, &wide_space, is_v2, (uint32_t)args[0], args + 1);
    enum change change = (enum change)mr_rng_below(draw->rng, N_CHANGES);
    add_signed(&p, change, has_magnitude(change) ? mr_rng_below(draw->rng, p.n_bins) : 0);
}

void mr_image_policy_draw_wide(struct mr_image_params_source *draw)
{
    draw_wide(draw, false);
}

void mr_image_policy_draw_wide_v2(struct mr_image_params_source *draw)
{
    draw_wide(draw, true);
}

static const struct half *draw_pair(struct mr_image_params_source *draw)
{
    return policies[(uint32_t)draw->args[0]][mr_rng_below(draw->rng, N_PAIRS)];
}

/*
 * Both probabilities are drawn before both signs, whether they are used or not. A sign of 0 is
 * negative here.
 */
void mr_image_policy_draw_auto(struct mr_image_params_source *draw)
{
    const struct policy p =
        make_policy(draw, &usual_space, false, MR_IMAGE_POLICY_BINS, draw->args + 1);
    const struct half *pair = draw_pair(draw);
    float chances[2];
    uint32_t signs[2];
    for (uint32_t i = 0; i < 2; i++)
        chances[i] = mr_rng_uniform(draw->rng, 0.0f, 1.0f);
    for (uint32_t i = 0; i < 2; i++)
        signs[i] = mr_rng_below(draw->rng, 2);
    for (uint32_t i = 0; i < 2; i++) {
        if (chances[i] > pair[i].p)
            continue;
        double magnitude = find_magnitude(&p, pair[i].change, pair[i].bin);
        add_change(&p, pair[i].change,
                   has_sign(pair[i].change) && signs[i] == 0 ? -magnitude : magnitude);
    }
}

/* Each half draws its chance, then its sign, and only what it needs. */
void mr_image_policy_draw_auto_v2(struct mr_image_params_source *draw)
{
    const struct policy p =
        make_policy(draw, &usual_space, true, MR_IMAGE_POLICY_BINS, draw->args + 1);
    const struct half *pair = draw_pair(draw);
    for (uint32_t i = 0; i < 2; i++)
        if (mr_rng_uniform(draw->rng, 0.0f, 1.0f) <= pair[i].p)
            add_signed(&p, pair[i].change, pair[i].bin);
}

/* A draw from Dirichlet(alpha, ..., alpha). */
static void draw_dirichlet(struct mr_rng *rng, double alpha, uint32_t n, float *weights_out)
{
    double logs[MR_IMAGE_POLICY_MAX_CHAINS], greatest = -INFINITY, sum = 0.0;
    for (uint32_t i = 0; i < n; i++) {
        logs[i] = mr_gamma_draw_log(rng, alpha);
        greatest = logs[i] > greatest ? logs[i] : greatest;
    }
    for (uint32_t i = 0; i < n; i++)
        sum += exp(logs[i] - greatest);
    for (uint32_t i = 0; i < n; i++)
        weights_out[i] = (float)(exp(logs[i] - greatest) / sum);
}

/* In the order of torchvision's space; the last four are left out without all_ops. */
static const enum change augmix_changes[] = {
    SHEAR_X,      SHEAR_Y,  TRANSLATE_X, TRANSLATE_Y, ROTATE,   POSTERIZE, SOLARIZE,
    AUTOCONTRAST, EQUALIZE, BRIGHTNESS,  COLOR,       CONTRAST, SHARPNESS};
enum { N_AUGMIX_ALL = 13, N_AUGMIX_FEW = 9 };

/* Arguments of augmix. */
enum { SEVERITY, WIDTH, DEPTH, ALPHA, ALL_OPS, LOOK };

static void draw_chain(const struct policy *p)
{
    struct mr_rng *rng = p->draw->rng;
    const double *args = p->draw->args;
    uint32_t depth = args[DEPTH] > 0.0 ? (uint32_t)args[DEPTH] : 1 + mr_rng_below(rng, 3);
    for (uint32_t i = 0; i < depth; i++) {
        enum change change =
            augmix_changes[mr_rng_below(rng, args[ALL_OPS] > 0.0 ? N_AUGMIX_ALL : N_AUGMIX_FEW)];
        add_signed(p, change,
                   has_magnitude(change) ? mr_rng_below(rng, (uint32_t)args[SEVERITY]) : 0);
    }
}

static void draw_augmix(struct mr_image_params_source *draw, bool is_v2)
{
    const double *args = draw->args;
    struct policy p = make_policy(draw, &augmix_space, is_v2, MR_IMAGE_POLICY_BINS, args + LOOK);
    float two[2], weights[MR_IMAGE_POLICY_MAX_CHAINS];
    p.is_tensor = true;
    draw_dirichlet(draw->rng, args[ALPHA], 2, two);
    draw_dirichlet(draw->rng, args[ALPHA], (uint32_t)args[WIDTH], weights);
    const double start[2] = {(double)two[0], is_v2};
    mr_image_calls_add(draw->calls, MR_CALL_MIX_START, 2, start);
    for (uint32_t i = 0; i < (uint32_t)args[WIDTH]; i++) {
        add_call(&p, MR_CALL_MIX_CHAIN, 1, (double)(weights[i] * two[1]));
        draw_chain(&p);
    }
    mr_image_calls_add(draw->calls, MR_CALL_MIX_END, 0, NULL);
}

void mr_image_policy_draw_augmix(struct mr_image_params_source *draw)
{
    draw_augmix(draw, false);
}

void mr_image_policy_draw_augmix_v2(struct mr_image_params_source *draw)
{
    draw_augmix(draw, true);
}

uint32_t mr_image_policy_count_augmix(const double *args)
{
    uint32_t depth = args[DEPTH] > 0.0 ? (uint32_t)args[DEPTH] : 3;
    return 2 + (uint32_t)args[WIDTH] * (1 + depth);
}

bool mr_image_policy_refuse_augmix(const double *args, char why_out[MR_IMAGE_OP_WHY])
{
    snprintf(why_out, MR_IMAGE_OP_WHY, "interp: tensors have nearest and bilinear");
    return mr_image_op_warp_filter(args[LOOK]) == MR_BICUBIC;
}
