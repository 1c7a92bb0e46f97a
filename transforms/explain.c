/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes which functions of torchvision and Pillow make a sample. geometry.c makes the sample from
 * the same steps. Here they get torchvision's names, and steps that change nothing are left out.
 */
#include "base/options.h"
#include "transforms/call_text.h"
#include "transforms/erase.h"
#include "transforms/geometry.h"
#include "transforms/image_ops/image_warp.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"
#include "transforms/views/view_draws.h"

#include <stdlib.h>
#include <string.h>

/* What the draws and their text need; too large for a stack. */
struct explanation {
    struct mr_plan plan;
    struct mr_geometry geometry;
    struct mr_geometry_steps steps;
    struct mr_box_list boxes;
    struct mr_rng rng; /* after the draws of the geometry */
    struct mr_erase erase;
    struct mr_mix mix; /* kind none if the row stays as it is */
    uint32_t partner;
};

struct listing {
    struct mr_text_writer *w;
    mr_explain_form form;
    bool has_boxes;        /* a call that clamps boxes counts, even if it leaves the image */
    uint32_t n;            /* calls so far, in a chain of a mixture those of the chain */
    uint32_t n_chains;     /* of the mixture so far */
    struct mr_image image; /* before the next call */
};

static const struct mr_image_arg box_args[MR_CALL_MAX_NAMED] = {
    {.name = "top", .kind = MR_ARG_INTEGER},
    {.name = "left", .kind = MR_ARG_INTEGER},
    {.name = "height", .kind = MR_ARG_INTEGER},
    {.name = "width", .kind = MR_ARG_INTEGER}};
static const struct mr_image_arg resized_args[MR_CALL_MAX_NAMED] = {
    {.name = "top", .kind = MR_ARG_INTEGER},
    {.name = "left", .kind = MR_ARG_INTEGER},
    {.name = "height", .kind = MR_ARG_INTEGER},
    {.name = "width", .kind = MR_ARG_INTEGER},
    {.name = "size", .kind = MR_ARG_INTEGER, .n = 2},
    {.name = "interpolation", .kind = MR_ARG_FILTER}};
static const struct mr_image_arg resize_args[MR_CALL_MAX_NAMED] = {
    {.name = "size", .kind = MR_ARG_INTEGER, .n = 2},
    {.name = "interpolation", .kind = MR_ARG_FILTER}};
static const struct mr_image_arg center_args[MR_CALL_MAX_NAMED] = {
    {.name = "output_size", .kind = MR_ARG_INTEGER, .n = 2}};
static const struct mr_image_arg pad_args[MR_CALL_MAX_NAMED] = {
    {.name = "padding", .kind = MR_ARG_INTEGER, .n = 4}};
static const struct mr_image_arg pad_as_args[MR_CALL_MAX_NAMED] = {
    {.name = "padding", .kind = MR_ARG_INTEGER, .n = 4},
    {.name = "fill", .kind = MR_ARG_FILL},
    {.name = "padding_mode", .kind = MR_ARG_WORD, .words = mr_transform_padding_modes}};
static const struct mr_image_arg sanitize_args[MR_CALL_MAX_NAMED] = {
    {.name = "min_size", .kind = MR_ARG_NUMBER}, {.name = "min_area", .kind = MR_ARG_NUMBER}};
static const char *const rgb[] = {"RGB", NULL};
static const struct mr_image_arg convert_args[MR_CALL_MAX_NAMED] = {
    {.name = "mode", .kind = MR_ARG_WORD, .words = rgb}};
static const struct mr_image_arg no_args[MR_CALL_MAX_NAMED];

