/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compiles a transform into a plan, and checks it against the samples, the dtype and the layout. An
 * implied normalize is dropped for u8; an explicit one with u8 is an error.
 *
 * Every operation treats all channels alike. So wherever the list has rgb, one channel becomes
 * three equal ones only at the end (tensor_write.c), and the pixels are the same.
 */
#include "transforms/plan_compile.h"

#include "base/checked.h"
#include "base/xxh3.h"
#include "transforms/geometry.h"
#include "transforms/image_params.h"
#include "transforms/mixing/mix_draw.h"
#include "transforms/tensor_write.h"
#include "transforms/transform.h"

#include <string.h>

static const uint64_t MAX_ROW_BYTES = UINT64_C(1) << 31; /* of a picture that keeps its size */

static bool is_image_float(mr_dtype dtype)
{
    return dtype == MR_F32 || dtype == MR_F16 || dtype == MR_BF16;
}

/* The pictures of the view. Those of crops have no other number than the crops'. */
static mr_status compile_view(const mr_transform *transform, struct mr_plan *plan, mr_error *error)
{
    struct mr_view *view = &plan->view;
    const char *crops = NULL;
    view->n_pictures = 1;
    for (uint32_t i = 0; transform && i < transform->n_ops; i++) {
        const struct mr_op *op = &transform->ops[i];
        if (op->kind == MR_OP_FIVE_CROP || op->kind == MR_OP_TEN_CROP) {
            view->n_crops = op->kind == MR_OP_FIVE_CROP ? 5 : 10;
            crops = mr_transform_op_name(op);
        }
    }
    if (!mr_transform_has_pictures(transform))
        return MR_OK;
    memcpy(view->name, transform->view, sizeof view->name);
    view->name_hash = view->name[0] ? mr_xxh3(view->name, strlen(view->name)) : 0;
    view->first = transform->picture ? transform->picture - 1 : 0;
    view->n_shared = transform->n_shared;
    view->n_inside = transform->n_inside;
    view->inside_hash = view->n_inside ? mr_xxh3(transform->inside, strlen(transform->inside)) : 0;
    view->inside_picture = transform->inside_picture ? transform->inside_picture - 1 : 0;
    view->is_row = transform->n_pictures > 0 || (crops && !transform->picture);
    if (view->is_row)
        view->n_pictures = crops ? view->n_crops : transform->n_pictures;
    if (crops && transform->n_pictures > 0)
        return mr_error_set(error, MR_ERR_INVALID, "the count %u: %s has its own",
                            transform->n_pictures, crops);
    if (crops && view->first >= view->n_crops)
        return mr_error_set(error, MR_ERR_INVALID, "picture #%u: those of %s are 0 to %u",
                            view->first, crops, view->n_crops - 1);
    if (!plan->kind.picture && !plan->kind.encoded)
        return mr_error_set(error, MR_ERR_INVALID,
                            "views cannot be made: the samples are not pictures");
    return MR_OK;
}

/* Rows of token ids are i32 or i64, and so are their labels. */
static mr_status compile_tokens(mr_dtype dtype, struct mr_plan *plan, mr_error *error)
{
    struct mr_sample_kind *kind = &plan->kind;
    plan->dtype = dtype == MR_DTYPE_DEFAULT ? MR_I64 : dtype;
    if (plan->dtype != MR_I32 && plan->dtype != MR_I64)
        return mr_error_set(error, MR_ERR_INVALID, "dtype %s: tokens are i32 or i64",
                            mr_dtype_name(dtype));
    plan->out_shape[0] = kind->tokens;
    plan->out_bytes = (uint64_t)plan->out_shape[0] * mr_dtype_size(plan->dtype);
    kind->label_dtype = plan->dtype;
    kind->label_ndim = 1;
    kind->label_shape[0] = plan->out_shape[0];
    kind->label_bytes = plan->out_bytes;
    return MR_OK;
}

