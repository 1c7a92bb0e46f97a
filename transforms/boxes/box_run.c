/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Moves boxes step by step. The order of the float32 operations is torchvision's, down to the sign
 * of a zero: a flip is -(x - width), a crop is x - left, a pad is x + left.
 */
#include "transforms/boxes/box_run.h"

#include <math.h>

static float clamp_to(float x, int64_t size)
{
    float most = (float)size;
    return x < 0.0f ? 0.0f : x > most ? most : x; /* -0 and NaN stay */
}

void mr_box_run_clamp(struct mr_box_list *boxes, int64_t width, int64_t height)
{
    for (uint32_t i = 0; i < boxes->n; i++) {
        struct mr_box_row *row = &boxes->rows[i];
        row->x1 = clamp_to(row->x1, width);
        row->y1 = clamp_to(row->y1, height);
        row->x2 = clamp_to(row->x2, width);
        row->y2 = clamp_to(row->y2, height);
    }
}

/* Add x and y, and clamp to the new image. */
static void shift_rows(struct mr_box_list *boxes, float x, float y, int64_t width, int64_t height)
{
    for (uint32_t i = 0; i < boxes->n; i++) {
        struct mr_box_row *row = &boxes->rows[i];
        row->x1 += x;
        row->y1 += y;
        row->x2 += x;
        row->y2 += y;
    }
    mr_box_run_clamp(boxes, width, height);
}

static void crop_rows(struct mr_box_list *boxes, int64_t left, int64_t top,
                      const struct mr_box *box)
{
    shift_rows(boxes, -(float)left, -(float)top, box->width, box->height);
}

static void scale_rows(struct mr_box_list *boxes, int64_t width, int64_t height, int64_t new_width,
                       int64_t new_height)
{
    float x = (float)((double)new_width / (double)width);
    float y = (float)((double)new_height / (double)height);
    for (uint32_t i = 0; i < boxes->n; i++) {
        struct mr_box_row *row = &boxes->rows[i];
        row->x1 *= x;
        row->y1 *= y;
        row->x2 *= x;
        row->y2 *= y;
    }
}

static void flip_span(float *from, float *to, int64_t size)
{
    float start = -(*to - (float)size);
    *to = -(*from - (float)size);
    *from = start;
}

void mr_box_run_flip(struct mr_box_list *boxes, bool along_x, int64_t width, int64_t height)
{
    for (uint32_t i = 0; i < boxes->n; i++) {
        struct mr_box_row *row = &boxes->rows[i];
        if (along_x)
            flip_span(&row->x1, &row->x2, width);
        else
            flip_span(&row->y1, &row->y2, height);
    }
}

/*
 * torchvision rounds the place of a box differently from that of the picture if the picture is
 * smaller than the crop by an odd number of pixels: the box is then one pixel off.
 */
static int64_t center_start(int64_t size, int64_t crop)
{
    return (int64_t)rint((double)(size - crop) / 2.0);
}

/* v2.RandomCrop calls pad only if there is something to pad, crop only if there is more to crop. */
static void random_crop_rows(struct mr_box_list *boxes, const struct mr_geometry_step *step)
{
    const struct mr_box *box = &step->box;
    int64_t left = mr_geometry_step_padding(step->op, step->width, box->width);
    int64_t top = mr_geometry_step_padding(step->op, step->height, box->height);
    int64_t width = step->width + 2 * left, height = step->height + 2 * top;
    if (left > 0 || top > 0)
        shift_rows(boxes, (float)left, (float)top, width, height);
    if (width > box->width || height > box->height)
        crop_rows(boxes, box->x + left, box->y + top, box);
}

/* Crop to what the box has of an image of width x height, then pad what the image lacks. */
static void window_rows(struct mr_box_list *boxes, int64_t width, int64_t height,
                        const struct mr_box *box, bool always_pads)
{
    int64_t left = box->x < 0 ? -box->x : 0, top = box->y < 0 ? -box->y : 0;
    struct mr_box shown = {.x = box->x + left, .y = box->y + top};
    int64_t right = box->x + box->width < width ? box->x + box->width : width;
    int64_t bottom = box->y + box->height < height ? box->y + box->height : height;
    shown.width = right - shown.x;
    shown.height = bottom - shown.y;
    if (shown.width < width || shown.height < height)
        crop_rows(boxes, shown.x, shown.y, &shown);
    if (always_pads || shown.width < box->width || shown.height < box->height)
        shift_rows(boxes, (float)left, (float)top, box->width, box->height);
}

