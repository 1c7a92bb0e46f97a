/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Computes taps as Pillow's precompute_coeffs() does.
 *
 * Invariant: every step is a double in this order, with true division and without fused
 * multiply-add. Otherwise some weights would differ by one, and pixels with them.
 */
#include "transforms/axis.h"

#include "base/checked.h"

#include <math.h>
#include <string.h>

/* How far each filter reaches unless it shrinks the image. Nearest has one tap at any scale. */
static const double supports[MR_N_FILTERS] = {
    [MR_BILINEAR] = 1.0, [MR_NEAREST] = 0.0, [MR_BOX] = 0.5,
    [MR_HAMMING] = 1.0,  [MR_BICUBIC] = 2.0, [MR_LANCZOS] = 3.0,
};

static struct mr_axis_filter make_filter(enum mr_interpolation interpolation, int64_t in,
                                         int64_t out)
{
    double scale = (double)in / (double)out;
    double stretch = scale < 1.0 ? 1.0 : scale;
    return (struct mr_axis_filter){.interpolation = interpolation,
                                   .scale = scale,
                                   .support = supports[interpolation] * stretch,
                                   .inverse = 1.0 / stretch};
}

static double find_sinc(double x)
{
    return x == 0.0 ? 1.0 : sin(x * M_PI) / (x * M_PI);
}

/*
 * Pillow's filters, with Pillow's constants and order of operations. 0.54 and 0.46 are floats
 * there.
 */
static double find_share(enum mr_interpolation interpolation, double x)
{
    double distance = fabs(x);
    switch (interpolation) {
    case MR_BOX: return x > -0.5 && x <= 0.5 ? 1.0 : 0.0;
    case MR_HAMMING:
        if (distance == 0.0 || distance >= 1.0)
            return distance == 0.0 ? 1.0 : 0.0;
        return find_sinc(distance) * ((double)0.54f + (double)0.46f * cos(distance * M_PI));
    case MR_BICUBIC:
        if (distance < 1.0)
            return (1.5 * distance - 2.5) * distance * distance + 1.0;
        return distance < 2.0 ? (((distance - 5.0) * distance + 8.0) * distance - 4.0) * -0.5 : 0.0;
    case MR_LANCZOS: return x >= -3.0 && x < 3.0 ? find_sinc(x) * find_sinc(x / 3.0) : 0.0;
    default: return distance < 1.0 ? 1.0 - distance : 0.0;
    }
}

/* Pillow makes no image with more outputs, and a hostile shape must not cost time. */
#define MAX_SUMMED (1 << 24)

/* Nearest: Pillow adds the step repeatedly. A product would give other positions in some places. */
static double find_position(const struct mr_axis_filter *f, int64_t out, int64_t i)
{
    double position = f->scale * 0.5;
    if (out > MAX_SUMMED)
        return ((double)i + 0.5) * f->scale;
    for (int64_t k = 0; k < i; k++)
        position += f->scale;
    return position;
}

static int64_t cut_position(double position, int64_t in)
{
    int64_t nearest = (int64_t)position;
    return nearest < in ? nearest : in - 1;
}

/*
 * Casts to integers truncate towards zero, as Pillow's do. A negative start becomes 0 either way.
 */
static double find_taps(const struct mr_axis_filter *f, int64_t in, int64_t i, int64_t *start_out,
                        int64_t *end_out)
{
    double center = ((double)i + 0.5) * f->scale;
    int64_t start = (int64_t)(center - f->support + 0.5);
    int64_t end = (int64_t)(center + f->support + 0.5);
    *start_out = start < 0 ? 0 : start;
    *end_out = end > in ? in : end;
    return center;
}

void mr_axis_span(enum mr_interpolation interpolation, int64_t in, int64_t out, int64_t lo,
                  int64_t n, int64_t *first_out, int64_t *end_out)
{
    if (in == out) {
        *first_out = lo;
        *end_out = lo + n;
        return;
    }
    struct mr_axis_filter f = make_filter(interpolation, in, out);
    if (interpolation == MR_NEAREST) {
        *first_out = cut_position(find_position(&f, out, lo), in);
        *end_out = cut_position(find_position(&f, out, lo + n - 1), in) + 1;
        return;
    }
    int64_t other;
    find_taps(&f, in, lo, first_out, &other);
    find_taps(&f, in, lo + n - 1, &other, end_out);
}