/* Raw samples that are not pictures are copied unchanged, or refused. */
static mr_status compile_data(const mr_transform *transform, mr_dtype dtype, struct mr_plan *plan,
                              mr_error *error)
{
    const struct mr_sample_kind *kind = &plan->kind;
    for (uint32_t i = 0; transform && i < transform->n_ops; i++) {
        if (!transform->ops[i].implied)
            return mr_error_set(error, MR_ERR_INVALID,
                                "%s cannot be applied: the samples are not pictures",
                                mr_transform_op_name(&transform->ops[i]));
    }
    if (!kind->tokens && dtype != MR_DTYPE_DEFAULT && dtype != kind->dtype)
        return mr_error_set(error, MR_ERR_INVALID, "dtype %s cannot be made of records of %s",
                            mr_dtype_name(dtype), mr_dtype_name(kind->dtype));
    if (kind->ndim > MR_MAX_NDIM - 1)
        return mr_error_set(error, MR_ERR_INVALID, "samples have %u dimensions; %d is the limit",
                            kind->ndim, MR_MAX_NDIM - 1);
    plan->copy = 1;
    plan->dtype = kind->dtype;
    plan->out_known = 1;
    plan->out_ndim = kind->ndim;
    memcpy(plan->out_shape, kind->shape, sizeof plan->out_shape);
    plan->out_bytes = kind->data_bytes;
    return kind->tokens ? compile_tokens(dtype, plan, error) : MR_OK;
}

static mr_status set_size(struct mr_plan *plan, int64_t width, int64_t height, mr_error *error)
{
    uint64_t len = mr_dtype_size(plan->dtype);
    if (width > MR_MAX_RESIZED || height > MR_MAX_RESIZED ||
        !mr_checked_mul_u64(len, (uint64_t)width, &len) ||
        !mr_checked_mul_u64(len, (uint64_t)height, &len) ||
        !mr_checked_mul_u64(len, plan->channels, &len) || len > INT64_MAX)
        return mr_error_set(error, MR_ERR_INVALID, "an output of %lldx%lld pixels is too large",
                            (long long)width, (long long)height);
    plan->out_known = 1;
    plan->out_width = (uint32_t)width;
    plan->out_height = (uint32_t)height;
    plan->out_bytes = len;
    const int64_t planes[3] = {plan->channels, height, width};
    const int64_t pixels[3] = {height, width, plan->channels};
    memcpy(plan->out_shape, plan->layout == MR_NCHW ? planes : pixels, sizeof planes);
    return MR_OK;
}

static mr_status compile_normalize(const struct mr_op *op, struct mr_plan *plan, mr_error *error)
{
    if (plan->dtype == MR_U8) {
        if (op && !op->implied)
            return mr_error_set(error, MR_ERR_INVALID,
                                "normalize cannot be applied: dtype is u8, not a float");
        return MR_OK;
    }
    if (op && op->n_channels == 3 && plan->channels == 1)
        return mr_error_set(error, MR_ERR_INVALID,
                            "normalize cannot be applied: it has 3 channels, the pictures have 1");
    mr_tensor_write_tables(plan, op ? op->mean : NULL, op ? op->std : NULL, op ? op->n_channels : 0,
                           op ? op->exact : MR_EXACT_NONE);
    return MR_OK;
}

