/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes how a transform runs, for people: the stages of geometry.c as passes over the pixels, and
 * the calls on the images between them. The stages come from a list in which everything that can be
 * drawn is drawn. Shares and means come from draws.
 */
#include "base/text_writer.h"
#include "transforms/geometry.h"
#include "transforms/image_params.h"
#include "transforms/image_ops/image_call.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"

#include <stdlib.h>
#include <string.h>

enum { N_DRAWS = 1000 };

/* An operation, or a structure with everything in it. */
struct item {
    uint32_t at; /* in the plan's list */
    bool is_image;
    uint32_t stage; /* the stage that it is part of, or on whose output its calls work */
    int64_t width;  /* after it */
    int64_t height;
    uint32_t n_drawn[MR_N_CALL_KINDS]; /* samples with such a call */
};

struct passes {
    const mr_transform *transform;
    struct mr_plan plan;
    struct mr_plan full; /* the plan's items, each drawn so that it needs most */
    struct mr_geometry geometry;
    uint32_t width; /* of the image */
    uint32_t height;
    struct item items[MR_PLAN_MAX_OPS];
    uint32_t n_items;
    uint32_t n_stages;
    double need; /* share of the image's pixels, 0 to 1 */
    struct {
        uint32_t n_samples; /* that have calls */
        uint32_t n_calls;
        uint32_t n_walks;
    } on_stage[MR_MAX_STAGES];
    struct mr_text_writer w;
};

/* An operation with one call in every draw. Which call does not matter to the geometry. */
static struct mr_op certain_call(void)
{
    struct mr_op op = {.kind = MR_OP_IMAGE, .args = {1.0}};
    while (op.image_op + 1 < mr_image_op_count &&
           strcmp(mr_image_ops[op.image_op].name, "invert") != 0)
        op.image_op++;
    return op;
}

static void list_items(struct passes *p)
{
    p->full = p->plan;
    for (uint32_t i = 0; i < p->plan.n_ops; i = mr_image_params_skip(p->plan.ops, i)) {
        struct item *item = &p->items[p->n_items];
        struct mr_op *op = &p->full.ops[p->n_items++];
        item->at = i;
        item->is_image = mr_image_params_is_image(&p->plan.ops[i]);
        *op = item->is_image ? certain_call() : p->plan.ops[i];
        if (op->kind == MR_OP_HFLIP || op->kind == MR_OP_VFLIP || op->kind == MR_OP_RANDOM_ZOOM_OUT)
            op->p = 1.0;
    }
}

/* The list grows by one item at a time. The last stage is where that item went. */
static mr_status place_items(struct passes *p, mr_error *error)
{
    struct mr_rng rng;
    p->n_stages = 1;
    for (uint32_t i = 0; i < p->n_items; i++) {
        struct item *item = &p->items[i];
        p->full.n_ops = i + 1;
        mr_rng_init(&rng, 0, 0, 0);
        mr_status status =
            mr_geometry_make(&p->full, p->width, p->height, &rng, &p->geometry, error);
        if (status != MR_OK)
            return status;
        const struct mr_stage *last = &p->geometry.stages[p->geometry.n_stages - 1];
        p->n_stages = p->geometry.n_stages;
        item->stage = p->n_stages - (item->is_image ? 2 : 1); /* a stage follows calls */
        item->width = last->window.width;
        item->height = last->window.height;
    }
    return MR_OK;
}

/* The first item after items[i] that is not among the calls on the same image. */
static uint32_t find_end_of_calls(const struct passes *p, uint32_t i)
{
    uint32_t stage = p->items[i].stage;
    while (i < p->n_items && p->items[i].is_image && p->items[i].stage == stage)
        i++;
    return i;
}

static void count_calls(struct passes *p, struct item *item, const struct mr_rng *rng)
{
    struct mr_image_calls *calls = &p->geometry.calls;
    bool is_seen[MR_N_CALL_KINDS] = {false};
    uint32_t before = calls->n;
    mr_image_params_node(p->plan.ops, item->at, rng, (uint32_t)item->width, (uint32_t)item->height,
                         calls);
    for (uint32_t i = before; i < calls->n; i++) {
        uint32_t kind = calls->calls[i].kind;
        item->n_drawn[kind] += !is_seen[kind];
        is_seen[kind] = true;
    }
}

static void count_sample(struct passes *p, const struct mr_rng *rng)
{
    struct mr_image_calls *calls = &p->geometry.calls;
    for (uint32_t i = 0; i < p->n_items;) {
        if (!p->items[i].is_image) {
            i++;
            continue;
        }
        uint32_t stage = p->items[i].stage, end = find_end_of_calls(p, i);
        calls->n = 0;
        while (i < end)
            count_calls(p, &p->items[i++], rng);
        p->on_stage[stage].n_samples += calls->n > 0;
        p->on_stage[stage].n_calls += calls->n;
        p->on_stage[stage].n_walks += mr_image_call_count_walks(calls->calls, calls->n);
    }
}

