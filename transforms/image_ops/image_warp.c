/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Finds the matrices as torchvision and Pillow do. Cuts each row into the pixels inside the image
 * and the others, which get the fill. Pillow has four ways to find the nearest pixels of an affine
 * map, with different roundings: a scale adds doubles along rows and columns, usual maps add
 * integers with 16 fraction bits, far ones add doubles, and a perspective computes each place.
 */
#include "transforms/image_ops/image_warp.h"

#include "transforms/interpolation.h"
#include "transforms/simd/kernels.h"

#include <math.h>
#include <string.h>

#define PI 3.14159265358979323846

/* A map from one image to another, including places outside. */
struct warp {
    struct mr_warp in;
    const struct mr_warp_loops *loops;
    struct mr_image *to;
    uint8_t fill[3];
};

bool mr_image_warp_moves(const struct mr_image_call *call)
{
    switch ((enum mr_image_call_kind)call->kind) {
    case MR_CALL_ROTATE:
    case MR_CALL_ROTATE_EXPAND:
    case MR_CALL_AFFINE:
    case MR_CALL_AFFINE_V2:
    case MR_CALL_PERSPECTIVE:
    case MR_CALL_PIL_AFFINE:
    case MR_CALL_HFLIP:
    case MR_CALL_VFLIP: return true;
    default: return false;
    }
}

struct mr_image_call mr_image_warp_as_nearest(const struct mr_image_call *call,
                                              const double fill[3])
{
    struct mr_image_call nearest = *call;
    bool rotates = call->kind == MR_CALL_ROTATE || call->kind == MR_CALL_ROTATE_EXPAND;
    double *look = nearest.args + (rotates ? 1 : call->kind == MR_CALL_PERSPECTIVE ? 8 : 6);
    look[0] = MR_NEAREST;
    memcpy(look + 1, fill, 3 * sizeof *fill);
    return nearest;
}

static double to_radians(double degrees)
{
    return degrees * (PI / 180.0);
}

static struct warp make_warp(double interpolation, const double *fill, const struct mr_image *from,
                             struct mr_image *to, const struct mr_kernel_ops *kernels)
{
    uint32_t filter = interpolation == MR_BILINEAR  ? MR_WARP_BILINEAR
                      : interpolation == MR_BICUBIC ? MR_WARP_BICUBIC
                                                    : MR_WARP_NEAREST;
    struct warp warp = {.in = {.pixels = from->pixels,
                               .stride = from->stride,
                               .width = from->width,
                               .height = from->height,
                               .step = from->n_channels,
                               .filter = filter},
                        .loops = kernels->image->warp,
                        .to = to};
    for (int c = 0; c < 3; c++)
        warp.fill[c] = (uint8_t)fill[c];
    return warp;
}

static uint8_t *find_row(const struct warp *w, uint32_t y)
{
    return w->to->pixels + y * w->to->stride;
}

/* Fill pixels first to end - 1 of a row; none if end is not above first. */
static void fill_pixels(const struct warp *w, uint8_t *row, uint32_t first, uint32_t end)
{
    const uint8_t *fill = w->fill;
    if (first >= end)
        return;
    if (w->in.step == 1 || (fill[0] == fill[1] && fill[1] == fill[2])) {
        memset(row + (size_t)first * w->in.step, fill[0], (size_t)(end - first) * w->in.step);
        return;
    }
    for (size_t x = first; x < end; x++)
        memcpy(row + 3 * x, fill, 3);
}

static void fill_image(const struct warp *w)
{
    for (uint32_t y = 0; y < w->to->height; y++)
        fill_pixels(w, find_row(w, y), 0, w->to->width);
}

/* Pixels of a row, first to end - 1. */
struct span {
    uint32_t first;
    uint32_t end;
};

/* Fill everything outside the span. Returns where the span's pixels go. */
static uint8_t *fill_around(const struct warp *w, uint32_t y, struct span span)
{
    uint8_t *row = find_row(w, y);
    fill_pixels(w, row, 0, span.first);
    fill_pixels(w, row, span.end, w->to->width);
    return row + (size_t)span.first * w->in.step;
}