static mr_status check_raw_picture(struct mr_plan *plan, mr_error *error)
{
    const struct mr_sample_kind *kind = &plan->kind;
    bool planes = kind->layout == MR_NCHW;
    int64_t channels = kind->shape[planes ? 0 : 2];
    int64_t height = kind->shape[planes ? 1 : 0];
    int64_t width = kind->shape[planes ? 2 : 1];
    if (kind->dtype != MR_U8 || kind->ndim != 3 || (channels != 1 && channels != 3))
        return mr_error_set(error, MR_ERR_INVALID,
                            "raw pictures must be u8 with 3 dimensions and 1 or 3 channels");
    if (width < 1 || width > MR_MAX_RESIZED || height < 1 || height > MR_MAX_RESIZED ||
        kind->data_bytes / (uint64_t)channels != (uint64_t)width * (uint64_t)height ||
        kind->data_bytes % (uint64_t)channels)
        return mr_error_set(
            error, MR_ERR_INVALID, "raw pictures of %lldx%lld pixels cannot have %llu bytes",
            (long long)width, (long long)height, (unsigned long long)kind->data_bytes);
    plan->channels = plan->work_channels = plan->source_channels = (uint32_t)channels;
    return MR_OK;
}

/* A size that is wrong for every image is an error of the transform, not of the image. */
static mr_status compile_size(struct mr_plan *plan, mr_error *error)
{
    uint32_t source_width = 0, source_height = 0;
    if (!plan->kind.encoded) {
        bool planes = plan->kind.layout == MR_NCHW;
        source_width = (uint32_t)plan->kind.shape[planes ? 2 : 1];
        source_height = (uint32_t)plan->kind.shape[planes ? 1 : 0];
    }
    int64_t width, height;
    mr_error words;
    mr_status status = mr_geometry_size(plan, source_width, source_height, &width, &height, &words);
    if (status == MR_ERR_DAMAGED)
        return mr_error_set(error, MR_ERR_INVALID, "%s", words.text);
    if (status != MR_OK || width == 0)
        return status;
    return set_size(plan, width, height, error);
}

/* Only grayscale outside a structure changes the number of channels; inside, it keeps it. */
static bool is_grayscale(const struct mr_op *op)
{
    return op->kind == MR_OP_IMAGE && mr_image_ops[op->image_op].sets_channels;
}

/* A sample's list has room for every call that could be drawn. */
static mr_status check_calls(const struct mr_plan *plan, mr_error *error)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_ops; i++)
        n += plan->ops[i].kind == MR_OP_IMAGE
                 ? mr_image_op_max_calls(plan->ops[i].image_op, plan->ops[i].args)
                 : 0;
    if (n > MR_IMAGE_MAX_CALLS)
        return mr_error_set(error, MR_ERR_INVALID,
                            "the image operations may make %u calls; the limit is %d", n,
                            MR_IMAGE_MAX_CALLS);
    return MR_OK;
}

static mr_status refuse_color(const struct mr_plan *plan, const char *op_name, const char *name,
                              mr_error *error)
{
    return mr_error_set(error, MR_ERR_INVALID,
                        "%s cannot be applied: %s has 3 channels, the pictures have 1 %s", op_name,
                        name, plan->channels == 3 ? "before the tensor" : "there");
}

/* A color of three values needs pictures with three channels at that point of the list. */
static mr_status check_colors(const struct mr_plan *plan, const struct mr_op *op, mr_error *error)
{
    const struct mr_image_op *image_op = &mr_image_ops[op->image_op];
    const double *args = op->args;
    if (plan->work_channels == 3)
        return MR_OK;
    if (op->fill[0] != op->fill[1] || op->fill[1] != op->fill[2])
        return refuse_color(plan, mr_transform_op_name(op), "fill", error);
    if (op->kind != MR_OP_IMAGE)
        return MR_OK;
    for (uint32_t i = 0; i < MR_IMAGE_OP_MAX_PARAMS && image_op->params[i].name; i++) {
        bool is_color = image_op->params[i].kind == MR_PARAM_COLOR;
        if (is_color && (args[0] != args[1] || args[1] != args[2]))
            return refuse_color(plan, image_op->name, image_op->params[i].name, error);
        args += mr_image_op_width(&image_op->params[i]);
    }
    return MR_OK;
}