static void put_call(struct listing *l, const struct mr_call_text *call)
{
    if (l->form == MR_EXPLAIN_WORDS) {
        mr_text_writer_put(l->w, "%s", l->n ? ", " : "");
        mr_call_text_put_words(l->w, call, &l->image);
    } else if (l->form == MR_EXPLAIN_BRIEF) {
        mr_text_writer_put(l->w, "%s", l->n ? ", " : "");
        mr_call_text_put_brief(l->w, call, &l->image);
    } else {
        mr_text_writer_put(l->w, "%s", l->n ? "," : "");
        mr_call_text_put_json(l->w, call, &l->image);
    }
    l->n++;
}

static void put_function(struct listing *l, const char *name, const struct mr_image_arg *keywords,
                         const double *args)
{
    const struct mr_call_text call = {.name = name, .keywords = keywords, .args = args};
    put_call(l, &call);
}

static void set_size(struct listing *l, int64_t width, int64_t height)
{
    l->image.width = (uint32_t)width;
    l->image.height = (uint32_t)height;
}

static bool has_size(const struct listing *l, int64_t width, int64_t height)
{
    return l->image.width == width && l->image.height == height;
}

static bool is_whole(const struct listing *l, const struct mr_box *box)
{
    return box->x == 0 && box->y == 0 && has_size(l, box->width, box->height);
}

static void put_resized_crop(struct listing *l, const struct mr_geometry_step *step)
{
    const struct mr_box *box = &step->box;
    const double args[] = {(double)box->y,
                           (double)box->x,
                           (double)box->height,
                           (double)box->width,
                           (double)step->resized_height,
                           (double)step->resized_width,
                           step->interpolation};
    if (l->has_boxes || !is_whole(l, box) ||
        !has_size(l, step->resized_width, step->resized_height))
        put_function(l, "resized_crop", resized_args, args);
    set_size(l, step->resized_width, step->resized_height);
}

static void put_resize(struct listing *l, const struct mr_geometry_step *step)
{
    const double args[] = {(double)step->resized_height, (double)step->resized_width,
                           step->interpolation};
    if (!has_size(l, step->resized_width, step->resized_height))
        put_function(l, "resize", resize_args, args);
    set_size(l, step->resized_width, step->resized_height);
}

static void put_center_crop(struct listing *l, const struct mr_geometry_step *step)
{
    const double args[] = {(double)step->box.height, (double)step->box.width};
    if (l->has_boxes || !is_whole(l, &step->box))
        put_function(l, "center_crop", center_args, args);
    set_size(l, step->box.width, step->box.height);
}

/* border: left, top, right, bottom */
static void put_pad(struct listing *l, const struct mr_op *op, const double border[4])
{
    const uint8_t *fill = op->fill;
    const double args[] = {border[0], border[1], border[2], border[3],
                           fill[0],   fill[1],   fill[2],   op->padding_mode};
    bool is_default = op->padding_mode == MR_PADDING_CONSTANT && !fill[0] && !fill[1] && !fill[2];
    bool clamps = l->has_boxes && (op->kind == MR_OP_PAD || op->kind == MR_OP_RANDOM_ZOOM_OUT);
    if (clamps || border[0] > 0 || border[1] > 0 || border[2] > 0 || border[3] > 0)
        put_function(l, "pad", is_default ? pad_args : pad_as_args, args);
    set_size(l, l->image.width + (int64_t)(border[0] + border[2]),
             l->image.height + (int64_t)(border[1] + border[3]));
}

/* Cut off what is outside the box, then pad what the image lacks. */
static void put_window(struct listing *l, const struct mr_geometry_step *step)
{
    struct mr_box box = step->box;
    int64_t left = box.x < 0 ? -box.x : 0, top = box.y < 0 ? -box.y : 0;
    int64_t x = box.x + left, y = box.y + top, width = box.width - left, height = box.height - top;
    int64_t right = x + width - l->image.width, bottom = y + height - l->image.height;
    right = right > 0 ? right : 0;
    bottom = bottom > 0 ? bottom : 0;
    const double args[] = {(double)y, (double)x, (double)(height - bottom),
                           (double)(width - right)};
    if (x > 0 || y > 0 || !has_size(l, width - right, height - bottom))
        put_function(l, "crop", box_args, args);
    set_size(l, width - right, height - bottom);
    put_pad(l, step->op,
            (const double[4]){(double)left, (double)top, (double)right, (double)bottom});
}