/* Move the image by whole pixels: pixel x, y is the image's pixel x + right, y + down. */
static void shift_image(const struct warp *w, int64_t right, int64_t down)
{
    const struct mr_warp *in = &w->in;
    int64_t width = w->to->width, first = right < 0 ? -right : 0, end = in->width - right;
    end = end < width ? end : width;
    bool is_empty = first >= end;
    struct span span = {(uint32_t)(is_empty ? width : first), (uint32_t)(is_empty ? width : end)};
    for (uint32_t y = 0; y < w->to->height; y++) {
        int64_t row = y + down;
        if (is_empty || row < 0 || row >= in->height) {
            fill_pixels(w, find_row(w, y), 0, w->to->width);
            continue;
        }
        const uint8_t *from =
            in->pixels + (size_t)row * in->stride + (size_t)(first + right) * in->step;
        memcpy(fill_around(w, y, span), from, (size_t)(span.end - span.first) * in->step);
    }
}

/* The index of the pixel at a place: -1 before the image, n after it or for a NaN. */
static int64_t find_index(double place, uint32_t n)
{
    return place < 0.0 ? -1 : place < n ? (int64_t)place : (int64_t)n;
}

static inline void copy_pixel(uint32_t step, const uint8_t *from, uint8_t *to)
{
    if (step == 3)
        memcpy(to, from, 3);
    else
        *to = *from;
}

#define STRIP 512

/*
 * Make pixels first to first + n - 1 of all rows, n at most STRIP. *place is that of the first
 * pixel, and afterwards that of the next one.
 */
static void scale_strip(const struct warp *w, uint32_t first, uint32_t n, double *place)
{
    const struct mr_warp *in = &w->in;
    size_t offsets[STRIP];
    struct span span = {n, 0};
    for (uint32_t i = 0; i < n; i++, *place += in->a[0]) {
        int64_t x = find_index(*place, in->width);
        offsets[i] = 0;
        if (x < 0 || x >= in->width)
            continue;
        offsets[i] = (size_t)x * in->step;
        span.first = span.end == 0 ? i : span.first;
        span.end = i + 1;
    }
    double row_place = in->a[5] + in->a[4] * 0.5;
    for (uint32_t y = 0; y < w->to->height; y++, row_place += in->a[4]) {
        int64_t from_y = find_index(row_place, in->height);
        uint8_t *out = find_row(w, y) + (size_t)first * in->step;
        bool is_outside = from_y < 0 || from_y >= in->height;
        struct span live = is_outside ? (struct span){n, n} : span;
        fill_pixels(w, out, 0, live.first);
        fill_pixels(w, out, live.end, n);
        const uint8_t *from = is_outside ? in->pixels : in->pixels + (size_t)from_y * in->stride;
        for (size_t i = live.first; i < live.end; i++)
            copy_pixel(in->step, from + offsets[i], out + i * in->step);
    }
}

/* a[1] and a[3] are 0. */
static void scale_nearest(const struct warp *w)
{
    double place = w->in.a[2] + w->in.a[0] * 0.5;
    for (uint32_t x = 0; x < w->to->width; x += STRIP)
        scale_strip(w, x, w->to->width - x < STRIP ? w->to->width - x : STRIP, &place);
}

/* From here on 16 bits before the point are too few. */
#define FAR 32768

static int64_t to_fixed(double value)
{
    return (int64_t)floor(value * 65536.0 + 0.5);
}

/* Cut the span to the x with 0 <= start + x * step < limit. Nothing is above 2^49. */
static void cut_fixed(struct span *span, int64_t start, int64_t step, int64_t limit)
{
    int64_t first = span->first, end = span->end;
    if (step < 0) { /* the same from the other side: 0 <= limit - 1 - start - x * step < limit */
        start = limit - 1 - start;
        step = -step;
    }
    if (step == 0) {
        end = start < 0 || start >= limit ? first : end;
    } else {
        int64_t enters = start < 0 ? (-start + step - 1) / step : 0;
        int64_t leaves = start < limit ? (limit - start + step - 1) / step : 0;
        first = enters > first ? enters : first;
        end = leaves < end ? leaves : end;
    }
    first = first < span->end ? first : span->end;
    span->first = (uint32_t)first;
    span->end = (uint32_t)(end > first ? end : first);
}

