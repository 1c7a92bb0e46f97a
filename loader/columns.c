/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The table of a loader's columns, in the order in which a batch has its arrays. A new column is
 * one line here, and the code of a worker that writes it (docs/extending.md).
 */
#include "loader/batch.h"

#include <stdio.h>
#include <string.h>

#include "transforms/plan_runner.h"

enum { MASK_PADDING = 255 }; /* what losses ignore, as in torchvision's references */

/*
 * The rows of a column differ in size: they have gaps, and the column `starts` says where they
 * begin, or they are padded.
 */
static void add_starts(struct mr_columns *columns, struct mr_column *rows, const char *starts,
                       bool pads)
{
    rows->pads = pads;
    if (pads)
        return;
    rows->has_gaps = 1;
    rows->starts = columns->n;
    mr_columns_add(columns, starts, MR_I64, 0, NULL);
}

/* Rows of tokens that differ in length are padded. The column `length` has their lengths. */
static void add_length(struct mr_columns *columns)
{
    struct mr_column *tokens = &columns->column[MR_COLUMN_IMAGE],
                     *labels = &columns->column[MR_COLUMN_LABEL];
    mr_columns_add(columns, "length", MR_I32, 0, NULL);
    tokens->pads = labels->pads = 1;
    tokens->shape[0] = labels->shape[0] = 0;
    labels->pad_value = MR_LABEL_IGNORED;
}

static void name_of_view(const struct mr_view *view, const char *what, char name[MR_COLUMN_NAME])
{
    snprintf(name, MR_COLUMN_NAME, "%s%s%s", view->name, view->name[0] ? "." : "", what);
}

/* The geometry of a view's pictures. */
static void add_geometry(const struct mr_view *view, struct mr_columns *columns)
{
    const int64_t shape[2] = {view->n_pictures, MR_GEOMETRY_FIELDS};
    char name[MR_COLUMN_NAME];
    name_of_view(view, "geometry", name);
    mr_columns_add(columns, name, MR_I32, view->is_row ? 2 : 1, view->is_row ? shape : shape + 1);
}

/* A further view; plan is that of its finished rows. */
static void add_view(const struct mr_plan *plan, struct mr_columns *columns)
{
    int64_t shape[MR_MAX_NDIM - 1] = {plan->view.n_pictures};
    memcpy(shape + plan->view.is_row, plan->out_shape, 3 * sizeof *shape);
    struct mr_column *pictures =
        mr_columns_add(columns, plan->view.name, plan->dtype, 3 + plan->view.is_row, shape);
    pictures->writer = plan->mix.kind ? MR_WRITER_MIX : MR_WRITER_SAMPLE;
    add_geometry(&plan->view, columns);
}

static void add_fixed(const struct mr_host *host, const struct mr_plan *plan,
                      const struct mr_plan *mixed, struct mr_columns *columns)
{
    static const int64_t sides = 2;
    const struct mr_image_form *image = &host->image;
    const struct mr_sample_kind *kind = &plan->kind;
    const char *name = plan->view.name[0] ? plan->view.name
                       : kind->picture    ? "image"
                       : kind->tokens     ? "tokens"
                                          : "data";
    struct mr_column *samples =
        mr_columns_add(columns, name, image->dtype, image->ndim, image->shape);
    samples->row_bytes = mixed->out_bytes * plan->view.n_pictures;
    samples->writer = mixed->mix.kind && !host->finish.mixes ? MR_WRITER_MIX : MR_WRITER_SAMPLE;
    mr_columns_add(columns, kind->tokens ? "labels" : "label", kind->label_dtype, kind->label_ndim,
                   kind->label_shape);
    mr_columns_add(columns, "index", MR_I64, 0, NULL)->hole = MR_HOLE_WANTED;
    mr_columns_add(columns, "mask", MR_U8, 0, NULL);
    add_geometry(&plan->view, columns);
    if (mixed->keeps_size) {
        mr_columns_add(columns, "image.shape", MR_I32, 1, &sides);
        add_starts(columns, samples, "image.offsets", mixed->max_side != 0);
    }
    if (kind->token_columns & MR_TOKENS_LENGTH)
        add_length(columns);
}

static void add_of_tokens(const struct mr_plan *plan, const char *name, mr_dtype dtype,
                          struct mr_columns *columns)
{
    struct mr_column *column = mr_columns_add(columns, name, dtype, 1, plan->out_shape);
    column->pads = columns->column[MR_COLUMN_IMAGE].pads;
    if (column->pads)
        column->shape[0] = 0;
}

/* A packed row has its pieces of documents, and a segment of padding. */
static void add_segments(const struct mr_sample_kind *kind, struct mr_columns *columns)
{
    const int64_t most = mr_packing_most_pieces(kind->tokens, kind->pack_window),
                  most_ends = most + 2;
    mr_columns_add_ragged(columns, "document", MR_I64, 1, &most);
    mr_columns_add_ragged(columns, "cu_seqlens", MR_I32, 1, &most_ends);
    mr_columns_add(columns, "max_seqlen", MR_I32, 0, NULL);
}

