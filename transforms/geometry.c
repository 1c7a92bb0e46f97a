/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes torchvision's draws and boxes, and folds them into stages. A crop is final: what a later
 * crop shows beyond it is its fill, not the pixels that were there. A flip before a resize is not
 * the same as one after it.
 *
 * Invariant: trim_stages() shrinks each stage's output to what the next stage reads. What the
 * operations asked for is saved before it runs.
 */
#include "transforms/geometry.h"

#include "transforms/axis.h"
#include "transforms/boxes/box_run.h"
#include "transforms/boxes/box_warp.h"
#include "transforms/boxes/iou_crop.h"
#include "transforms/geometry_detection.h"
#include "transforms/image_ops/image_warp.h"
#include "transforms/image_params.h"
#include "transforms/views/view_draws.h"

#include <math.h>
#include <string.h>

static struct mr_box whole_box(int64_t width, int64_t height)
{
    return (struct mr_box){.width = width, .height = height};
}

static struct mr_box intersect_boxes(struct mr_box a, struct mr_box b)
{
    int64_t x = a.x > b.x ? a.x : b.x;
    int64_t y = a.y > b.y ? a.y : b.y;
    int64_t right = a.x + a.width < b.x + b.width ? a.x + a.width : b.x + b.width;
    int64_t bottom = a.y + a.height < b.y + b.height ? a.y + a.height : b.y + b.height;
    if (right <= x || bottom <= y)
        return (struct mr_box){0};
    return (struct mr_box){.x = x, .y = y, .width = right - x, .height = bottom - y};
}

static bool same_box(struct mr_box a, struct mr_box b)
{
    return a.x == b.x && a.y == b.y && a.width == b.width && a.height == b.height;
}

static struct mr_stage *last_stage(struct mr_geometry *g)
{
    return &g->stages[g->n_stages - 1];
}

static bool is_resampled(const struct mr_stage *s)
{
    return s->resized_width != s->source.width || s->resized_height != s->source.height;
}

static bool is_expanded(const struct mr_stage *s)
{
    return s->n_calls > 0 &&
           (s->called_width != s->window.width || s->called_height != s->window.height);
}

static void add_stage(struct mr_geometry *g, int64_t width, int64_t height)
{
    struct mr_stage *s = &g->stages[g->n_stages++];
    *s = (struct mr_stage){
        .source = whole_box(width, height), .resized_width = width, .resized_height = height};
    s->window = s->live = whole_box(width, height);
}

/* Convert a box from pixels of a stage's output to pixels of its resized source. */
static struct mr_box undo_flips(const struct mr_stage *s, struct mr_box box)
{
    if (s->hflip)
        box.x = s->window.width - box.x - box.width;
    if (s->vflip)
        box.y = s->window.height - box.y - box.height;
    box.x += s->window.x;
    box.y += s->window.y;
    return box;
}

/* box: in pixels of the image so far; what it shows outside gets the color. */
static void fold_crop(struct mr_geometry *g, struct mr_box box, const uint8_t fill[3])
{
    struct mr_stage *s = last_stage(g);
    struct mr_box image = whole_box(s->window.width, s->window.height);
    bool is_inside = same_box(intersect_boxes(box, image), box);
    bool is_other = !same_box(s->live, s->window) && memcmp(s->fill, fill, sizeof s->fill) != 0;
    if (!is_inside && is_other) {
        add_stage(g, image.width, image.height);
        s = last_stage(g);
    }
    if (!is_inside)
        memcpy(s->fill, fill, sizeof s->fill);
    s->window = undo_flips(s, box);
    s->live = intersect_boxes(s->live, s->window);
}