static void fixed_nearest(const struct warp *w)
{
    const struct mr_warp *in = &w->in;
    const double *a = in->a;
    const uint32_t width = in->width < FAR ? in->width : FAR,
                   height = in->height < FAR ? in->height : FAR;
    const int64_t step_x = to_fixed(a[0]), step_y = to_fixed(a[3]), down_x = to_fixed(a[1]),
                  down_y = to_fixed(a[4]);
    int64_t x = to_fixed(a[2] + a[0] * 0.5 + a[1] * 0.5),
            y = to_fixed(a[5] + a[3] * 0.5 + a[4] * 0.5);
    for (uint32_t row = 0; row < w->to->height; row++, x += down_x, y += down_y) {
        struct span span = {0, w->to->width};
        cut_fixed(&span, x, step_x, (int64_t)width << 16);
        cut_fixed(&span, y, step_y, (int64_t)height << 16);
        uint32_t n = span.end - span.first;
        uint8_t *out = fill_around(w, row, span);
        if (n == 0)
            continue;
        /* Two pixels in the image are less than FAR apart. */
        const struct mr_warp_line line = {.x = (int32_t)(x + span.first * step_x),
                                          .y = (int32_t)(y + span.first * step_y),
                                          .step_x = n > 1 ? (int32_t)step_x : 0,
                                          .step_y = n > 1 ? (int32_t)step_y : 0};
        if (line.step_x == 65536 && line.step_y == 0) {
            size_t from = (size_t)(line.y >> 16) * in->stride + (size_t)(line.x >> 16) * in->step;
            memcpy(out, in->pixels + from, (size_t)n * in->step);
        } else {
            w->loops->copy(in, &line, n, out);
        }
    }
}

static void far_nearest(const struct warp *w)
{
    const struct mr_warp *in = &w->in;
    const double *a = in->a;
    double row_x = a[2] + a[1] * 0.5 + a[0] * 0.5, row_y = a[5] + a[4] * 0.5 + a[3] * 0.5;
    fill_image(w);
    for (uint32_t row = 0; row < w->to->height; row++, row_x += a[1], row_y += a[4]) {
        uint8_t *out = find_row(w, row);
        double x = row_x, y = row_y;
        for (uint32_t i = 0; i < w->to->width; i++, x += a[0], y += a[3], out += in->step)
            if (mr_warp_is_inside(in, x, y))
                mr_warp_take(in, x, y, out);
    }
}

/* Do 16 bits before the point suffice for this corner of the result? */
static bool is_near(const double *a, uint32_t x, uint32_t y)
{
    return fabs(x * a[0] + y * a[1] + a[2]) < FAR && fabs(x * a[3] + y * a[4] + a[5]) < FAR;
}

static void affine_nearest(const struct warp *w)
{
    const double *a = w->in.a;
    uint32_t width = w->to->width, height = w->to->height;
    if (a[1] == 0.0 && a[3] == 0.0)
        scale_nearest(w);
    else if (is_near(a, 0, 0) && is_near(a, width, 0) && is_near(a, 0, height) &&
             is_near(a, width, height))
        fixed_nearest(w);
    else
        far_nearest(w);
}

/*
 * The first x of the span whose place in row y is at least the bound, or (below) less than it; the
 * span's end if there is none.
 */
static uint32_t find_crossing(const double a[3], uint32_t y, double bound, bool below,
                              struct span span)
{
    double guess = (bound - a[2] - a[1] * (y + 0.5)) / a[0] - 0.5;
    uint32_t x = guess > span.first ? guess < span.end ? (uint32_t)guess : span.end : span.first;
    while (x > span.first && (mr_warp_place(a, x - 1, y) < bound) == below)
        x--;
    while (x < span.end && (mr_warp_place(a, x, y) < bound) != below)
        x++;
    return x;
}

/*
 * Cut the span to the x whose place in row y is from 0 to below the limit. Rounding keeps places in
 * order, so the result is a span.
 */
static struct span cut_places(const double a[3], uint32_t y, double limit, struct span span)
{
    if (a[0] == 0.0) {
        double place = mr_warp_place(a, 0, y);
        return place >= 0.0 && place < limit ? span : (struct span){span.first, span.first};
    }
    bool falls = a[0] < 0.0;
    span.first = find_crossing(a, y, falls ? limit : 0.0, falls, span);
    span.end = find_crossing(a, y, falls ? 0.0 : limit, falls, span);
    return span;
}

static void affine_filtered(const struct warp *w)
{
    const struct mr_warp *in = &w->in;
    for (uint32_t y = 0; y < w->to->height; y++) {
        struct span span = {0, w->to->width};
        span = cut_places(in->a, y, in->width, span);
        span = cut_places(in->a + 3, y, in->height, span);
        uint8_t *out = fill_around(w, y, span);
        if (span.first < span.end)
            w->loops->affine(in, y, span.first, span.end, out);
    }
}

