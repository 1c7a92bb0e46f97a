/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits one transform between workers and device. Pixels are u8 up to the last step, so the device
 * can do that step. It uses the plan's numbers, on a GPU and on `host:N`.
 */
#include "loader/plan_split.h"

#include <string.h>

#include "dataset/dataset.h"
#include "loader/image_size.h"
#include "transforms/codec_limits.h"
#include "transforms/geometry.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/plan_compile.h"
#include "transforms/transform.h"

/*
 * Image operations change images of a stage's size in memory. Check that size against max_pixels.
 */
static mr_status check_images(const struct mr_plan *plan, const mr_loader_options *o,
                              mr_error *error)
{
    const struct mr_codec_limits limits =
        mr_codec_limits_resolve(&(struct mr_codec_limits){.max_pixels = o->max_pixels});
    uint64_t most = mr_geometry_most_pixels(plan);
    if (most <= limits.max_pixels)
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID,
                        "image operations would change images of %llu pixels; max_pixels is %llu",
                        (unsigned long long)most, (unsigned long long)limits.max_pixels);
}

/* Do the samples have the members that the transform moves? */
static mr_status check_members(const struct mr_plan *plan, mr_error *error)
{
    const struct mr_sample_kind *kind = &plan->kind;
    const uint32_t mask = kind->boxes == 1; /* the member that is the mask, of bytes */
    const struct mr_extra *extra = &kind->extra[mask];
    if (plan->draws_for_boxes && kind->boxes == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "random_iou_crop cannot be applied: the samples have no boxes; name "
                            "the member that has them with boxes=");
    if (!plan->mask.is_used || (kind->encoded && kind->n_extra > mask && extra->max_bytes > 0 &&
                                (extra->dtype == MR_DTYPE_DEFAULT || extra->dtype == MR_U8)))
        return MR_OK;
    return mr_error_set(error, MR_ERR_INVALID, "mask cannot be applied: %s",
                        kind->annotations == MR_ANNOTATIONS_COCO
                            ? "masks of coco are not offered yet"
                        : kind->annotations == MR_ANNOTATIONS_VOC
                            ? "masks of voc come with task=segmentation"
                            : "the samples have no further member that is an image; name one with "
                              "extra= or keep=");
}

static mr_status compile_view(mr_dataset *dataset, const mr_transform *transform,
                              const mr_loader_options *o, mr_layout layout,
                              struct mr_plan *plan_out, mr_error *error)
{
    mr_status status =
        mr_plan_compile(transform, mr_dataset_kind(dataset), o->dtype, layout, plan_out, error);
    if (status == MR_OK)
        status = check_images(plan_out, o, error);
    if (status == MR_OK)
        status = check_members(plan_out, error);
    if (status == MR_OK && (o->ragged || o->pad_batch != 0))
        status = mr_plan_compile_keep_size(plan_out, o->max_row_bytes, o->pad_batch, error);
    else if (status == MR_OK && !plan_out->out_known)
        status = mr_image_size_fix(dataset, plan_out, o, error);
    return status;
}

/* An error names the view. */
static mr_status compile_plan(mr_dataset *dataset, const mr_transform *transform,
                              const mr_loader_options *o, mr_layout layout,
                              struct mr_plan *plan_out, mr_error *error)
{
    mr_error words;
    mr_status status = compile_view(dataset, transform, o, layout, plan_out, &words);
    if (status == MR_OK)
        return MR_OK;
    if (!transform || !transform->view[0])
        mr_error_copy(error, &words);
    else
        mr_error_set(error, status, "view '%s': %s", transform->view, words.text);
    return status;
}

/* Views share the upright image, and labels that are mixed once. */
static mr_status check_views(const struct mr_plan *first, const struct mr_plan *mixed,
                             const struct mr_plan *view, mr_error *error)
{
    if (view->use_exif != first->use_exif)
        return mr_error_set(error, MR_ERR_INVALID,
                            "exif is in view '%s' and not in view '%s'; all or none have it",
                            first->use_exif ? first->view.name : view->view.name,
                            first->use_exif ? view->view.name : first->view.name);
    if (mixed && view->mix.kind && memcmp(&view->mix, &mixed->mix, sizeof view->mix) != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s of view '%s' differs from %s of view '%s'; views that are mixed "
                            "share one operation",
                            mr_transform_op_name(&view->mix), view->view.name,
                            mr_transform_op_name(&mixed->mix), mixed->view.name);
    return MR_OK;
}

/*
 * The draws of how many pictures views can be inside: crops have one picture's, and a view of a
 * single picture may be any of several.
 */
static uint32_t count_insides(const mr_transform *transform, const struct mr_view *view)
{
    return view->n_crops ? 1 : transform->picture ? MR_MAX_PICTURES : view->n_pictures;
}