static void put_iou_crop(struct listing *l, const struct mr_geometry_step *step)
{
    const struct mr_box *box = &step->box;
    const double args[] = {(double)box->y, (double)box->x, (double)box->height, (double)box->width};
    if (box->width == 0)
        return;
    put_function(l, "v2.RandomIoUCrop", box_args, args);
    set_size(l, box->width, box->height);
}

/* torchvision pads first, then crops the result. */
static void put_random_crop(struct listing *l, const struct mr_geometry_step *step)
{
    struct mr_box box = step->box;
    int64_t left = mr_geometry_step_padding(step->op, step->width, box.width),
            top = mr_geometry_step_padding(step->op, step->height, box.height);
    const double border[4] = {(double)left, (double)top, (double)left, (double)top};
    put_pad(l, step->op, border);
    box.x += left;
    box.y += top;
    const double args[] = {(double)box.y, (double)box.x, (double)box.height, (double)box.width};
    if (!is_whole(l, &box))
        put_function(l, "crop", box_args, args);
    set_size(l, box.width, box.height);
}

/* torchvision flips the image, then crops it. */
static void put_five_crop(struct listing *l, const struct mr_geometry_step *step)
{
    const struct mr_box *box = &step->box;
    const double args[] = {(double)box->y, (double)box->x, (double)box->height, (double)box->width};
    if (step->flips)
        put_function(l, step->op->vertical ? "vflip" : "hflip", no_args, NULL);
    if (!is_whole(l, box))
        put_function(l, "crop", box_args, args);
    set_size(l, box->width, box->height);
}

/*
 * In JSON a mixture is one call of the list, with the weight of the image, and [weight, calls] of
 * each chain.
 */
static void put_mixture_part(struct listing *l, const struct mr_image_call *call)
{
    double weight = call->args[0];
    if (call->kind == MR_CALL_MIX_START) {
        mr_text_writer_put(l->w, "%s[\"%saugmix\",{\"weight\":", l->n ? "," : "",
                           call->args[1] > 0.0 ? "v2." : "");
        mr_text_writer_put_json_number(l->w, weight);
        mr_text_writer_put(l->w, ",\"chains\":[");
        l->n_chains = 0;
    } else if (call->kind == MR_CALL_MIX_CHAIN) {
        mr_text_writer_put(l->w, l->n_chains++ ? "]],[" : "[");
        mr_text_writer_put_json_number(l->w, weight);
        mr_text_writer_put(l->w, ",[");
        l->n = 0;
    } else {
        mr_text_writer_put(l->w, "]]]}]");
        l->n = 1;
    }
}

static void put_image_calls(struct listing *l, const struct mr_geometry_step *step,
                            const struct mr_image_call *calls)
{
    for (uint32_t i = 0; i < step->n_calls; i++) {
        const struct mr_image_call *call = &calls[step->first_call + i];
        const struct mr_call_text text = mr_call_text_of(call);
        if (mr_image_call_ops[call->kind].mixes && l->form == MR_EXPLAIN_JSON)
            put_mixture_part(l, call);
        else if (!mr_call_text_is_identity(&text, &l->image) ||
                 (l->has_boxes && mr_image_warp_moves(call)))
            put_call(l, &text);
        mr_image_warp_size(call, &l->image.width, &l->image.height);
        if (call->kind == MR_CALL_GRAYSCALE && call->args[0] == 1.0)
            l->image.n_channels = 1;
    }
}

