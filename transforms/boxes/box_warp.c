/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The corners of a box go through the matrix, and their extent is the new box. Matrices are made in
 * double and rounded to float32, as torchvision makes them. Products of corners are fused
 * multiply-add, first x, then y, as in OpenBLAS.
 */
#include "transforms/boxes/box_warp.h"

#include "transforms/boxes/box_run.h"
#include "transforms/image_ops/image_warp.h"

#include <math.h>

/* Places are divided by the third row, if they are. */
struct matrix {
    float rows[3][3];
    bool divides;
};

static float multiply(const float row[3], float x, float y)
{
    return fmaf(y, row[1], x * row[0]) + row[2];
}

/* The extent of points along one axis. */
static void find_extent(const struct matrix *m, int axis, const float points[4][2],
                        float *least_out, float *most_out)
{
    float least = 0.0f, most = 0.0f;
    for (int i = 0; i < 4; i++) {
        float place = multiply(m->rows[axis], points[i][0], points[i][1]);
        if (m->divides)
            place /= multiply(m->rows[2], points[i][0], points[i][1]);
        least = i == 0 || place < least ? place : least;
        most = i == 0 || place > most ? place : most;
    }
    *least_out = least;
    *most_out = most;
}

static void warp_rows(const struct matrix *m, struct mr_box_list *boxes)
{
    for (uint32_t i = 0; i < boxes->n; i++) {
        struct mr_box_row *row = &boxes->rows[i];
        const float points[4][2] = {
            {row->x1, row->y1}, {row->x2, row->y1}, {row->x2, row->y2}, {row->x1, row->y2}};
        find_extent(m, 0, points, &row->x1, &row->x2);
        find_extent(m, 1, points, &row->y1, &row->y2);
    }
}

static struct matrix round_matrix(const double a[6])
{
    struct matrix m = {0};
    for (int i = 0; i < 6; i++)
        m.rows[i / 3][i % 3] = (float)a[i];
    return m;
}

/* affine: args of mr_image_warp_invert(). center: in pixels; NaN: the middle. */
static struct matrix make_affine(const double *affine, const double *center, uint32_t width,
                                 uint32_t height)
{
    double a[6];
    bool is_middle = isnan(center[0]);
    mr_image_warp_forward(affine, is_middle ? width * 0.5 : center[0],
                          is_middle ? height * 0.5 : center[1], a);
    return round_matrix(a);
}

/* torchvision's inverse of the coefficients; it refuses those whose divisor is 0. */
static struct matrix invert_perspective(const double c[8])
{
    double divisor = c[0] * c[4] - c[1] * c[3];
    const double inverse[6] = {
        (c[4] - c[5] * c[7]) / divisor,        (-c[1] + c[2] * c[7]) / divisor,
        (c[1] * c[5] - c[2] * c[4]) / divisor, (-c[3] + c[5] * c[6]) / divisor,
        (c[0] - c[2] * c[6]) / divisor,        (-c[0] * c[5] + c[2] * c[3]) / divisor};
    struct matrix m = round_matrix(inverse);
    m.rows[2][0] = (float)((-c[4] * c[6] + c[3] * c[7]) / divisor);
    m.rows[2][1] = (float)((-c[0] * c[7] + c[1] * c[6]) / divisor);
    m.rows[2][2] = 1.0f;
    m.divides = true;
    return m;
}

/* With expand the corner of the turned image is the new origin. */
static void move_origin(const struct matrix *m, uint32_t width, uint32_t height,
                        struct mr_box_list *boxes)
{
    float right = (float)width, bottom = (float)height, left, top, most;
    const float corners[4][2] = {{0.0f, 0.0f}, {0.0f, bottom}, {right, bottom}, {right, 0.0f}};
    find_extent(m, 0, corners, &left, &most);
    find_extent(m, 1, corners, &top, &most);
    for (uint32_t i = 0; i < boxes->n; i++) {
        struct mr_box_row *row = &boxes->rows[i];
        row->x1 -= left;
        row->y1 -= top;
        row->x2 -= left;
        row->y2 -= top;
    }
}

static void run_call(const struct mr_image_call *call, uint32_t width, uint32_t height,
                     struct mr_box_list *boxes)
{
    const double *args = call->args, rotation[6] = {-args[0], 0.0, 0.0, 1.0, 0.0, 0.0};
    bool rotates = call->kind == MR_CALL_ROTATE || call->kind == MR_CALL_ROTATE_EXPAND;
    const struct matrix m = rotates ? make_affine(rotation, args + 5, width, height)
                            : call->kind == MR_CALL_PERSPECTIVE
                                ? invert_perspective(args)
                                : make_affine(args, args + 10, width, height);
    warp_rows(&m, boxes);
    if (call->kind == MR_CALL_ROTATE_EXPAND)
        move_origin(&m, width, height, boxes);
    mr_image_warp_size(call, &width, &height);
    mr_box_run_clamp(boxes, width, height);
}

void mr_box_warp_step(const struct mr_geometry_step *step, const struct mr_image_call *calls,
                      struct mr_box_list *boxes)
{
    uint32_t width = (uint32_t)step->width, height = (uint32_t)step->height;
    for (uint32_t i = 0; i < step->n_calls; i++) {
        const struct mr_image_call *call = &calls[step->first_call + i];
        if (call->kind == MR_CALL_HFLIP || call->kind == MR_CALL_VFLIP)
            mr_box_run_flip(boxes, call->kind == MR_CALL_HFLIP, width, height);
        else if (mr_image_warp_moves(call))
            run_call(call, width, height, boxes);
        mr_image_warp_size(call, &width, &height);
    }
}