/* A view that is inside another one begins with the operations of that one, if that is here. */
static mr_status check_inside(const mr_transform *transform, const struct mr_plan *plan,
                              const mr_transform *other, const struct mr_plan *of, mr_error *error)
{
    const struct mr_view *view = &plan->view;
    uint32_t n_ops = view->n_shared + view->n_inside, n = count_insides(other, &of->view);
    if (view->n_inside == 0 || of->view.name_hash != view->inside_hash)
        return MR_OK;
    if (of->view.n_shared != view->n_shared || of->n_ops < n_ops ||
        memcmp(of->ops, plan->ops, n_ops * sizeof *plan->ops) != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "view '%s' is inside '%s', but does not begin with its operations",
                            view->name, transform->inside);
    if (view->inside_picture >= n)
        return mr_error_set(error, MR_ERR_INVALID,
                            "view '%s' is inside picture #%u of '%s': pictures are 0 to %u",
                            view->name, view->inside_picture, transform->inside, n - 1);
    return MR_OK;
}

static mr_status check_insides(const mr_transform *transform, const struct mr_plan *plans,
                               mr_error *error)
{
    uint32_t n = mr_transform_n_views(transform);
    const mr_transform *first = transform, *other = first;
    mr_status status = MR_OK;
    for (uint32_t i = 0; i < n; i++, transform = transform->next, other = first)
        for (uint32_t k = 0; k < n && status == MR_OK; k++, other = other->next)
            status = check_inside(transform, &plans[i], other, &plans[k], error);
    return status;
}

/* *mixed_out: the first plan that mixes; NULL if there is none. */
static mr_status compile_views(mr_dataset *dataset, const mr_transform *transform,
                               const mr_loader_options *o, mr_layout layout,
                               struct mr_plan *plans_out, const struct mr_plan **mixed_out,
                               mr_error *error)
{
    struct mr_plan *plan = plans_out;
    mr_status status = MR_OK;
    *mixed_out = NULL;
    do {
        status = compile_plan(dataset, transform, o, layout, plan, error);
        if (status == MR_OK)
            status = check_views(plans_out, *mixed_out, plan, error);
        if (status == MR_OK && !*mixed_out && plan->mix.kind)
            *mixed_out = plan;
        plans_out->takes_mask |= plan->mask.is_used;
        plan++;
    } while (status == MR_OK && transform && (transform = transform->next));
    return status;
}

/* Does the device do the last step for these samples? Not if samples have several pictures. */
static bool is_finished_on_device(const struct mr_host *host, const struct mr_sample_kind *kind,
                                  bool mixes, bool has_pictures)
{
    const mr_loader_options *o = &host->options;
    bool changes = o->dtype == MR_F32 || o->dtype == MR_F16 || o->dtype == MR_BF16 ||
                   o->pad_channels != 0 || mixes;
    bool is_one_size = !o->ragged && o->pad_batch == 0; /* as the device finishes rows */
    return !host->placement.lends_slots && kind->picture && !o->finish_on_host && changes &&
           is_one_size && !has_pictures;
}

static void store_form(struct mr_host *host, const struct mr_plan *plan)
{
    host->image.dtype = plan->dtype;
    host->image.ndim = plan->out_ndim + plan->view.is_row;
    host->image.n_channels = plan->kind.picture ? plan->channels : 0;
    memcpy(host->image.shape, plan->out_shape, sizeof host->image.shape);
    if (!plan->view.is_row)
        return;
    memcpy(host->image.shape + 1, plan->out_shape, 3 * sizeof *host->image.shape);
    host->image.shape[0] = plan->view.n_pictures;
}

/* Move everything after interleaved u8 pixels from the plan to the device. */
static void cut_plan(struct mr_host *host, struct mr_plan *plan)
{
    struct mr_finish *f = &host->finish;
    *f = (struct mr_finish){.needed = 1,
                            .height = plan->out_height,
                            .width = plan->out_width,
                            .channels = plan->channels,
                            .out_channels = plan->channels,
                            .layout = host->options.layout,
                            .dtype = plan->dtype,
                            .exact = plan->exact,
                            .erases = plan->erase.kind == MR_OP_RANDOM_ERASING,
                            .mixes = plan->mix.kind != 0};
    if (host->options.pad_channels > f->out_channels)
        f->out_channels = host->options.pad_channels;
    for (uint32_t c = 0; c < plan->channels && c < MR_FINISH_CHANNELS; c++) {
        f->scale[c] = plan->scale[c];
        f->bias[c] = plan->bias[c];
        memcpy(f->table[c], plan->table[c], sizeof f->table[c]);
    }
    plan->out_bytes /= mr_dtype_size(plan->dtype);
    plan->dtype = MR_U8;
}

/* The shape of the lent array: with the final layout and the padded channels. */
static void shape_image(struct mr_host *host)
{
    const struct mr_finish *f = &host->finish;
    bool planes = f->layout == MR_NCHW;
    host->image.dtype = (mr_dtype)f->dtype;
    host->image.ndim = 3;
    host->image.n_channels = f->out_channels;
    host->image.shape[planes ? 0 : 2] = f->out_channels;
    host->image.shape[planes ? 1 : 0] = f->height;
    host->image.shape[planes ? 2 : 1] = f->width;
}