static void fold_resize(struct mr_geometry *g, int64_t width, int64_t height,
                        enum mr_interpolation interpolation)
{
    struct mr_stage *s = last_stage(g);
    if (s->window.width == width && s->window.height == height)
        return; /* Pillow returns a copy */
    if (is_resampled(s) || s->hflip || s->vflip || s->is_padded || !same_box(s->live, s->window)) {
        add_stage(g, s->window.width, s->window.height);
        s = last_stage(g);
    }
    s->source = (struct mr_box){.x = s->source.x + s->window.x,
                                .y = s->source.y + s->window.y,
                                .width = s->window.width,
                                .height = s->window.height};
    s->resized_width = width;
    s->resized_height = height;
    s->interpolation = interpolation;
    s->window = s->live = whole_box(width, height);
}

/* Fold a crop of the image with a border of pixels around it; box as in fold_crop(). */
static void fold_padded_crop(struct mr_geometry *g, const struct mr_op *op, struct mr_box box)
{
    struct mr_stage *s = last_stage(g);
    struct mr_box image = whole_box(s->window.width, s->window.height);
    if (op->padding_mode == MR_PADDING_CONSTANT || same_box(intersect_boxes(box, image), box)) {
        fold_crop(g, box, op->fill);
        return;
    }
    if (is_resampled(s) || s->hflip || s->vflip || s->is_padded || !same_box(s->live, image) ||
        !same_box(s->source, image)) {
        add_stage(g, image.width, image.height);
        s = last_stage(g);
    }
    s->is_padded = true;
    s->padding_mode = (enum mr_padding_mode)op->padding_mode;
    s->window = s->live = box;
}

/* torchvision's int(size * long / short), and again if that is longer than max_size; 0: any. */
static mr_status scale_short_side(int64_t size, int64_t max_size, int64_t *width, int64_t *height,
                                  mr_error *error)
{
    int64_t wanted = size;
    bool upright = *width <= *height;
    int64_t shorter = upright ? *width : *height;
    int64_t longer = upright ? *height : *width;
    double scaled = (double)(size * longer) / (double)shorter;
    if (max_size && trunc(scaled) > (double)max_size) {
        size = (int64_t)((double)(max_size * size) / trunc(scaled));
        scaled = (double)max_size;
    }
    if (size == 0)
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "image %lldx%lld has a side of 0 after resize(%lld,max_size=%lld)",
                            (long long)*width, (long long)*height, (long long)wanted,
                            (long long)max_size);
    if (!(scaled <= (double)MR_MAX_RESIZED))
        return mr_error_set(error, MR_ERR_DAMAGED,
                            "image %lldx%lld has a side of %.0f after resize(%lld)",
                            (long long)*width, (long long)*height, scaled, (long long)size);
    *width = upright ? size : (int64_t)scaled;
    *height = upright ? (int64_t)scaled : size;
    return MR_OK;
}

/* Python's int(round(difference / 2.0)): a half is rounded to even. */
static int64_t half_to_even(int64_t difference)
{
    int64_t half = difference / 2;
    return difference % 2 ? half + half % 2 : half;
}

/*
 * Where torchvision's center_crop begins on one axis. It pads a smaller image by the floor on this
 * side.
 */
static int64_t center_start(int64_t size, int64_t crop)
{
    return crop > size ? -((crop - size) / 2) : half_to_even(size - crop);
}

static mr_status check_random_crop(const struct mr_op *op, int64_t width, int64_t height,
                                   mr_error *error)
{
    if (op->pad_if_needed)
        return MR_OK;
    if (width + 2 * (int64_t)op->padding >= op->width &&
        height + 2 * (int64_t)op->padding >= op->height)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED,
                        "crop %ux%u is larger than the image %lldx%lld with padding %u", op->width,
                        op->height, (long long)width, (long long)height, op->padding);
}

static mr_status check_crops(const struct mr_op *op, int64_t width, int64_t height, mr_error *error)
{
    if (op->width <= width && op->height <= height)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED, "crop %ux%u is larger than the image %lldx%lld",
                        op->width, op->height, (long long)width, (long long)height);
}