static mr_status draw_samples(struct passes *p, mr_error *error)
{
    double n_pixels = (double)p->width * (double)p->height, n_needed = 0.0;
    for (uint64_t i = 0; i < N_DRAWS; i++) {
        struct mr_rng rng, same;
        mr_rng_init(&rng, 0, 0, i);
        same = rng;
        mr_status status =
            mr_geometry_make(&p->plan, p->width, p->height, &rng, &p->geometry, error);
        if (status != MR_OK)
            return status;
        const struct mr_box *need = &p->geometry.stages[0].need;
        n_needed += (double)need->width * (double)need->height;
        count_sample(p, &same);
    }
    p->need = n_needed / n_pixels / N_DRAWS;
    return MR_OK;
}

static void put_row(struct passes *p, const char *name, const char *words)
{
    mr_text_writer_put(&p->w, "  %-20s  %s\n", name, words);
}

static void put_geometry(struct passes *p, const struct item *item, int64_t from_width,
                         int64_t from_height)
{
    const struct mr_op *op = &p->plan.ops[item->at];
    const char *filter = op->interpolation == MR_RANDOM_FILTER
                             ? "bilinear or bicubic"
                             : mr_transform_interpolations[op->interpolation];
    long long width = item->width, height = item->height;
    bool is_same = from_width == item->width && from_height == item->height;
    mr_text_writer_put(&p->w, "  %-20s  ", mr_transform_op_name(op));
    switch ((enum mr_op_kind)op->kind) {
    case MR_OP_RANDOM_RESIZED_CROP:
        mr_text_writer_put(&p->w, "a random box, resampled to %lldx%lld, %s\n", width, height,
                           filter);
        break;
    case MR_OP_RANDOM_RESIZE:
        mr_text_writer_put(&p->w, "resampled, the shorter side to %u to %u, %s\n", op->height,
                           op->width - 1, filter);
        break;
    case MR_OP_RESIZE_SHORT:
    case MR_OP_RESIZE:
        if (is_same)
            mr_text_writer_put(&p->w, "nothing: the image is %lldx%lld\n", width, height);
        else
            mr_text_writer_put(&p->w, "resampled to %lldx%lld, %s\n", width, height, filter);
        break;
    case MR_OP_CENTER_CROP:
        mr_text_writer_put(&p->w, "the middle, %lldx%lld\n", width, height);
        break;
    case MR_OP_PATCH_CROP:
        mr_text_writer_put(&p->w, "a random box of %lldx%lld that begins at a patch of %u\n", width,
                           height, op->patch);
        break;
    case MR_OP_FIVE_CROP:
    case MR_OP_TEN_CROP:
        mr_text_writer_put(&p->w, "a box of %lldx%lld for each picture\n", width, height);
        break;
    case MR_OP_RANDOM_CROP:
        mr_text_writer_put(&p->w, "a random box of %lldx%lld", width, height);
        if (op->padding)
            mr_text_writer_put(&p->w, ", padding %u: %s", op->padding,
                               mr_transform_padding_modes[op->padding_mode]);
        if (op->pad_if_needed)
            mr_text_writer_put(&p->w, ", a smaller image is padded");
        mr_text_writer_put(&p->w, "\n");
        break;
    case MR_OP_PAD:
        mr_text_writer_put(&p->w, "padded to %lldx%lld: %s\n", width, height,
                           mr_transform_padding_modes[op->padding_mode]);
        break;
    case MR_OP_PAD_IF_SMALLER:
        mr_text_writer_put(&p->w, "padded to at least %ux%u, at the right and at the bottom\n",
                           op->width, op->height);
        break;
    case MR_OP_RANDOM_SHORTEST_SIZE:
        mr_text_writer_put(&p->w, "resampled, the shorter side to one of %u sizes, %s\n",
                           op->n_sizes, filter);
        break;
    case MR_OP_SCALE_JITTER:
        mr_text_writer_put(&p->w, "resampled to %g to %g times what fits %ux%u, %s\n", op->scale[0],
                           op->scale[1], op->width, op->height, filter);
        break;
    case MR_OP_FIXED_SIZE_CROP:
        mr_text_writer_put(&p->w,
                           "a random box of %lldx%lld; a smaller image is padded at the right "
                           "and at the bottom\n",
                           width, height);
        break;
    case MR_OP_RANDOM_ZOOM_OUT:
        mr_text_writer_put(&p->w, "put into a canvas with %g to %g times its sides\n", op->scale[0],
                           op->scale[1]);
        break;
    case MR_OP_LETTERBOX:
        mr_text_writer_put(&p->w, "resampled to fit %lldx%lld and padded, %s\n", width, height,
                           filter);
        break;
    case MR_OP_RANDOM_IOU_CROP:
        mr_text_writer_put(&p->w, "a random box of the image that has boxes of the sample\n");
        break;
    case MR_OP_SANITIZE:
        mr_text_writer_put(&p->w, "removes boxes of the sample; the pixels stay\n");
        break;
    case MR_OP_MASK:
        mr_text_writer_put(&p->w,
                           "the first further member is a mask of %s, moved like the image\n",
                           mr_dtype_name((mr_dtype)op->mask_dtype));
        break;
    case MR_OP_HFLIP:
        mr_text_writer_put(&p->w, "columns in reverse order, in the same pass\n");
        break;
    case MR_OP_VFLIP: mr_text_writer_put(&p->w, "rows in reverse order, in the same pass\n"); break;
    default: mr_text_writer_put(&p->w, "in the same pass\n"); break;
    }
}