/* Image.transform(AFFINE) with the matrix w->in.a. */
static void run_affine(const struct warp *w)
{
    const double *a = w->in.a;
    bool is_finite = true;
    for (int i = 0; i < 6; i++)
        is_finite = is_finite && isfinite(a[i]);
    bool moves = a[0] == 1.0 && a[1] == 0.0 && a[3] == 0.0 && a[4] == 1.0 && fabs(a[2]) < 1e18 &&
                 fabs(a[5]) < 1e18;
    if (!is_finite)
        fill_image(w);
    else if (moves && a[2] == rint(a[2]) && a[5] == rint(a[5])) /* every filter does the same */
        shift_image(w, (int64_t)a[2], (int64_t)a[5]);
    else if (w->in.filter == MR_WARP_NEAREST)
        affine_nearest(w);
    else
        affine_filtered(w);
}

/*
 * Pixel x, y is at first + x * right + y * down in the image, in bytes. For turns by multiples of
 * 90 degrees.
 */
static void turn_image(const struct warp *w, ptrdiff_t first, ptrdiff_t right, ptrdiff_t down)
{
    for (uint32_t y = 0; y < w->to->height; y++, first += down) {
        const uint8_t *from = w->in.pixels + first;
        uint8_t *out = find_row(w, y);
        for (uint32_t x = 0; x < w->to->width; x++, out += w->in.step)
            copy_pixel(w->in.step, from + right * (ptrdiff_t)x, out);
    }
}

/*
 * The turns of Image.rotate() that no interpolation changes. False if the angle is not one of them.
 */
static bool try_turn(const struct warp *w, double angle)
{
    const ptrdiff_t step = w->in.step, stride = (ptrdiff_t)w->in.stride;
    const ptrdiff_t right = (ptrdiff_t)(w->in.width - 1) * step,
                    bottom = (ptrdiff_t)(w->in.height - 1) * stride;
    /* expand exchanges the sides */
    bool fits = w->in.width == w->to->height && w->in.height == w->to->width;
    if (angle == 0.0)
        shift_image(w, 0, 0);
    else if (angle == 180.0)
        turn_image(w, bottom + right, -step, -stride);
    else if (angle == 90.0 && fits)
        turn_image(w, right, stride, -step);
    else if (angle == 270.0 && fits)
        turn_image(w, bottom, -stride, step);
    else
        return false;
    return true;
}

double mr_image_warp_wrap(double degrees)
{
    double rest = fmod(degrees, 360.0);
    return rest < 0.0 ? rest + 360.0 : fabs(rest);
}

/* Python's round(x, 15) of -1 to 1: the product is exact in two parts. */
static double round_15(double x)
{
    double scaled = x * 1e15, rest = fma(x, 1e15, -scaled), whole = rint(scaled);
    double off = scaled - whole + rest;
    if (off > 0.5)
        whole += 1.0;
    else if (off < -0.5)
        whole -= 1.0;
    return whole / 1e15;
}

/* The matrix of Image.rotate() about a center, before expand. */
static void find_rotation(const struct mr_image_call *call, uint32_t width, uint32_t height,
                          double a[6])
{
    double x = call->args[5], y = call->args[6],
           radians = -to_radians(mr_image_warp_wrap(call->args[0]));
    x = isnan(x) ? width / 2.0 : x;
    y = isnan(y) ? height / 2.0 : y;
    a[0] = a[4] = round_15(cos(radians));
    a[1] = round_15(sin(radians));
    a[3] = round_15(-sin(radians));
    a[2] = a[0] * -x + a[1] * -y + 0.0 + x;
    a[5] = a[3] * -x + a[4] * -y + 0.0 + y;
}

/* How far the corners of an image are apart along one axis, in whole pixels. */
static uint32_t find_extent(const double a[3], double width, double height)
{
    double places[4] = {a[2], a[0] * width + a[1] * 0.0 + a[2], a[0] * width + a[1] * height + a[2],
                        a[0] * 0.0 + a[1] * height + a[2]};
    double least = places[0], most = places[0];
    for (int i = 1; i < 4; i++) {
        least = fmin(least, places[i]);
        most = fmax(most, places[i]);
    }
    return (uint32_t)(ceil(most) - floor(least));
}

void mr_image_warp_size(const struct mr_image_call *call, uint32_t *width, uint32_t *height)
{
    double angle = mr_image_warp_wrap(call->args[0]), a[6];
    uint32_t w = *width, h = *height;
    if (call->kind != MR_CALL_ROTATE_EXPAND)
        return;
    if (isnan(call->args[5]) && fmod(angle, 90.0) == 0.0) {
        bool exchanges = fmod(angle, 180.0) != 0.0;
        *width = exchanges ? h : w;
        *height = exchanges ? w : h;
        return;
    }
    find_rotation(call, w, h, a);
    *width = find_extent(a, w, h);
    *height = find_extent(a + 3, w, h);
}