/* random_erasing works on floats: in u8, 0 would be black, not the mean. */
static mr_status check_erasing(const struct mr_plan *plan, mr_error *error)
{
    if (plan->erase.kind != MR_OP_RANDOM_ERASING)
        return MR_OK;
    if (plan->dtype == MR_U8)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "random_erasing cannot be applied: dtype is u8, and it erases normalized floats");
    if (plan->erase.n_channels == 3 && plan->channels == 1)
        return mr_error_set(
            error, MR_ERR_INVALID,
            "random_erasing cannot be applied: value has 3 channels, the pictures have 1");
    return MR_OK;
}

/* timm_mixup mixes bytes; torchvision's operations mix the floats that the model gets. */
static mr_status check_mixing(const struct mr_plan *plan, mr_error *error)
{
    if (plan->mix.kind == 0 || plan->dtype != MR_U8 ||
        mr_mix_draw_rule(plan->mix.kind) == MR_MIX_BYTES)
        return MR_OK;
    return mr_error_set(
        error, MR_ERR_INVALID,
        "%s cannot be applied: dtype is u8, and it mixes floats (timm_mixup mixes u8)",
        mr_transform_op_name(&plan->mix));
}

/* A mixture of several images moves pixels to several places. */
static bool mixes_images(const struct mr_op *op)
{
    return op->kind == MR_OP_IMAGE && strncmp(mr_image_ops[op->image_op].name, "augmix", 6) == 0;
}

/* torchvision has no function for boxes that does what timm's calls of Pillow do. */
static bool bends_boxes(const struct mr_op *op)
{
    return mixes_images(op) ||
           (op->kind == MR_OP_IMAGE && strcmp(mr_image_ops[op->image_op].name, "timm") == 0);
}

/* What cannot move the annotations of a picture. what: "masks" or "boxes". */
static mr_status check_annotated(const struct mr_plan *plan, const char *what,
                                 bool (*is_refused)(const struct mr_op *op), mr_error *error)
{
    if (plan->use_exif || plan->mix.kind != 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s is not applied to %s",
                            plan->use_exif ? "exif" : mr_transform_op_name(&plan->mix), what);
    for (uint32_t i = 0; i < plan->n_ops; i++)
        if (is_refused(&plan->ops[i]))
            return mr_error_set(error, MR_ERR_INVALID, "%s is not applied to %s",
                                mr_transform_op_name(&plan->ops[i]), what);
    return MR_OK;
}

/* torchvision moves boxes with a border of one color only. */
static mr_status compile_boxes(struct mr_plan *plan, mr_error *error)
{
    for (uint32_t i = 0; i < plan->n_ops; i++) {
        const struct mr_op *op = &plan->ops[i];
        plan->draws_for_boxes |= op->kind == MR_OP_RANDOM_IOU_CROP;
        bool pads = op->kind == MR_OP_RANDOM_CROP || op->kind == MR_OP_PAD;
        if (plan->kind.boxes && pads && op->padding_mode != MR_PADDING_CONSTANT)
            return mr_error_set(
                error, MR_ERR_INVALID, "%s is not applied to boxes with padding_mode=%s",
                mr_transform_op_name(op), mr_transform_padding_modes[op->padding_mode]);
    }
    return plan->kind.boxes ? check_annotated(plan, "boxes", bends_boxes, error) : MR_OK;
}

static mr_status compile_mask(const struct mr_op *op, struct mr_plan *plan, mr_error *error)
{
    if (!op)
        return MR_OK;
    mr_status status = check_annotated(plan, "masks", mixes_images, error);
    if (status != MR_OK)
        return status;
    plan->takes_mask = 1;
    plan->mask = (struct mr_mask_rule){
        .is_used = 1, .dtype = op->mask_dtype, .nearest = op->interpolation, .fill = op->padding};
    return MR_OK;
}