static const char *describe_cost(const struct mr_image_call_ops *ops)
{
    if (ops->mixes)
        return "sums in floats";
    if (ops->make)
        return "into a second image";
    if (ops->change)
        return "in place";
    return ops->looks ? "table, made from the image's pixels" : "table";
}

/* Write one line for each kind of call. Returns how many of them are tables. */
static uint32_t put_calls(struct passes *p, const struct item *item)
{
    const char *name = mr_transform_op_name(&p->plan.ops[item->at]);
    uint32_t n_tables = 0;
    bool is_first = true;
    for (uint32_t kind = 0; kind < MR_N_CALL_KINDS; kind++) {
        const struct mr_image_call_ops *ops = &mr_image_call_ops[kind];
        if (item->n_drawn[kind] == 0)
            continue;
        mr_text_writer_put(&p->w, "  %-20s  %-18s %5.1f %%  %s\n", is_first ? name : "", ops->name,
                           100.0 * item->n_drawn[kind] / N_DRAWS, describe_cost(ops));
        is_first = false;
        n_tables += ops->table != NULL;
    }
    if (is_first)
        put_row(p, name, "nothing was drawn");
    return n_tables;
}

/* Write the calls on one image, from items[i] on. Returns the item after them. */
static uint32_t put_image(struct passes *p, uint32_t i)
{
    uint32_t stage = p->items[i].stage, end = find_end_of_calls(p, i), n_tables = 0;
    double n = p->on_stage[stage].n_samples ? p->on_stage[stage].n_samples : 1.0;
    mr_text_writer_put(
        &p->w,
        "calls on it: %.1f %% of the samples have some, on average %.1f in %.1f walks over it\n",
        100.0 * p->on_stage[stage].n_samples / N_DRAWS, p->on_stage[stage].n_calls / n,
        p->on_stage[stage].n_walks / n);
    for (; i < end; i++)
        n_tables += put_calls(p, &p->items[i]);
    if (n_tables > 1)
        put_row(p, "", "consecutive tables are folded into one");
    return end;
}

static const struct mr_op *find_normalize(const mr_transform *transform)
{
    uint32_t n = transform->n_ops;
    n -= (uint32_t)mr_transform_mixes(transform) + (uint32_t)mr_transform_erases(transform);
    const struct mr_op *last = n > 0 ? &transform->ops[n - 1] : NULL;
    return last && last->kind == MR_OP_NORMALIZE ? last : NULL;
}

static void put_store(struct passes *p)
{
    const struct mr_op *normalize = find_normalize(p->transform);
    if (p->plan.dtype == MR_U8)
        put_row(p, "store",
                normalize ? "bytes as they are; u8 is not normalized" : "bytes as they are");
    else if (!normalize)
        put_row(p, "store", "x / 255");
    else
        put_row(p, "normalize",
                p->plan.exact ? "two divisions for each value" : "one fma for each value");
    if (p->plan.erase.kind == MR_OP_RANDOM_ERASING)
        put_row(p, "erase", "boxes of the finished floats are overwritten");
    if (p->plan.mix.kind != 0 && mr_mix_draw_rule(p->plan.mix.kind) == MR_MIX_BYTES)
        put_row(p, "mix", "the bytes, before this, with those of the batch's row n - 1 - i");
    else if (p->plan.mix.kind != 0)
        put_row(p, "mix", "the finished floats with those of the batch's row i - 1");
}