/* The corners from left to right and from top to bottom, then the center. */
static struct mr_box crop_of_five(const struct mr_op *op, uint32_t number, int64_t width,
                                  int64_t height)
{
    int64_t right = width - op->width, bottom = height - op->height;
    bool is_center = number == 4;
    return (struct mr_box){.x = is_center    ? half_to_even(right)
                                : number % 2 ? right
                                             : 0,
                           .y = is_center     ? half_to_even(bottom)
                                : number >= 2 ? bottom
                                              : 0,
                           .width = op->width,
                           .height = op->height};
}

/* RandomCrop.get_params: an image of exactly the crop's size makes no draws. */
static struct mr_box draw_crop(const struct mr_op *op, int64_t width, int64_t height,
                               struct mr_rng *rng)
{
    int64_t left = mr_geometry_step_padding(op, width, op->width),
            top = mr_geometry_step_padding(op, height, op->height);
    int64_t below = height + 2 * top - op->height;
    int64_t beside = width + 2 * left - op->width;
    struct mr_box box = {.x = -left, .y = -top, .width = op->width, .height = op->height};
    if (below || beside) {
        box.y += mr_rng_below(rng, (uint32_t)(below + 1));
        box.x += mr_rng_below(rng, (uint32_t)(beside + 1));
    }
    return box;
}

static struct mr_box padded_box(const struct mr_op *op, int64_t width, int64_t height)
{
    if (op->kind == MR_OP_PAD_IF_SMALLER)
        return whole_box(width > op->width ? width : op->width,
                         height > op->height ? height : op->height);
    int64_t left = (int64_t)op->border[0], top = (int64_t)op->border[1];
    return (struct mr_box){.x = -left,
                           .y = -top,
                           .width = left + width + (int64_t)op->border[2],
                           .height = top + height + (int64_t)op->border[3]};
}

static mr_status check_pad(const struct mr_op *op, int64_t width, int64_t height, mr_error *error)
{
    struct mr_box box = padded_box(op, width, height);
    if (box.width <= MR_MAX_RESIZED && box.height <= MR_MAX_RESIZED)
        return MR_OK;
    return mr_error_set(error, MR_ERR_DAMAGED, "image %lldx%lld is too large for pad",
                        (long long)width, (long long)height);
}

/*
 * RandomResizedCrop.get_params after ten draws that did not fit: the largest central box within the
 * ratios.
 */
static struct mr_box central_box(const struct mr_op *op, int64_t width, int64_t height)
{
    double lo = op->ratio[0], hi = op->ratio[1];
    double ratio = (double)width / (double)height;
    struct mr_box box = whole_box(width, height);
    if (ratio < lo)
        box.height = (int64_t)rint((double)width / lo);
    else if (ratio > hi)
        box.width = (int64_t)rint((double)height * hi);
    box.height = box.height < 1 ? 1 : box.height;
    box.width = box.width < 1 ? 1 : box.width;
    box.x = (width - box.width) / 2;
    box.y = (height - box.height) / 2;
    return box;
}

/* RandomResizedCrop.get_params; f32 where torch has f32 tensors, double where Python computes. */
static struct mr_box draw_box(const struct mr_op *op, int64_t width, int64_t height,
                              struct mr_rng *rng)
{
    float log_lo = (float)log((double)(float)op->ratio[0]);
    float log_hi = (float)log((double)(float)op->ratio[1]);
    double area = (double)(width * height);
    for (int attempt = 0; attempt < 10; attempt++) {
        double target =
            area * (double)mr_rng_uniform(rng, (float)op->scale[0], (float)op->scale[1]);
        double aspect = (double)(float)exp((double)mr_rng_uniform(rng, log_lo, log_hi));
        double w = rint(sqrt(target * aspect));
        double h = rint(sqrt(target / aspect));
        if (!(w > 0 && w <= (double)width && h > 0 && h <= (double)height))
            continue;
        struct mr_box box = {.width = (int64_t)w, .height = (int64_t)h};
        box.y = mr_rng_below(rng, (uint32_t)(height - box.height + 1));
        box.x = mr_rng_below(rng, (uint32_t)(width - box.width + 1));
        return box;
    }
    return central_box(op, width, height);
}

/*
 * timm's "random". It draws from a separate place, so the boxes are the same with any
 * interpolation.
 */