static void iou_crop_rows(struct mr_box_list *boxes, const struct mr_box *box)
{
    for (uint32_t i = 0; i < boxes->n; i++) {
        struct mr_box_row *row = &boxes->rows[i];
        if (!mr_box_run_is_inside(row, box))
            row->x1 = row->y1 = row->x2 = row->y2 = 0.0f;
        else
            crop_rows(&(struct mr_box_list){.rows = row, .n = 1}, box->x, box->y, box);
    }
}

static bool is_sane(const struct mr_box_row *row, const struct mr_geometry_step *step)
{
    float width = row->x2 - row->x1, height = row->y2 - row->y1;
    float min_size = (float)step->op->min_size, min_area = (float)step->op->min_area;
    float right = (float)step->width, bottom = (float)step->height;
    return width >= min_size && height >= min_size && width * height >= min_area &&
           row->x1 >= 0.0f && row->y1 >= 0.0f && row->x2 >= 0.0f && row->y2 >= 0.0f &&
           row->x1 <= right && row->x2 <= right && row->y1 <= bottom && row->y2 <= bottom;
}

static void remove_rows(struct mr_box_list *boxes, const struct mr_geometry_step *step)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < boxes->n; i++)
        if (is_sane(&boxes->rows[i], step))
            boxes->rows[n++] = boxes->rows[i];
    boxes->n = n;
}

bool mr_box_run_is_inside(const struct mr_box_row *row, const struct mr_box *box)
{
    float x = 0.5f * (row->x1 + row->x2), y = 0.5f * (row->y1 + row->y2);
    return (float)box->x < x && x < (float)(box->x + box->width) && (float)box->y < y &&
           y < (float)(box->y + box->height);
}

void mr_box_run_step(const struct mr_geometry_step *step, struct mr_box_list *boxes)
{
    const struct mr_box *box = &step->box;
    int64_t width = step->width, height = step->height;
    switch ((enum mr_op_kind)step->op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP:
        crop_rows(boxes, box->x, box->y, box);
        scale_rows(boxes, box->width, box->height, step->resized_width, step->resized_height);
        break;
    case MR_OP_RESIZE_SHORT:
    case MR_OP_RANDOM_RESIZE:
    case MR_OP_RANDOM_SHORTEST_SIZE:
    case MR_OP_SCALE_JITTER:
    case MR_OP_RESIZE:
        scale_rows(boxes, width, height, step->resized_width, step->resized_height);
        break;
    case MR_OP_CENTER_CROP:
        crop_rows(boxes, center_start(width, box->width), center_start(height, box->height), box);
        break;
    case MR_OP_RANDOM_CROP: random_crop_rows(boxes, step); break;
    case MR_OP_RANDOM_IOU_CROP:
        if (box->width > 0)
            iou_crop_rows(boxes, box);
        break;
    case MR_OP_LETTERBOX:
        scale_rows(boxes, width, height, step->resized_width, step->resized_height);
        window_rows(boxes, step->resized_width, step->resized_height, box, false);
        break;
    case MR_OP_PAD:
    case MR_OP_PAD_IF_SMALLER:
    case MR_OP_PATCH_CROP:
    case MR_OP_FIXED_SIZE_CROP:
    case MR_OP_RANDOM_ZOOM_OUT:
        window_rows(boxes, width, height, box, step->op->kind == MR_OP_PAD || step->flips);
        break;
    case MR_OP_HFLIP:
    case MR_OP_VFLIP:
        if (step->flips)
            mr_box_run_flip(boxes, step->op->kind == MR_OP_HFLIP, width, height);
        break;
    case MR_OP_SANITIZE: remove_rows(boxes, step); break;
    default: break;
    }
}