static mr_status compile_picture(const mr_transform *transform, mr_dtype dtype,
                                 struct mr_plan *plan, mr_error *error)
{
    const struct mr_op *normalize = NULL, *mask = NULL;
    plan->dtype = dtype == MR_DTYPE_DEFAULT ? MR_U8 : dtype;
    plan->out_ndim = 3;
    plan->channels = plan->work_channels = plan->source_channels = 3;
    if (plan->dtype != MR_U8 && !is_image_float(plan->dtype))
        return mr_error_set(error, MR_ERR_INVALID,
                            "dtype %s cannot hold pictures: u8, f32, f16 and bf16 can",
                            mr_dtype_name(plan->dtype));
    mr_status status = plan->kind.encoded ? MR_OK : check_raw_picture(plan, error);
    if (status != MR_OK)
        return status;
    for (uint32_t i = 0, structure_end = 0; transform && i < transform->n_ops && status == MR_OK;
         i++) {
        const struct mr_op *op = &transform->ops[i];
        bool inside =
            i < structure_end; /* inside a structure, where the number of channels stays */
        structure_end = inside ? structure_end : mr_image_params_skip(transform->ops, i);
        if (op->kind == MR_OP_NORMALIZE)
            normalize = op;
        else if (op->kind == MR_OP_EXIF)
            plan->use_exif = plan->kind.encoded;
        else if (op->kind == MR_OP_RGB)
            plan->channels = 3;
        else if (op->kind == MR_OP_MASK)
            mask = op;
        else if (op->kind == MR_OP_RANDOM_ERASING)
            plan->erase = *op;
        else if (mr_mix_draw_is_op(op->kind))
            plan->mix = *op;
        else
            plan->ops[plan->n_ops++] = *op;
        if (!inside && is_grayscale(op)) {
            plan->channels = (uint32_t)op->args[0];
            plan->work_channels = plan->channels == 1 ? 1 : plan->work_channels;
        }
        status = check_colors(plan, op, error);
    }
    status = status == MR_OK ? check_calls(plan, error) : status;
    if (status != MR_OK)
        return status;
    if (plan->view.n_crops > 0 && mask)
        return mr_error_set(error, MR_ERR_INVALID, "mask is not applied to five_crop and ten_crop");
    status = compile_mask(mask, plan, error);
    status = status == MR_OK ? compile_boxes(plan, error) : status;
    if (status == MR_OK && mr_transform_has_pictures(transform) &&
        (plan->kind.boxes || plan->draws_for_boxes))
        return mr_error_set(error, MR_ERR_INVALID, "views and crops are not applied to boxes");
    status = status == MR_OK ? check_erasing(plan, error) : status;
    status = status == MR_OK ? check_mixing(plan, error) : status;
    if (status != MR_OK)
        return status;
    plan->copy = !plan->kind.encoded && plan->n_ops == 0 && !plan->view.name[0] &&
                 plan->dtype == MR_U8 && plan->channels == plan->work_channels &&
                 (plan->layout == plan->kind.layout || plan->channels == 1);
    status = compile_normalize(normalize, plan, error);
    return status == MR_OK ? compile_size(plan, error) : status;
}

static mr_status compile_plan(const mr_transform *transform, mr_dtype dtype, struct mr_plan *plan,
                              mr_error *error)
{
    if (!plan->kind.picture && !plan->kind.encoded)
        return compile_data(transform, dtype, plan, error);
    if (transform || !plan->kind.encoded)
        return compile_picture(transform, dtype, plan, error);
    mr_transform *usual;
    mr_status status = mr_transform_parse("train:224", &usual, error);
    if (status != MR_OK)
        return status;
    status = compile_picture(usual, dtype, plan, error);
    mr_transform_destroy(usual);
    return status;
}