static enum mr_interpolation draw_filter(const struct mr_op *op, uint32_t place,
                                         const struct mr_rng *rng)
{
    struct mr_rng own;
    if (op->interpolation != MR_RANDOM_FILTER)
        return (enum mr_interpolation)op->interpolation;
    mr_rng_init_place(&own, rng, place);
    return mr_rng_below(&own, 2) ? MR_BICUBIC : MR_BILINEAR;
}

/* RandomResize: its end is exclusive, as torch.randint's. */
static int64_t draw_short_side(const struct mr_op *op, struct mr_rng *rng)
{
    return op->kind == MR_OP_RESIZE_SHORT ? op->height
                                          : op->height + mr_rng_below(rng, op->width - op->height);
}

static struct mr_geometry_step begin_step(const struct mr_op *op, struct mr_geometry *g)
{
    const struct mr_box *image = &last_stage(g)->window;
    return (struct mr_geometry_step){.op = op, .width = image->width, .height = image->height};
}

/* place: of the operation in the plan's list, from 1. */
static mr_status draw_step(struct mr_geometry_step *step, uint32_t place, struct mr_rng *rng,
                           const struct mr_box_list *boxes, mr_error *error)
{
    const struct mr_op *op = step->op;
    mr_status status = MR_OK;
    step->resized_width = op->width;
    step->resized_height = op->height;
    switch ((enum mr_op_kind)op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP: step->box = draw_box(op, step->width, step->height, rng); break;
    case MR_OP_RESIZE_SHORT:
    case MR_OP_RANDOM_RESIZE:
        step->resized_width = step->width;
        step->resized_height = step->height;
        status = scale_short_side(draw_short_side(op, rng),
                                  op->kind == MR_OP_RESIZE_SHORT ? op->max_size : 0,
                                  &step->resized_width, &step->resized_height, error);
        break;
    case MR_OP_CENTER_CROP:
        step->box = (struct mr_box){.x = center_start(step->width, op->width),
                                    .y = center_start(step->height, op->height),
                                    .width = op->width,
                                    .height = op->height};
        break;
    case MR_OP_RANDOM_CROP:
        status = check_random_crop(op, step->width, step->height, error);
        if (status == MR_OK)
            step->box = draw_crop(op, step->width, step->height, rng);
        break;
    case MR_OP_PATCH_CROP:
        status = check_crops(op, step->width, step->height, error);
        if (status == MR_OK)
            status = mr_geometry_detection_draw(step, rng, error);
        break;
    case MR_OP_RANDOM_IOU_CROP: mr_iou_crop_draw(step, place, rng, boxes); break;
    case MR_OP_PAD:
    case MR_OP_PAD_IF_SMALLER:
        status = check_pad(op, step->width, step->height, error);
        step->box = padded_box(op, step->width, step->height);
        break;
    case MR_OP_RANDOM_SHORTEST_SIZE:
    case MR_OP_SCALE_JITTER:
    case MR_OP_FIXED_SIZE_CROP:
    case MR_OP_RANDOM_ZOOM_OUT:
    case MR_OP_LETTERBOX: status = mr_geometry_detection_draw(step, rng, error); break;
    case MR_OP_FIVE_CROP:
    case MR_OP_TEN_CROP:
        status = check_crops(op, step->width, step->height, error);
        step->box = crop_of_five(op, rng->picture % 5, step->width, step->height);
        step->flips = rng->picture >= 5;
        mr_rng_part_pictures(rng);
        break;
    /* torch compares an f32 with p, so p is rounded to f32. */
    case MR_OP_HFLIP:
    case MR_OP_VFLIP: step->flips = mr_rng_chance(rng, (double)(float)op->p); break;
    default: break;
    }
    if (status == MR_OK)
        step->interpolation = draw_filter(op, place, rng);
    return status;
}