/* Write the items of a stage, from items[i] on. Returns the item after them. */
static uint32_t put_stage(struct passes *p, uint32_t stage, uint32_t i)
{
    bool is_last = stage + 1 == p->n_stages;
    uint32_t end = i;
    while (end < p->n_items && !p->items[end].is_image && p->items[end].stage == stage)
        end++;
    long long width = end ? p->items[end - 1].width : p->width,
              height = end ? p->items[end - 1].height : p->height;
    mr_text_writer_put(&p->w, "\npass %u: %s -> ", stage + 1, stage ? "that image" : "file");
    if (is_last)
        mr_text_writer_put(&p->w, "tensor, row by row\n");
    else
        mr_text_writer_put(&p->w, "image of %lldx%lld in memory\n", width, height);
    if (stage == 0 && p->plan.use_exif)
        put_row(p, "exif",
                "the whole image is made and turned before, if its orientation is not 1");
    for (; i < end; i++)
        put_geometry(p, &p->items[i], i ? p->items[i - 1].width : p->width,
                     i ? p->items[i - 1].height : p->height);
    if (is_last)
        put_store(p);
    return i < p->n_items && p->items[i].is_image ? put_image(p, i) : i;
}

static void put_passes(struct passes *p)
{
    const struct mr_plan *plan = &p->plan;
    const struct mr_view *view = &plan->view;
    if (view->name[0])
        mr_text_writer_put(&p->w, "%sview: %s\n", p->w.len ? "\n" : "", view->name);
    if (view->is_row)
        mr_text_writer_put(&p->w, "pictures: %u, each\n", view->n_pictures);
    mr_text_writer_put(&p->w, "sample: %s %s", mr_dtype_name(plan->dtype),
                       plan->layout == MR_NCHW ? "nchw" : "nhwc");
    if (plan->keeps_size)
        mr_text_writer_put(&p->w, " of a drawn size: with the option ragged or pad_batch\n");
    else
        mr_text_writer_put(&p->w, " %lldx%lldx%lld, %llu bytes\n", (long long)plan->out_shape[0],
                           (long long)plan->out_shape[1], (long long)plan->out_shape[2],
                           (unsigned long long)plan->out_bytes);
    mr_text_writer_put(&p->w,
                       "needed: %.1f %% of the pixels of an image of %ux%u, mean of %d draws\n",
                       100.0 * p->need, p->width, p->height, (int)N_DRAWS);
    uint32_t i = 0;
    for (uint32_t stage = 0; stage < p->n_stages; stage++)
        i = put_stage(p, stage, i);
}

/* A size that is drawn stays open, if images may have sizes of their own. */
static mr_status fix_size(struct passes *p, mr_error *error)
{
    int64_t width = 1, height;
    mr_status status =
        p->plan.out_known ? MR_OK
                          : mr_geometry_size(&p->plan, p->width, p->height, &width, &height, error);
    if (status == MR_OK && width == 0 && mr_plan_compile_keep_size(&p->plan, 0, 0, error) == MR_OK)
        return MR_OK;
    return status < 0 ? status : mr_plan_compile_fix_size(&p->plan, p->width, p->height, error);
}

static mr_status find_passes(struct passes *p, mr_dtype dtype, mr_layout layout, mr_error *error)
{
    const struct mr_sample_kind files = {.encoded = 1, .picture = 1};
    mr_status status = mr_plan_compile(p->transform, &files, dtype, layout, &p->plan, error);
    if (status == MR_OK)
        status = fix_size(p, error);
    if (status != MR_OK)
        return status;
    list_items(p);
    status = place_items(p, error);
    return status == MR_OK ? draw_samples(p, error) : status;
}

mr_status mr_transform_passes(const mr_transform *transform, uint32_t width, uint32_t height,
                              mr_dtype dtype, mr_layout layout, char *text_out, size_t size,
                              size_t *len_out, mr_error *error)
{
    if (!transform)
        return mr_error_set(error, MR_ERR_INVALID, "transform is NULL");
    if (width < 1 || width > 65535 || height < 1 || height > 65535)
        return mr_error_set(error, MR_ERR_INVALID, "size %ux%u is not from 1x1 to 65535x65535",
                            width, height);
    struct mr_text_writer w;
    struct passes *p = malloc(sizeof *p);
    if (!p)
        return mr_error_memory(error, sizeof *p);
    mr_status status = MR_OK;
    mr_text_writer_begin(&w, text_out, size);
    for (; transform && status == MR_OK; transform = transform->next) {
        memset(p, 0, sizeof *p);
        p->transform = transform;
        p->width = width;
        p->height = height;
        p->w = w;
        status = find_passes(p, dtype, layout, error);
        if (status == MR_OK)
            put_passes(p);
        w = p->w;
    }
    mr_text_writer_end(&w);
    if (status == MR_OK && len_out)
        *len_out = w.len;
    free(p);
    return status;
}