mr_status mr_image_warp_rotate(const struct mr_image_call *call, struct mr_image *from,
                               struct mr_image *to, const struct mr_kernel_ops *kernels,
                               mr_error *error)
{
    (void)error;
    mr_image_warp_size(call, &to->width, &to->height);
    to->stride = (size_t)to->width * to->n_channels;
    struct warp w = make_warp(call->args[1], call->args + 2, from, to, kernels);
    if (isnan(call->args[5]) && try_turn(&w, mr_image_warp_wrap(call->args[0])))
        return MR_OK;
    double *a = w.in.a;
    find_rotation(call, from->width, from->height, a);
    if (call->kind == MR_CALL_ROTATE_EXPAND) {
        double x = -((double)to->width - from->width) / 2.0,
               y = -((double)to->height - from->height) / 2.0;
        a[2] = a[0] * x + a[1] * y + a[2];
        a[5] = a[3] * x + a[4] * y + a[5];
    }
    run_affine(&w);
    return MR_OK;
}

/* The map without its shift, from the image to the result, before the scale. */
static void find_forth(const double *args, bool is_v2, double forth[4])
{
    double rotation = to_radians(args[0]), shear_x = to_radians(args[4]),
           shear_y = to_radians(args[5]);
    double cosine = cos(rotation - shear_y), sine = sin(rotation - shear_y);
    forth[0] = cosine / cos(shear_y);
    forth[1] = is_v2 ? -(forth[0] * tan(shear_x) + sin(rotation))
                     : -cosine * tan(shear_x) / cos(shear_y) - sin(rotation);
    forth[2] = sine / cos(shear_y);
    forth[3] = is_v2 ? cos(rotation) - forth[2] * tan(shear_x)
                     : -sine * tan(shear_x) / cos(shear_y) + cos(rotation);
}

void mr_image_warp_forward(const double *args, double x, double y, double a_out[6])
{
    double forth[4], *a = a_out;
    find_forth(args, true, forth);
    for (int i = 0; i < 4; i++)
        a[i / 2 * 3 + i % 2] = forth[i] * args[3];
    a[2] = x + args[1] - a[0] * x - a[1] * y;
    a[5] = y + args[2] - a[3] * x - a[4] * y;
}

void mr_image_warp_invert(const double *args, double x, double y, bool is_v2, double a_out[6])
{
    double forth[4];
    find_forth(args, is_v2, forth);
    double *a = a_out, scale = args[3];
    a[0] = forth[3] / scale;
    a[1] = -forth[1] / scale;
    a[3] = -forth[2] / scale;
    a[4] = forth[0] / scale;
    a[2] = is_v2 ? x - a[0] * (x + args[1]) - a[1] * (y + args[2])
                 : a[0] * (-x - args[1]) + a[1] * (-y - args[2]) + x;
    a[5] = is_v2 ? y - a[3] * (x + args[1]) - a[4] * (y + args[2])
                 : a[3] * (-x - args[1]) + a[4] * (-y - args[2]) + y;
}

mr_status mr_image_warp_affine(const struct mr_image_call *call, struct mr_image *from,
                               struct mr_image *to, const struct mr_kernel_ops *kernels,
                               mr_error *error)
{
    (void)error;
    const double *args = call->args;
    struct warp w = make_warp(args[6], args + 7, from, to, kernels);
    double x = isnan(args[10]) ? from->width * 0.5 : args[10],
           y = isnan(args[10]) ? from->height * 0.5 : args[11];
    mr_image_warp_invert(args, x, y, call->kind == MR_CALL_AFFINE_V2, w.in.a);
    run_affine(&w);
    return MR_OK;
}

mr_status mr_image_warp_perspective(const struct mr_image_call *call, struct mr_image *from,
                                    struct mr_image *to, const struct mr_kernel_ops *kernels,
                                    mr_error *error)
{
    (void)error;
    struct warp w = make_warp(call->args[8], call->args + 9, from, to, kernels);
    memcpy(w.in.a, call->args, sizeof w.in.a);
    fill_image(&w);
    for (uint32_t y = 0; y < from->height; y++)
        w.loops->perspective(&w.in, y, find_row(&w, y));
    return MR_OK;
}

mr_status mr_image_warp_pil_affine(const struct mr_image_call *call, struct mr_image *from,
                                   struct mr_image *to, const struct mr_kernel_ops *kernels,
                                   mr_error *error)
{
    (void)error;
    struct warp w = make_warp(call->args[6], call->args + 7, from, to, kernels);
    memcpy(w.in.a, call->args, 6 * sizeof *call->args);
    run_affine(&w);
    return MR_OK;
}