void mr_axis_fini(struct mr_axis *axis)
{
    mr_scratch_fini(&axis->starts);
    mr_scratch_fini(&axis->counts);
    mr_scratch_fini(&axis->weights);
    mr_scratch_fini(&axis->shares);
    *axis = (struct mr_axis){0};
}

bool mr_axis_is_usual(enum mr_interpolation interpolation, int64_t in, int64_t out)
{
    return in <= MR_AXIS_MAX_IN &&
           (in == out || 2 * make_filter(interpolation, in, out).support + 1 <= MR_AXIS_MAX_TAPS);
}

/* Tables begin at a multiple of a vector, so no load of the loops crosses a cache line. */
#define TABLE_ALIGN (MR_AXIS_LANES * sizeof(int32_t))

static mr_status reserve_dwords(struct mr_scratch *scratch, size_t n, mr_error *error)
{
    return mr_scratch_reserve(scratch, n + TABLE_ALIGN / sizeof(int32_t), sizeof(int32_t), error);
}

/* Make room for `most` taps of each output. */
static mr_status reserve_tables(struct mr_axis *axis, uint32_t most, mr_error *error)
{
    size_t n_weights;
    if (!mr_checked_mul(axis->pitch, most, &n_weights) || n_weights > SIZE_MAX - TABLE_ALIGN)
        return mr_error_memory(error, SIZE_MAX);
    mr_status status = reserve_dwords(&axis->starts, axis->pitch, error);
    if (status == MR_OK)
        status = reserve_dwords(&axis->counts, axis->pitch, error);
    if (status == MR_OK)
        status = reserve_dwords(&axis->weights, n_weights, error);
    if (status == MR_OK)
        status = mr_scratch_reserve(&axis->shares, most, sizeof(double), error);
    if (status != MR_OK)
        return status;
    axis->start = (uint32_t *)(void *)mr_scratch_align(&axis->starts, TABLE_ALIGN);
    axis->count = (uint32_t *)(void *)mr_scratch_align(&axis->counts, TABLE_ALIGN);
    axis->weight = (int32_t *)(void *)mr_scratch_align(&axis->weights, TABLE_ALIGN);
    return MR_OK;
}

static void fill_identity(struct mr_axis *axis, uint32_t most)
{
    axis->max_taps = 1;
    memset(axis->weight, 0, (size_t)axis->pitch * most * sizeof *axis->weight);
    for (uint32_t at = 0; at < axis->pitch; at++) {
        uint32_t i = at < axis->n ? at : axis->n - 1;
        axis->start[at] = axis->reversed ? axis->n - 1 - i : i;
        axis->count[at] = 1;
        axis->weight[at] = 1 << MR_WEIGHT_BITS;
    }
}

static void fill_weights(const struct mr_axis_filter *f, double center, int64_t start, int64_t n,
                         double *shares, int32_t *weight, size_t pitch)
{
    double sum = 0.0;
    for (int64_t k = 0; k < n; k++) {
        shares[k] = find_share(f->interpolation, ((double)(k + start) - center + 0.5) * f->inverse);
        sum += shares[k];
    }
    for (int64_t k = 0; k < n; k++) {
        double share = sum != 0.0 ? shares[k] / sum : shares[k];
        weight[(size_t)k * pitch] =
            (int32_t)((share < 0.0 ? -0.5 : 0.5) + share * (1 << MR_WEIGHT_BITS));
    }
}

/*
 * Put zero weights after the taps of one output, so that it has max_taps of them. If it would then
 * read beyond the span, some zeros go before its taps.
 */
static void pad_taps(struct mr_axis *axis, uint32_t at, uint32_t span, bool uniform)
{
    int32_t *weight = axis->weight + at;
    size_t pitch = axis->pitch;
    uint32_t n = axis->count[at];
    uint32_t last_start = span - axis->max_taps;
    uint32_t shift = uniform && axis->start[at] > last_start ? axis->start[at] - last_start : 0;
    for (uint32_t k = n; shift > 0 && k-- > 0;)
        weight[(k + shift) * pitch] = weight[k * pitch];
    for (uint32_t k = 0; k < shift; k++)
        weight[k * pitch] = 0;
    for (uint32_t k = n + shift; k < axis->max_taps; k++)
        weight[k * pitch] = 0;
    if (!uniform)
        return;
    axis->start[at] -= shift;
    axis->count[at] = axis->max_taps;
}