static void fold_step(struct mr_geometry *g, const struct mr_geometry_step *step)
{
    static const uint8_t black[3] = {0};
    switch ((enum mr_op_kind)step->op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP:
        fold_crop(g, step->box, black);
        fold_resize(g, step->resized_width, step->resized_height, step->interpolation);
        break;
    case MR_OP_RESIZE_SHORT:
    case MR_OP_RANDOM_RESIZE:
    case MR_OP_RANDOM_SHORTEST_SIZE:
    case MR_OP_SCALE_JITTER:
    case MR_OP_RESIZE:
        fold_resize(g, step->resized_width, step->resized_height, step->interpolation);
        break;
    case MR_OP_LETTERBOX:
        fold_resize(g, step->resized_width, step->resized_height, step->interpolation);
        fold_padded_crop(g, step->op, step->box);
        break;
    case MR_OP_PATCH_CROP:
    case MR_OP_CENTER_CROP: fold_crop(g, step->box, black); break;
    case MR_OP_RANDOM_IOU_CROP:
        if (step->box.width > 0)
            fold_crop(g, step->box, black);
        break;
    case MR_OP_RANDOM_CROP:
    case MR_OP_PAD:
    case MR_OP_PAD_IF_SMALLER:
    case MR_OP_FIXED_SIZE_CROP:
    case MR_OP_RANDOM_ZOOM_OUT: fold_padded_crop(g, step->op, step->box); break;
    case MR_OP_FIVE_CROP:
    case MR_OP_TEN_CROP:
        last_stage(g)->hflip ^= step->flips && !step->op->vertical;
        last_stage(g)->vflip ^= step->flips && step->op->vertical;
        fold_crop(g, step->box, black);
        break;
    case MR_OP_HFLIP: last_stage(g)->hflip ^= step->flips; break;
    case MR_OP_VFLIP: last_stage(g)->vflip ^= step->flips; break;
    default: break;
    }
}

/* Later operations work on the image that the calls made. */
static void end_calls(struct mr_geometry *g)
{
    const struct mr_stage *s = last_stage(g);
    if (s->n_calls > 0)
        add_stage(g, s->called_width, s->called_height);
}

/* A call that changes the size is the last one of its stage. */
static void draw_calls(const struct mr_plan *plan, uint32_t i, const struct mr_rng *rng,
                       struct mr_geometry *g, struct mr_geometry_step *step)
{
    struct mr_stage *s = last_stage(g);
    step->first_call = g->calls.n;
    if (s->n_calls == 0)
        s->first_call = g->calls.n;
    mr_image_params_node(plan->ops, i, rng, (uint32_t)step->width, (uint32_t)step->height,
                         &g->calls);
    s->n_calls = g->calls.n - s->first_call;
    step->n_calls = g->calls.n - step->first_call;
    uint32_t width = (uint32_t)step->width, height = (uint32_t)step->height;
    if (step->n_calls > 0)
        mr_image_warp_size(&g->calls.calls[g->calls.n - 1], &width, &height);
    s->called_width = width;
    s->called_height = height;
    if (width != step->width || height != step->height)
        end_calls(g);
}

static void find_need(struct mr_stage *s)
{
    s->need = (struct mr_box){0};
    if (s->live.width == 0)
        return;
    int64_t left, right, top, bottom;
    if (s->is_padded) {
        mr_padding_span(s->padding_mode, s->source.width, s->live.x, s->live.width, &left, &right);
        mr_padding_span(s->padding_mode, s->source.height, s->live.y, s->live.height, &top,
                        &bottom);
        s->need =
            (struct mr_box){.x = left, .y = top, .width = right - left, .height = bottom - top};
        return;
    }
    mr_axis_span(s->interpolation, s->source.width, s->resized_width, s->live.x, s->live.width,
                 &left, &right);
    mr_axis_span(s->interpolation, s->source.height, s->resized_height, s->live.y, s->live.height,
                 &top, &bottom);
    s->need = (struct mr_box){.x = s->source.x + left,
                              .y = s->source.y + top,
                              .width = right - left,
                              .height = bottom - top};
}

/*
 * What the crops before the first resize leave of the image. It is only known before trim_stages().
 */