static void put_step(struct listing *l, const struct mr_geometry_step *step,
                     const struct mr_image_call *calls)
{
    switch ((enum mr_op_kind)step->op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP: put_resized_crop(l, step); break;
    case MR_OP_RESIZE_SHORT:
    case MR_OP_RANDOM_RESIZE:
    case MR_OP_RANDOM_SHORTEST_SIZE:
    case MR_OP_SCALE_JITTER:
    case MR_OP_RESIZE: put_resize(l, step); break;
    case MR_OP_LETTERBOX:
        put_resize(l, step);
        put_window(l, step);
        break;
    case MR_OP_CENTER_CROP: put_center_crop(l, step); break;
    case MR_OP_RANDOM_CROP: put_random_crop(l, step); break;
    case MR_OP_FIVE_CROP:
    case MR_OP_TEN_CROP: put_five_crop(l, step); break;
    case MR_OP_RANDOM_IOU_CROP: put_iou_crop(l, step); break;
    case MR_OP_SANITIZE:
        if (l->has_boxes)
            put_function(l, "sanitize_bounding_boxes", sanitize_args, &step->op->min_size);
        break;
    case MR_OP_PAD:
    case MR_OP_PAD_IF_SMALLER:
    case MR_OP_PATCH_CROP:
    case MR_OP_FIXED_SIZE_CROP: put_window(l, step); break;
    case MR_OP_RANDOM_ZOOM_OUT:
        if (step->flips)
            put_window(l, step);
        break;
    case MR_OP_HFLIP:
    case MR_OP_VFLIP:
        if (step->flips)
            put_function(l, step->op->kind == MR_OP_HFLIP ? "hflip" : "vflip", no_args, NULL);
        break;
    default: put_image_calls(l, step, calls); break;
    }
}

static void put_calls(struct listing *l, const struct explanation *e, bool turns)
{
    if (turns)
        put_function(l, "PIL.exif_transpose", no_args, NULL);
    for (uint32_t i = 0; i < e->steps.n; i++)
        put_step(l, &e->steps.steps[i], e->geometry.calls.calls);
    if (e->plan.channels == 3 && l->image.n_channels == 1)
        put_function(l, "PIL.convert", convert_args, &(const double){0});
}

static void put_head(struct mr_text_writer *w, const mr_explain_options *o)
{
    if (o->form != MR_EXPLAIN_JSON)
        return;
    mr_text_writer_put(w, "{\"index\":%lld,\"epoch\":%llu,\"occurrence\":%u,\"name\":",
                       (long long)o->index, (unsigned long long)o->epoch, o->occurrence);
    if (o->name)
        mr_text_writer_put_json_string(w, o->name);
    else
        mr_text_writer_put(w, "null");
    if (o->width && o->height)
        mr_text_writer_put(w, ",\"size\":[%u,%u],", o->width, o->height);
    else
        mr_text_writer_put(w, ",\"size\":null,");
}

/* "random" if each element has its own value, otherwise a value for each channel. */
static void put_erased_value(struct mr_text_writer *w, const struct explanation *e, uint32_t k)
{
    if (e->erase.is_random) {
        mr_text_writer_put(w, "\"random\"");
        return;
    }
    for (uint32_t c = 0; c < e->plan.channels; c++) {
        mr_text_writer_put(w, c ? "," : "[");
        mr_text_writer_put_double(w, (double)e->erase.boxes[k].values[c]);
    }
    mr_text_writer_put(w, "]");
}

/* The erasing of the finished floats. e NULL: none, for a hole. */
static void put_after(struct mr_text_writer *w, const struct explanation *e)
{
    if (!e) {
        mr_text_writer_put(w, ",\"after\":null");
        return;
    }
    mr_text_writer_put(w, ",\"after\":[");
    for (uint32_t k = 0; k < e->erase.n; k++) {
        const struct mr_erase_box *box = &e->erase.boxes[k];
        mr_text_writer_put(w,
                           "%s[\"erase\",{\"i\":%d,\"j\":%d,\"h\":%d,\"w\":%d,\"v\":", k ? "," : "",
                           box->i, box->j, box->h, box->w);
        put_erased_value(w, e, k);
        mr_text_writer_put(w, "}]");
    }
    mr_text_writer_put(w, "]");
}