static void fill_outputs(struct mr_axis *axis, const struct mr_axis_filter *f, int64_t in,
                         int64_t lo, int64_t first)
{
    axis->max_taps = 0;
    for (uint32_t i = 0; i < axis->n; i++) {
        uint32_t at = axis->reversed ? axis->n - 1 - i : i;
        int64_t start, end;
        double center = find_taps(f, in, lo + i, &start, &end);
        axis->start[at] = (uint32_t)(start - first);
        axis->count[at] = (uint32_t)(end - start);
        if (axis->count[at] > axis->max_taps)
            axis->max_taps = axis->count[at];
        fill_weights(f, center, start, end - start, axis->shares.memory, axis->weight + at,
                     axis->pitch);
    }
}

/* Each output has one tap with a weight of 1. */
static void fill_nearest(struct mr_axis *axis, const struct mr_axis_filter *f, int64_t in,
                         int64_t out, int64_t lo, int64_t first)
{
    double position = find_position(f, out, lo);
    for (uint32_t i = 0; i < axis->n; i++) {
        uint32_t at = axis->reversed ? axis->n - 1 - i : i;
        axis->start[at] = (uint32_t)(cut_position(position, in) - first);
        position = out > MAX_SUMMED ? find_position(f, out, lo + i + 1) : position + f->scale;
        axis->count[at] = 1;
        axis->weight[at] = 1 << MR_WEIGHT_BITS;
    }
    axis->max_taps = 1;
}

/*
 * Extend what plain C has filled to what the other sets need: the last output repeated, and zero
 * weights up to a multiple of four taps.
 */
static void extend_tables(struct mr_axis *axis)
{
    uint32_t last = axis->n - 1, n_taps = (axis->max_taps + 3) & ~3u;
    for (uint32_t at = axis->n; at < axis->pitch; at++) {
        axis->start[at] = axis->start[last];
        axis->count[at] = axis->count[last];
    }
    for (uint32_t k = 0; k < n_taps; k++) {
        int32_t *weight = axis->weight + (size_t)k * axis->pitch;
        if (k >= axis->max_taps)
            memset(weight, 0, axis->n * sizeof *weight);
        for (uint32_t at = axis->n; at < axis->pitch; at++)
            weight[at] = weight[last];
    }
}

static bool is_filled_by_sets(enum mr_interpolation interpolation)
{
    return interpolation == MR_BILINEAR || interpolation == MR_BOX || interpolation == MR_BICUBIC;
}

/* At most as many taps as inputs, with room for a multiple of 4 if a vector set needs it. */
static uint32_t find_most(const struct mr_axis_filter *f, int64_t in, bool vectors)
{
    int64_t most = 2 * (int64_t)ceil(f->support) + 1;
    if (most > in)
        most = in;
    return (uint32_t)(vectors ? (most + 3) & ~(int64_t)3 : most);
}

mr_status mr_axis_build(struct mr_axis *axis, enum mr_interpolation interpolation, int64_t in,
                        int64_t out, int64_t lo, int64_t n, bool reversed, bool uniform,
                        mr_axis_fill *fill, mr_error *error)
{
    struct mr_axis_filter f = make_filter(interpolation, in, out);
    axis->identity = in == out;
    axis->overshoots =
        !axis->identity && (interpolation == MR_BICUBIC || interpolation == MR_LANCZOS);
    axis->reversed = reversed;
    axis->n = (uint32_t)n;
    axis->pitch = fill ? (uint32_t)mr_align_up((size_t)n, MR_AXIS_LANES) : axis->n;
    uint32_t most = axis->identity ? (fill ? 4 : 1) : find_most(&f, in, fill != NULL);
    mr_status status = reserve_tables(axis, most, error);
    if (status != MR_OK)
        return status;
    int64_t first, end;
    mr_axis_span(interpolation, in, out, lo, n, &first, &end);
    if (axis->identity) {
        fill_identity(axis, most);
    } else if (fill && is_filled_by_sets(interpolation)) {
        f.lo = (double)(reversed ? lo + n - 1 : lo);
        f.step = reversed ? -1.0 : 1.0;
        f.in = (int32_t)in;
        f.first = (int32_t)first;
        f.most = most;
        fill(axis, &f);
    } else {
        if (interpolation == MR_NEAREST)
            fill_nearest(axis, &f, in, out, lo, first);
        else
            fill_outputs(axis, &f, in, lo, first);
        for (uint32_t i = 0; i < axis->n; i++)
            pad_taps(axis, i, (uint32_t)(end - first), uniform && !fill);
        if (fill)
            extend_tables(axis);
    }
    return MR_OK;
}