static void add_tokens(const struct mr_plan *plan, struct mr_columns *columns)
{
    if (plan->kind.token_columns & MR_TOKENS_LOSS_MASK)
        add_of_tokens(plan, "loss_mask", MR_F32, columns);
    if (plan->kind.token_columns & MR_TOKENS_POSITIONS)
        add_of_tokens(plan, "position_ids", plan->dtype, columns);
    if (plan->kind.pack != MR_PACK_NONE)
        add_segments(&plan->kind, columns);
}

static void add_mixing(int64_t n_classes, struct mr_columns *columns)
{
    mr_columns_add(columns, "mix_label", MR_I64, 0, NULL)->writer = MR_WRITER_MIX;
    mr_columns_add(columns, "mix_lambda", MR_F32, 0, NULL)->writer = MR_WRITER_MIX;
    if (n_classes > 0)
        mr_columns_add(columns, "soft_label", MR_F32, 1, &n_classes)->writer = MR_WRITER_MIX;
}

static void add_mask(const struct mr_plan *plan, struct mr_columns *columns)
{
    const struct mr_view *view = &plan->view;
    char name[MR_COLUMN_NAME];
    const bool pads = plan->max_side != 0;
    const int64_t shape[3] = {view->n_pictures, plan->out_height, plan->out_width};
    const int64_t most_pixels =
        (int64_t)(plan->out_bytes / (plan->channels * mr_dtype_size(plan->dtype)));
    const bool has_gaps = plan->keeps_size && !pads;
    name_of_view(view, "mask_image", name);
    struct mr_column *mask =
        has_gaps ? mr_columns_add(columns, name, (mr_dtype)plan->mask.dtype, 1, &most_pixels)
                 : mr_columns_add(columns, name, (mr_dtype)plan->mask.dtype, 2 + view->is_row,
                                  shape + !view->is_row);
    if (!plan->keeps_size)
        return;
    mask->row_bytes = (uint64_t)most_pixels * mr_dtype_size((mr_dtype)mask->dtype);
    mask->pad_value = MASK_PADDING;
    add_starts(columns, mask, "mask_image.offsets", pads);
}

static void add_boxes(int64_t most, struct mr_columns *columns)
{
    const int64_t corners[2] = {most, 4};
    mr_columns_add_ragged(columns, "boxes", MR_F32, 2, corners);
    mr_columns_add_ragged(columns, "box_label", MR_I64, 1, &most);
    mr_columns_add_ragged(columns, "box_area", MR_F32, 1, &most);
    mr_columns_add_ragged(columns, "box_crowd", MR_U8, 1, &most);
}

static void add_extra(const struct mr_extra *extra, struct mr_columns *columns)
{
    mr_dtype dtype = extra->dtype == MR_DTYPE_DEFAULT ? MR_U8 : (mr_dtype)extra->dtype;
    int64_t most = (int64_t)(extra->max_bytes / mr_dtype_size(dtype));
    if (extra->offsets[0])
        mr_columns_add_ragged(columns, extra->name, dtype, 1, &most);
    else
        mr_columns_add(columns, extra->name, (mr_dtype)extra->dtype, extra->ndim, extra->shape);
}

static bool find_offsets(const struct mr_columns *columns, const char *name)
{
    for (uint32_t i = 0; i < columns->n; i++)
        if (strcmp(columns->column[i].offsets_name, name) == 0)
            return true;
    return false;
}

/* first_extra: before it only views have names that the caller has chosen. */
static mr_status check_names(const struct mr_columns *columns, uint32_t first_extra,
                             mr_error *error)
{
    for (uint32_t i = 0; i < columns->n; i++)
        if (mr_columns_find(columns, columns->column[i].name) != i ||
            find_offsets(columns, columns->column[i].name))
            return mr_error_set(
                error, MR_ERR_INVALID, "%s '%s' has the name of another array of a batch",
                i < first_extra ? "the view" : "the dataset's array", columns->column[i].name);
    return MR_OK;
}

mr_status mr_columns_declare(const struct mr_host *host, const struct mr_plan *plan,
                             const struct mr_plan *mixed, uint32_t n_views,
                             struct mr_columns *columns_out, mr_error *error)
{
    const struct mr_sample_kind *kind = &plan->kind;
    bool mixes = mixed->mix.kind != 0;
    *columns_out = (struct mr_columns){0};
    add_fixed(host, plan, mixed, columns_out);
    for (uint32_t i = 1; i < n_views; i++) {
        add_view(&mixed[i], columns_out);
        mixes |= mixed[i].mix.kind != 0;
    }
    if (mixes)
        add_mixing((int64_t)host->options.soft_labels, columns_out);
    for (uint32_t i = 0; i < n_views; i++)
        if (mixed[i].mask.is_used)
            add_mask(&mixed[i], columns_out);
    add_tokens(plan, columns_out);
    if (kind->boxes)
        add_boxes(host->options.max_boxes, columns_out);
    if (kind->sources)
        mr_columns_add(columns_out, "source", MR_I32, 0, NULL);
    uint32_t first_extra = columns_out->n;
    for (uint32_t k = 0; k < kind->n_extra; k++)
        if (mr_plan_member_use(plan, k) == MR_MEMBER_BYTES)
            add_extra(&kind->extra[k], columns_out);
    return check_names(columns_out, first_extra, error);
}