static void put_erased_words(struct listing *l, const struct explanation *e)
{
    for (uint32_t k = 0; k < e->erase.n; k++) {
        const struct mr_erase_box *box = &e->erase.boxes[k];
        mr_text_writer_put(l->w, "%serase %dx%d+%d+%d", l->n++ ? ", " : "", box->w, box->h, box->j,
                           box->i);
    }
}

static const char *const mix_names[] = {[MR_MIX_UP] = "mixup", [MR_MIX_CUT] = "cutmix"};

/* e NULL: a hole, which is not mixed. */
static void put_mix(struct mr_text_writer *w, const struct explanation *e)
{
    if (!e || e->mix.kind == MR_MIX_NONE) {
        mr_text_writer_put(w, ",\"mix\":null");
        return;
    }
    const struct mr_mix *mix = &e->mix;
    mr_text_writer_put(w, ",\"mix\":{\"kind\":\"%s\",\"row\":%u,\"lambda\":", mix_names[mix->kind],
                       e->partner);
    mr_text_writer_put_double(w, (double)mix->lambda);
    if (mix->kind == MR_MIX_CUT)
        mr_text_writer_put(w, ",\"box\":[%d,%d,%d,%d]", mix->x1, mix->y1, mix->x2, mix->y2);
    mr_text_writer_put(w, "}");
}

static void put_mix_words(struct listing *l, const struct explanation *e)
{
    if (e->mix.kind == MR_MIX_NONE)
        return;
    mr_text_writer_put(l->w, "%s%s row %u ", l->n++ ? ", " : "", mix_names[e->mix.kind],
                       e->partner);
    mr_text_writer_put_double(l->w, (double)e->mix.lambda);
}

/* One picture of the sample. e NULL: a hole. */
static void put_picture(struct mr_text_writer *w, const struct explanation *e,
                        const mr_transform *transform, const mr_explain_options *o)
{
    struct listing l = {.w = w, .form = (mr_explain_form)o->form, .has_boxes = o->boxes};
    bool is_json = o->form == MR_EXPLAIN_JSON;
    bool turns = e && e->plan.use_exif && o->orientation >= 2;
    bool swaps = turns && o->orientation >= 5;
    if (e) {
        l.image.n_channels = e->plan.source_channels;
        set_size(&l, swaps ? o->height : o->width, swaps ? o->width : o->height);
        mr_text_writer_put(w, "%s", is_json ? "\"calls\":[" : "");
        put_calls(&l, e, turns);
        mr_text_writer_put(w, "%s", is_json ? "]" : "");
    } else if (is_json) {
        mr_text_writer_put(w, "\"calls\":null");
    }
    if (is_json && mr_transform_erases(transform))
        put_after(w, e);
    if (is_json && mr_transform_mixes(transform) && o->n_rows > 0)
        put_mix(w, e);
    if (!is_json && e) {
        put_erased_words(&l, e);
        put_mix_words(&l, e);
    }
}

static mr_status check_options(const mr_explain_options *options, mr_error *error)
{
    if (options->orientation > 8)
        return mr_error_set(error, MR_ERR_INVALID, "orientation %u is above 8",
                            options->orientation);
    if (options->raw_channels != 0 && options->raw_channels != 1 && options->raw_channels != 3)
        return mr_error_set(error, MR_ERR_INVALID, "raw_channels %u is not 0, 1 or 3",
                            options->raw_channels);
    if (options->form > MR_EXPLAIN_BRIEF)
        return mr_error_set(error, MR_ERR_INVALID, "form %u is unknown", options->form);
    if (options->n_rows > 0 && options->row >= options->n_rows)
        return mr_error_set(error, MR_ERR_INVALID, "row %u is not below n_rows %u", options->row,
                            options->n_rows);
    if (options->n_boxes > UINT16_MAX || (options->n_boxes > 0 && !options->boxes))
        return mr_error_set(error, MR_ERR_INVALID, "n_boxes %llu: boxes is NULL, or more than %d",
                            (unsigned long long)options->n_boxes, UINT16_MAX);
    return MR_OK;
}