static mr_status check_ragged(const mr_loader_options *o, mr_error *error)
{
    if (o->ragged && o->max_row_bytes == 0)
        return mr_error_set(error, MR_ERR_INVALID, "ragged needs max_row_bytes");
    if (!o->ragged && o->max_row_bytes > 0)
        return mr_error_set(error, MR_ERR_INVALID, "max_row_bytes %llu needs ragged",
                            (unsigned long long)o->max_row_bytes);
    if (o->ragged && o->pad_batch != 0)
        return mr_error_set(error, MR_ERR_INVALID, "ragged and pad_batch exclude each other");
    if ((o->ragged || o->pad_batch != 0) && o->pad_channels > 0)
        return mr_error_set(error, MR_ERR_INVALID, "pad_channels %u excludes %s", o->pad_channels,
                            o->ragged ? "ragged" : "pad_batch");
    return MR_OK;
}

static mr_status refuse_padding(const struct mr_host *host, bool picture, bool has_pictures,
                                mr_error *error)
{
    if (host->options.pad_channels == 0 ||
        (picture && !host->placement.lends_slots && !has_pictures))
        return MR_OK;
    if (has_pictures)
        return mr_error_set(error, MR_ERR_INVALID,
                            "pad_channels %u: views and crops are not padded",
                            host->options.pad_channels);
    if (!picture)
        return mr_error_set(error, MR_ERR_INVALID, "pad_channels %u: these samples are no pictures",
                            host->options.pad_channels);
    return mr_error_set(error, MR_ERR_INVALID,
                        "pad_channels %u needs a device with its own buffers, not host",
                        host->options.pad_channels);
}

static mr_status check_mixing(const struct mr_host *host, mr_dataset *dataset,
                              const struct mr_plan *plan, mr_error *error)
{
    const mr_loader_options *o = &host->options;
    const struct mr_sample_kind *kind = &plan->kind;
    const char *name = mr_transform_op_name(&plan->mix);
    if (kind->label_ndim != 0 || kind->label_dtype != MR_I64)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s cannot be applied: labels are not one i64 number each", name);
    if (!host->placement.lends_slots && host->placement.n_parts > 1)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s cannot be applied: batches are split over %u devices, and a row's "
                            "partner may be on another one",
                            name, host->placement.n_parts);
    if (mr_mix_draw_rule(plan->mix.kind) == MR_MIX_BYTES && o->batch_size % 2 != 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s needs an even batch_size, not %u", name,
                            o->batch_size);
    if (o->soft_labels != 0 && mr_dataset_n_classes(dataset) > o->soft_labels)
        return mr_error_set(error, MR_ERR_INVALID, "soft_labels %u: the dataset has %u classes",
                            o->soft_labels, mr_dataset_n_classes(dataset));
    return MR_OK;
}

/* Workers make u8 pixels. They are mixed once the partner's pixels exist. */
static void cut_mixing(struct mr_plan *plan)
{
    const int64_t pixels[3] = {plan->out_height, plan->out_width, plan->channels};
    plan->out_bytes /= mr_dtype_size(plan->dtype);
    plan->dtype = MR_U8;
    plan->layout = MR_NHWC;
    plan->copy = 0;
    plan->mix.kind = 0; /* the boxes of erasing are drawn with the pixels */
    memcpy(plan->out_shape, pixels, sizeof pixels);
}

mr_status mr_plan_split_compile(struct mr_host *host, mr_dataset *dataset,
                                const mr_transform *transform, struct mr_plan *plans_out,
                                struct mr_plan *mixed_out, mr_error *error)
{
    const mr_loader_options *o = &host->options;
    const struct mr_sample_kind *kind = mr_dataset_kind(dataset);
    bool has_pictures = mr_transform_has_pictures(transform);
    mr_status status = check_ragged(o, error);
    if (status == MR_OK)
        status = refuse_padding(host, kind->picture, has_pictures, error);
    if (status != MR_OK)
        return status;
    const struct mr_plan *mixed;
    bool on_device = is_finished_on_device(host, kind, mr_transform_mixes(transform), has_pictures);
    status = compile_views(dataset, transform, o, on_device ? MR_NHWC : o->layout, plans_out,
                           &mixed, error);
    if (status == MR_OK && has_pictures)
        status = check_insides(transform, plans_out, error);
    if (status == MR_OK && !mixed && o->soft_labels != 0)
        status = mr_error_set(error, MR_ERR_INVALID, "soft_labels %u: the transform does not mix",
                              o->soft_labels);
    if (status == MR_OK && mixed)
        status = check_mixing(host, dataset, mixed, error);
    if (status != MR_OK)
        return status;
    store_form(host, plans_out);
    if (on_device) {
        cut_plan(host, plans_out);
        shape_image(host);
    }
    for (uint32_t i = 0; i < mr_transform_n_views(transform); i++) {
        mixed_out[i] = plans_out[i];
        if (mixed_out[i].mix.kind)
            cut_mixing(&plans_out[i]);
    }
    return MR_OK;
}
