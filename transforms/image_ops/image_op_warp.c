/* SPDX-License-Identifier: Apache-2.0 */
/* RandomRotation, RandomAffine and RandomPerspective: the get_params() of torchvision v1. */
#include "transforms/image_ops/image_op_warp.h"

#include "transforms/interpolation.h"

#include <math.h>
#include <string.h>

const char *const mr_image_op_warp_filters[] = {"nearest", "bilinear", "bicubic", NULL};

double mr_image_op_warp_filter(double place)
{
    static const double filters[] = {MR_NEAREST, MR_BILINEAR, MR_BICUBIC};
    return filters[(size_t)place];
}

static double draw_between(struct mr_image_params_source *draw, double lo, double hi)
{
    return (double)mr_rng_uniform(draw->rng, (float)lo, (float)hi);
}

void mr_image_op_warp_rotation(struct mr_image_params_source *draw)
{
    const double *degrees = draw->args, *interp = degrees + 2, *center = interp + 1,
                 *fill = center + 2;
    double args[7] = {draw_between(draw, degrees[0], degrees[1]), mr_image_op_warp_filter(*interp)};
    memcpy(args + 2, fill, 3 * sizeof *fill);
    memcpy(args + 5, center, 2 * sizeof *center);
    bool expands = fill[3] == 1.0;
    mr_image_calls_add(draw->calls, expands ? MR_CALL_ROTATE_EXPAND : MR_CALL_ROTATE, 7, args);
}

static void draw_affine(struct mr_image_params_source *draw, enum mr_image_call_kind kind)
{
    const double *degrees = draw->args, *translate = degrees + 2, *scale = translate + 2,
                 *shear = scale + 2;
    const double *interp = shear + 4, *fill = interp + 1, *center = fill + 3;
    double args[12] = {[3] = 1.0};
    args[0] = draw_between(draw, degrees[0], degrees[1]);
    if (!isnan(translate[0])) {
        double right = translate[0] * draw->width, down = translate[1] * draw->height;
        args[1] = rint(draw_between(draw, -right, right)) + 0.0; /* no -0 */
        args[2] = rint(draw_between(draw, -down, down)) + 0.0;
    }
    if (!isnan(scale[0]))
        args[3] = draw_between(draw, scale[0], scale[1]);
    if (!isnan(shear[0]))
        args[4] = draw_between(draw, shear[0], shear[1]);
    if (!isnan(shear[2]))
        args[5] = draw_between(draw, shear[2], shear[3]);
    args[6] = mr_image_op_warp_filter(*interp);
    memcpy(args + 7, fill, 3 * sizeof *fill);
    memcpy(args + 10, center, 2 * sizeof *center);
    mr_image_calls_add(draw->calls, kind, 12, args);
}

void mr_image_op_warp_affine(struct mr_image_params_source *draw)
{
    draw_affine(draw, MR_CALL_AFFINE);
}

void mr_image_op_warp_affine_v2(struct mr_image_params_source *draw)
{
    draw_affine(draw, MR_CALL_AFFINE_V2);
}

/* Twice the signed area of a triangle. */
static double find_area(const double a[2], const double b[2], const double c[2])
{
    return (b[0] - a[0]) * (c[1] - a[1]) - (b[1] - a[1]) * (c[0] - a[0]);
}

/*
 * torchvision solves eight equations by least squares in doubles, and rounds to f32. This is the
 * exact solution, in whole numbers up to the last division. It differs only where a coefficient is
 * 0 and torchvision has some 1e-16. [a b c; d e f; g h i] maps the unit square to the corners; its
 * adjugate maps back.
 */
bool mr_image_op_warp_solve(uint32_t width, uint32_t height, const double corners[4][2],
                            double coefficients_out[8])
{
    const double *p = corners[0], *q = corners[1], *r = corners[2], *s = corners[3];
    if (find_area(p, q, r) == 0.0 || find_area(q, r, s) == 0.0 || find_area(r, s, p) == 0.0 ||
        find_area(s, p, q) == 0.0)
        return false;
    double skew_x = p[0] - q[0] + r[0] - s[0], skew_y = p[1] - q[1] + r[1] - s[1];
    double i = (q[0] - r[0]) * (s[1] - r[1]) - (q[1] - r[1]) * (s[0] - r[0]);
    double g = skew_x * (s[1] - r[1]) - skew_y * (s[0] - r[0]),
           h = (q[0] - r[0]) * skew_y - (q[1] - r[1]) * skew_x;
    double a = (q[0] - p[0]) * i + g * q[0], b = (s[0] - p[0]) * i + h * s[0], c = p[0] * i;
    double d = (q[1] - p[1]) * i + g * q[1], e = (s[1] - p[1]) * i + h * s[1], f = p[1] * i;
    double right = width - 1.0, bottom = height - 1.0, divisor = a * e - b * d;
    if (divisor == 0.0)
        return false;
    const double numerators[8] = {
        (e * i - f * h) * right,  (c * h - b * i) * right,  (b * f - c * e) * right,
        (f * g - d * i) * bottom, (a * i - c * g) * bottom, (c * d - a * f) * bottom,
        (d * h - e * g),          (b * g - a * h),
    };
    for (int k = 0; k < 8; k++)
        coefficients_out[k] = (double)(float)(numerators[k] / divisor) + 0.0; /* no -0 */
    return true;
}

static double draw_corner(struct mr_image_params_source *draw, uint32_t first, uint32_t reach)
{
    return (double)first + mr_rng_below(draw->rng, reach + 1);
}

void mr_image_op_warp_perspective(struct mr_image_params_source *draw)
{
    const double distortion = draw->args[0], p = draw->args[1], *interp = draw->args + 2,
                 *fill = interp + 1;
    if (!mr_rng_chance(draw->rng, (double)(float)p))
        return;
    /* How far a corner moves at most. torchvision's corners are on pixels 0 to width - 1. */
    uint32_t reach_x = (uint32_t)(distortion * (draw->width / 2)),
             reach_y = (uint32_t)(distortion * (draw->height / 2));
    uint32_t right = draw->width - reach_x - 1, bottom = draw->height - reach_y - 1;
    double corners[4][2], args[12];
    for (int i = 0; i < 4; i++) {
        corners[i][0] = draw_corner(draw, i == 1 || i == 2 ? right : 0, reach_x);
        corners[i][1] = draw_corner(draw, i >= 2 ? bottom : 0, reach_y);
    }
    if (!mr_image_op_warp_solve(draw->width, draw->height, corners, args))
        return; /* torchvision raises an error here */
    args[8] = mr_image_op_warp_filter(*interp);
    memcpy(args + 9, fill, 3 * sizeof *fill);
    mr_image_calls_add(draw->calls, MR_CALL_PERSPECTIVE, 12, args);
}