static mr_status compile_plan(const mr_transform *transform, const mr_explain_options *o,
                              struct mr_plan *plan, mr_error *error)
{
    struct mr_sample_kind kind = {
        .encoded = o->raw_channels == 0, .picture = 1, .boxes = o->boxes != NULL};
    if (o->raw_channels) {
        kind.dtype = MR_U8;
        kind.ndim = 3;
        kind.layout = MR_NHWC;
        kind.shape[0] = o->height;
        kind.shape[1] = o->width;
        kind.shape[2] = o->raw_channels;
        kind.data_bytes = (uint64_t)o->width * o->height * o->raw_channels;
    }
    /* With floats, normalize has no effect here; with u8 it would be refused. */
    return mr_plan_compile(transform, &kind, MR_F32, MR_NCHW, plan, error);
}

/* width, height: of the sample's finished image. */
static void draw_mix(const mr_explain_options *o, uint32_t width, uint32_t height,
                     struct explanation *e)
{
    e->mix.kind = MR_MIX_NONE;
    if (e->plan.mix.kind == 0 || o->n_rows == 0 || o->partner_is_hole)
        return;
    mr_mix_draw_batch(&e->plan.mix, e->plan.view.name[0], o->seed, o->epoch, o->batch, o->rank,
                      width, height, &e->mix);
    e->partner = mr_mix_partner(e->mix.rule, o->row, o->n_rows);
    if (e->partner == o->row)
        e->mix.kind = MR_MIX_NONE;
}

/* Draw picture k of the view whose plan is compiled. */
static mr_status draw_picture(const mr_explain_options *o, uint32_t k, struct explanation *e,
                              mr_error *error)
{
    struct mr_rng sample;
    if (e->plan.draws_for_boxes && !o->boxes)
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_iou_crop is drawn for the boxes of the sample: set boxes");
    mr_box_list_clear(&e->boxes);
    for (uint64_t i = 0; i < o->n_boxes; i++) {
        struct mr_box_row *row;
        mr_status added = mr_box_list_add(&e->boxes, &row, error);
        if (added != MR_OK)
            return added;
        memcpy(row, o->boxes + 4 * i, 4 * sizeof *o->boxes); /* the first fields */
    }
    bool swaps = e->plan.use_exif && o->orientation >= 5;
    mr_rng_init(&sample, o->seed, o->epoch, (uint64_t)o->index);
    mr_rng_set_occurrence(&sample, o->occurrence);
    e->rng = mr_view_draws_begin(&e->plan, k, &sample);
    mr_status status =
        mr_geometry_record(&e->plan, swaps ? o->height : o->width, swaps ? o->width : o->height,
                           &e->rng, &e->geometry, &e->steps, &e->boxes, error);
    if (status != MR_OK)
        return status;
    const struct mr_box *made = &e->geometry.stages[e->geometry.n_stages - 1].window;
    mr_erase_draw(&e->plan, (uint32_t)made->width, (uint32_t)made->height, &e->rng, &e->erase);
    draw_mix(o, (uint32_t)made->width, (uint32_t)made->height, e);
    return MR_OK;
}

/* "local#3" for one of several pictures. */
static void put_name(struct mr_text_writer *w, const struct mr_view *view, uint32_t k)
{
    mr_text_writer_put(w, "%s", view->name[0] ? view->name : "image");
    if (view->is_row || view->first > 0)
        mr_text_writer_put(w, "#%u", view->first + k);
}