mr_status mr_plan_compile(const mr_transform *transform, const struct mr_sample_kind *kind,
                          mr_dtype dtype, mr_layout layout, struct mr_plan *plan_out,
                          mr_error *error)
{
    if (layout != MR_NCHW && layout != MR_NHWC)
        return mr_error_set(error, MR_ERR_INVALID, "layout %d is neither nchw nor nhwc",
                            (int)layout);
    if (mr_dtype_size(dtype) == 0 && dtype != MR_DTYPE_DEFAULT)
        return mr_error_set(error, MR_ERR_INVALID, "dtype %d is unknown", (int)dtype);
    memset(plan_out, 0, sizeof *plan_out);
    plan_out->kind = *kind;
    plan_out->layout = layout;
    mr_status status = compile_view(transform, plan_out, error);
    if (status != MR_OK)
        return status;
    return compile_plan(transform, dtype, plan_out, error);
}

/* The first operation whose output's size is drawn. There is one. */
static const char *find_drawn_size(const struct mr_plan *plan)
{
    const struct mr_op *op = plan->ops;
    while (!mr_geometry_draws_size(op))
        op++;
    return mr_transform_op_name(op);
}

mr_status mr_plan_compile_fix_size(struct mr_plan *plan, uint32_t source_width,
                                   uint32_t source_height, mr_error *error)
{
    int64_t width, height;
    if (plan->out_known)
        return MR_OK;
    if (source_width == 0 || source_height == 0)
        return mr_error_set(error, MR_ERR_DAMAGED, "image is %ux%u pixels", source_width,
                            source_height);
    mr_status status = mr_geometry_size(plan, source_width, source_height, &width, &height, error);
    if (status == MR_OK && width == 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s gives each image another size; add random_crop(N) or "
                            "center_crop(N), or set ragged or pad_batch",
                            find_drawn_size(plan));
    return status == MR_OK ? set_size(plan, width, height, error) : status;
}

/*
 * The height and the width of a batch's rows are not known, also where all images have one size:
 * they are 0.
 */
static mr_status pad_to_side(struct mr_plan *plan, uint32_t max_side, mr_error *error)
{
    uint64_t pixel_bytes = plan->channels * mr_dtype_size(plan->dtype);
    plan->max_side = max_side;
    plan->out_height = plan->out_width = 0;
    plan->out_bytes = (uint64_t)max_side * max_side * pixel_bytes;
    memset(plan->out_shape, 0, sizeof plan->out_shape);
    plan->out_shape[plan->layout == MR_NCHW ? 0 : 2] = plan->channels;
    if (plan->out_bytes <= MAX_ROW_BYTES)
        return MR_OK;
    return mr_error_set(
        error, MR_ERR_INVALID, "pad_batch %u: an image may have %llu bytes, and the limit is %llu",
        max_side, (unsigned long long)plan->out_bytes, (unsigned long long)MAX_ROW_BYTES);
}

mr_status mr_plan_compile_keep_size(struct mr_plan *plan, uint64_t max_bytes, uint32_t max_side,
                                    mr_error *error)
{
    const char *name = max_side ? "pad_batch" : "ragged";
    if (!plan->kind.encoded)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s cannot be applied: the samples are not encoded images", name);
    const struct mr_op *refused = plan->mix.kind != 0 ? &plan->mix : &plan->erase;
    if (refused->kind != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "%s cannot be applied with %s: the images differ in size",
                            mr_transform_op_name(refused), name);
    if (plan->view.name[0] || plan->view.n_crops > 0)
        return mr_error_set(error, MR_ERR_INVALID, "%s cannot be applied to views and crops", name);
    plan->keeps_size = 1;
    plan->out_known = 1;
    if (max_side)
        return pad_to_side(plan, max_side, error);
    size_t element = mr_dtype_size(plan->dtype);
    if (max_bytes % element != 0)
        return mr_error_set(error, MR_ERR_INVALID,
                            "max_row_bytes %llu is not a multiple of %s's %zu bytes",
                            (unsigned long long)max_bytes, mr_dtype_name(plan->dtype), element);
    plan->out_ndim = 1;
    plan->out_shape[0] = (int64_t)(max_bytes / element);
    plan->out_bytes = max_bytes;
    return MR_OK;
}
