/* SPDX-License-Identifier: Apache-2.0 */
/*
 * v2.RandomIoUCrop. Its draws and its arithmetic on boxes are float32, as torch's; the ratio of the
 * sides is a double, as Python's.
 *
 * torchvision tries until a crop is found or the option to keep the image is drawn. Here the image
 * is also kept after MAX_ROUNDS options, which happens to no image in 10^66. A side that becomes 0
 * ends this try; torchvision divides by it.
 */
#include "transforms/boxes/iou_crop.h"

#include "transforms/boxes/box_run.h"

#include <math.h>

enum { MAX_ROUNDS = 1000 };

/* sampler_options; the last keeps the image as it is. */
static const double least_overlaps[] = {0.0, 0.1, 0.3, 0.5, 0.7, 0.9, 1.0};
enum { N_OPTIONS = sizeof least_overlaps / sizeof *least_overlaps };

static float draw_unit(struct mr_rng *rng)
{
    return mr_rng_uniform(rng, 0.0f, 1.0f);
}

static float draw_scale(const struct mr_op *op, struct mr_rng *rng)
{
    return (float)op->scale[0] + (float)(op->scale[1] - op->scale[0]) * draw_unit(rng);
}

/* Python's int(size * r) for a float32 tensor r. */
static int64_t scale_down(int64_t size, float r)
{
    return (int64_t)((float)size * r);
}

/* box_iou(). */
static float measure_overlap(const struct mr_box_row *row, const struct mr_box *box)
{
    float left = (float)box->x, right = (float)(box->x + box->width);
    float top = (float)box->y, bottom = (float)(box->y + box->height);
    float own_area = (row->x2 - row->x1) * (row->y2 - row->y1);
    float area = (right - left) * (bottom - top);
    float width = fminf(row->x2, right) - fmaxf(row->x1, left);
    float height = fminf(row->y2, bottom) - fmaxf(row->y1, top);
    float shared = (width > 0.0f ? width : 0.0f) * (height > 0.0f ? height : 0.0f);
    return shared / (own_area + area - shared);
}

/* Does a box whose centre is inside the crop overlap with it enough? */
static bool is_accepted(const struct mr_box_list *boxes, const struct mr_box *box, float least)
{
    bool is_empty = true, is_low = true;
    for (uint32_t i = 0; i < boxes->n; i++) {
        if (!mr_box_run_is_inside(&boxes->rows[i], box))
            continue;
        is_empty = false;
        is_low = is_low && measure_overlap(&boxes->rows[i], box) < least;
    }
    return !is_empty && !is_low;
}

static bool try_crop(const struct mr_op *op, int64_t width, int64_t height,
                     const struct mr_box_list *boxes, float least, struct mr_rng *rng,
                     struct mr_box *box_out)
{
    struct mr_box box = {0};
    box.width = scale_down(width, draw_scale(op, rng));
    box.height = scale_down(height, draw_scale(op, rng));
    double ratio = (double)box.width / (double)box.height;
    if (!(box.width > 0 && box.height > 0 && op->ratio[0] <= ratio && ratio <= op->ratio[1]))
        return false;
    box.x = scale_down(width - box.width, draw_unit(rng));
    box.y = scale_down(height - box.height, draw_unit(rng));
    if (!is_accepted(boxes, &box, least))
        return false;
    *box_out = box;
    return true;
}

void mr_iou_crop_draw(struct mr_geometry_step *step, uint32_t place, const struct mr_rng *rng,
                      const struct mr_box_list *boxes)
{
    static const struct mr_box_list none;
    const struct mr_op *op = step->op;
    struct mr_rng own;
    mr_rng_init_place(&own, rng, place);
    step->box = (struct mr_box){0};
    for (int round = 0; round < MAX_ROUNDS; round++) {
        double least = least_overlaps[mr_rng_below(&own, N_OPTIONS)];
        if (least >= 1.0)
            return;
        for (uint32_t i = 0; i < op->count; i++)
            if (try_crop(op, step->width, step->height, boxes ? boxes : &none, (float)least, &own,
                         &step->box))
                return;
    }
}