/* The pictures of a view, if the sample has several or they have names. */
static mr_status put_view(struct mr_text_writer *w, const mr_transform *transform, bool is_first,
                          const mr_explain_options *o, struct explanation *e, mr_error *error)
{
    bool is_json = o->form == MR_EXPLAIN_JSON;
    const struct mr_view *view = &e->plan.view;
    mr_status status = MR_OK;
    for (uint32_t k = 0; k < view->n_pictures && status == MR_OK; k++) {
        status = draw_picture(o, k, e, error);
        bool is_next = !is_first || k > 0;
        mr_text_writer_put(w, "%s%s", is_next ? (is_json ? "," : "; ") : "",
                           is_json ? "{\"view\":\"" : "");
        put_name(w, view, k);
        mr_text_writer_put(w, "%s", is_json ? "\"," : ": ");
        put_picture(w, e, transform, o);
        mr_text_writer_put(w, "%s", is_json ? "}" : "");
    }
    return status;
}

static mr_status put_views(struct mr_text_writer *w, const mr_transform *transform,
                           const mr_explain_options *o, struct explanation *e, mr_error *error)
{
    bool is_json = o->form == MR_EXPLAIN_JSON;
    mr_status status = MR_OK;
    mr_text_writer_put(w, "%s", is_json ? e ? "\"views\":[" : "\"views\":null" : "");
    for (const mr_transform *t = transform; e && t && status == MR_OK; t = t->next) {
        status = compile_plan(t, o, &e->plan, error);
        if (status == MR_OK)
            status = put_view(w, t, t == transform, o, e, error);
    }
    mr_text_writer_put(w, "%s", is_json && e ? "]" : "");
    return status;
}

static mr_status draw_one(const mr_transform *transform, const mr_explain_options *o,
                          struct explanation *e, mr_error *error)
{
    mr_status status = compile_plan(transform, o, &e->plan, error);
    return status == MR_OK ? draw_picture(o, 0, e, error) : status;
}

/* Without views and crops, e is drawn. e NULL: a hole. */
static mr_status write_line(const mr_transform *transform, const mr_explain_options *o,
                            struct explanation *e, char *text_out, size_t size, size_t *len_out,
                            mr_error *error)
{
    struct mr_text_writer w;
    mr_status status = MR_OK;
    mr_text_writer_begin(&w, text_out, size);
    put_head(&w, o);
    if (mr_transform_has_pictures(transform))
        status = put_views(&w, transform, o, e, error);
    else
        put_picture(&w, e, transform, o);
    if (status == MR_OK)
        mr_text_writer_put(&w, "%s", o->form == MR_EXPLAIN_JSON ? "}" : "");
    mr_text_writer_end(&w);
    if (status == MR_OK && len_out)
        *len_out = w.len;
    return status;
}

mr_status mr_transform_explain(const mr_transform *transform, const mr_explain_options *options,
                               char *text_out, size_t size, size_t *len_out, mr_error *error)
{
    struct explanation *e = NULL;
    mr_explain_options resolved = {0};
    if (!options)
        return mr_error_set(error, MR_ERR_INVALID, "options is NULL");
    mr_status status =
        mr_options_copy(&resolved, sizeof resolved, options, "mr_explain_options", error);
    if (status == MR_OK)
        status = mr_options_check_reserved(resolved.reserved, sizeof resolved.reserved,
                                           "mr_explain_options", error);
    if (status == MR_OK)
        status = check_options(&resolved, error);
    if (status != MR_OK)
        return status;
    if (!resolved.hole) {
        e = malloc(sizeof *e);
        if (!e)
            return mr_error_memory(error, sizeof *e);
        e->boxes = (struct mr_box_list){0};
    }
    /* nothing is written if a picture cannot be drawn */
    if (mr_transform_has_pictures(transform))
        status = write_line(transform, &resolved, e, NULL, 0, NULL, error);
    else if (e)
        status = draw_one(transform, &resolved, e, error);
    if (status == MR_OK)
        status = write_line(transform, &resolved, e, text_out, size, len_out, error);
    if (e)
        mr_box_list_fini(&e->boxes);
    free(e);
    return status;
}