static struct mr_box find_crop(const struct mr_geometry *g)
{
    uint32_t i = 0;
    while (i + 1 < g->n_stages && !is_resampled(&g->stages[i]) && !is_expanded(&g->stages[i]))
        i++;
    const struct mr_stage *s = &g->stages[i];
    struct mr_box crop = is_resampled(s) ? s->source : s->window;
    while (i-- > 0)
        crop = undo_flips(&g->stages[i], crop);
    return crop;
}

/* From the last stage to the first: a stage makes only what the next one reads. */
static void trim_stages(struct mr_geometry *g)
{
    for (uint32_t i = g->n_stages; i-- > 0;) {
        struct mr_stage *s = &g->stages[i];
        if (i + 1 < g->n_stages && s->n_calls == 0) {
            s->window = undo_flips(s, g->stages[i + 1].need);
            s->live = intersect_boxes(s->live, s->window);
        }
        find_need(s);
    }
}

/* steps: where to record the steps, or NULL. boxes: NULL, or those that are moved too. */
static mr_status make_geometry(const struct mr_plan *plan, uint32_t width, uint32_t height,
                               struct mr_rng *rng, struct mr_geometry *g,
                               struct mr_geometry_steps *steps, struct mr_box_list *boxes,
                               mr_error *error)
{
    if (width == 0 || height == 0 || width > MR_MAX_RESIZED || height > MR_MAX_RESIZED)
        return mr_error_set(error, MR_ERR_DAMAGED, "image is %ux%u pixels", width, height);
    g->n_stages = g->n_shared = 0;
    g->calls.n = 0;
    add_stage(g, width, height);
    struct mr_rng other;
    for (uint32_t i = 0; i < plan->n_ops; i = mr_image_params_skip(plan->ops, i)) {
        struct mr_rng *draws = mr_view_draws_at(plan, i, rng, &other);
        if (i == plan->view.n_shared) {
            end_calls(g);
            g->n_shared = g->n_stages - 1;
        }
        struct mr_geometry_step step = begin_step(&plan->ops[i], g);
        if (mr_image_params_is_image(&plan->ops[i])) {
            draw_calls(plan, i, draws, g, &step);
            if (boxes)
                mr_box_warp_step(&step, g->calls.calls, boxes);
        } else {
            end_calls(g);
            mr_status status = draw_step(&step, i + 1, draws, boxes, error);
            if (status != MR_OK)
                return status;
            fold_step(g, &step);
            if (boxes)
                mr_box_run_step(&step, boxes);
        }
        if (steps)
            steps->steps[steps->n++] = step;
    }
    end_calls(g);
    g->crop = find_crop(g);
    trim_stages(g);
    return MR_OK;
}

mr_status mr_geometry_make(const struct mr_plan *plan, uint32_t width, uint32_t height,
                           struct mr_rng *rng, struct mr_geometry *geometry_out, mr_error *error)
{
    return make_geometry(plan, width, height, rng, geometry_out, NULL, NULL, error);
}

mr_status mr_geometry_record(const struct mr_plan *plan, uint32_t width, uint32_t height,
                             struct mr_rng *rng, struct mr_geometry *geometry_out,
                             struct mr_geometry_steps *steps_out, struct mr_box_list *boxes,
                             mr_error *error)
{
    if (steps_out)
        steps_out->n = 0;
    return make_geometry(plan, width, height, rng, geometry_out, steps_out, boxes, error);
}

static bool sets_size(const struct mr_op *op)
{
    return op->kind == MR_OP_RANDOM_RESIZED_CROP || op->kind == MR_OP_RESIZE ||
           op->kind == MR_OP_PATCH_CROP || op->kind == MR_OP_CENTER_CROP ||
           op->kind == MR_OP_RANDOM_CROP || op->kind == MR_OP_FIXED_SIZE_CROP ||
           op->kind == MR_OP_LETTERBOX || op->kind == MR_OP_FIVE_CROP || op->kind == MR_OP_TEN_CROP;
}

bool mr_geometry_draws_size(const struct mr_op *op)
{
    return op->kind == MR_OP_RANDOM_IOU_CROP || op->kind == MR_OP_RANDOM_RESIZE ||
           op->kind == MR_OP_RANDOM_SHORTEST_SIZE || op->kind == MR_OP_SCALE_JITTER ||
           op->kind == MR_OP_RANDOM_ZOOM_OUT ||
           (op->kind == MR_OP_IMAGE && mr_image_op_draws_size(op->image_op, op->args));
}

/* Can the operation be applied to an image of that size? */
static mr_status check_size(const struct mr_op *op, int64_t width, int64_t height, mr_error *error)
{
    if (op->kind == MR_OP_RANDOM_CROP)
        return check_random_crop(op, width, height, error);
    if (op->kind == MR_OP_FIVE_CROP || op->kind == MR_OP_TEN_CROP || op->kind == MR_OP_PATCH_CROP)
        return check_crops(op, width, height, error);
    if (op->kind == MR_OP_PAD || op->kind == MR_OP_PAD_IF_SMALLER)
        return check_pad(op, width, height, error);
    if (op->kind == MR_OP_IMAGE && mr_image_ops[op->image_op].check)
        return mr_image_ops[op->image_op].check(op->args, width, height, error);
    return MR_OK;
}

mr_status mr_geometry_size(const struct mr_plan *plan, uint32_t width, uint32_t height,
                           int64_t *width_out, int64_t *height_out, mr_error *error)
{
    int64_t w = width, h = height;
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct mr_op *op = &plan->ops[i];
        mr_status status = w ? check_size(op, w, h, error) : MR_OK;
        if (status == MR_OK && op->kind == MR_OP_RESIZE_SHORT && w)
            status = scale_short_side(op->height, op->max_size, &w, &h, error);
        if (status != MR_OK)
            return status;
        if (mr_geometry_draws_size(op))
            w = h = 0;
        if ((op->kind == MR_OP_PAD || op->kind == MR_OP_PAD_IF_SMALLER) && w) {
            struct mr_box box = padded_box(op, w, h);
            w = box.width;
            h = box.height;
        }
        if (sets_size(op)) {
            w = op->width;
            h = op->height;
        }
    }
    *width_out = w;
    *height_out = h;
    return MR_OK;
}

uint64_t mr_geometry_most_pixels(const struct mr_plan *plan)
{
    struct mr_box image = {0}; /* as it is at that point; 0 if its size follows the source's */
    int64_t most = 0;
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct mr_op *op = &plan->ops[i];
        if (sets_size(op))
            image = whole_box(op->width, op->height);
        else if (op->kind == MR_OP_RESIZE_SHORT || mr_geometry_draws_size(op))
            image = whole_box(0, 0);
        else if ((op->kind == MR_OP_PAD || op->kind == MR_OP_PAD_IF_SMALLER) && image.width)
            image = padded_box(op, image.width, image.height);
        else if (mr_image_params_is_image(op) && image.width * image.height > most)
            most = image.width * image.height;
    }
    return (uint64_t)most;
}

void mr_geometry_report(const struct mr_geometry *geometry, uint32_t width, uint32_t height,
                        int32_t report_out[8])
{
    const struct mr_box *crop = &geometry->crop;
    bool hflip = false, vflip = false;
    for (uint32_t i = 0; i < geometry->n_stages; i++) {
        hflip ^= geometry->stages[i].hflip;
        vflip ^= geometry->stages[i].vflip;
    }
    for (uint32_t i = 0; i < geometry->calls.n; i++) {
        hflip ^= geometry->calls.calls[i].kind == MR_CALL_HFLIP;
        vflip ^= geometry->calls.calls[i].kind == MR_CALL_VFLIP;
    }
    const int64_t report[8] = {width,       height,       crop->x, crop->y,
                               crop->width, crop->height, hflip,   vflip};
    for (int i = 0; i < 8; i++)
        report_out[i] = (int32_t)report[i];
}
