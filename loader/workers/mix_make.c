/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixes one row of a batch: the pictures of each view that is mixed, and the labels. All have the
 * same partner, and boxes apart the same lambda.
 *
 * Invariant: the inputs of a row are not written here. If a worker dies while mixing, the next one
 * mixes the row again.
 */
#include "loader/workers/mix_make.h"

#include <stdlib.h>
#include <string.h>

#include "transforms/erase.h"
#include "transforms/mixing/mix_store.h"

/* The pictures of a view. */
struct mixed_view {
    const struct mr_plan *plan; /* of the finished rows */
    struct mr_mix_store *store; /* NULL: a device mixes the pixels */
    uint32_t column;
    uint64_t picture_bytes; /* before mixing */
    uint64_t source_off;    /* where the first picture is in the row before mixing */
    bool erases;            /* its pictures are erased after mixing or with it: */
    uint32_t first_erase;   /* that of its first picture among those of the row */
};

struct mr_mix_maker {
    struct mixed_view views[MR_MAX_VIEWS]; /* those that are mixed */
    uint32_t n_views;
    /* The columns that it writes; soft_label may be MR_NO_COLUMN. */
    uint32_t mix_label, mix_lambda, soft_label;
};

/* Find the views that are mixed, in the order in which workers write them (sample_make.c). */
static mr_status find_views(struct mr_mix_maker *maker, const struct mr_shared *shared,
                            mr_error *error)
{
    uint64_t source_off = 0;
    uint32_t n_erases = 0;
    mr_status status = MR_OK;
    for (uint32_t i = 0; i <= shared->control->n_views && status == MR_OK; i++) {
        const struct mr_plan *made = mr_control_plan(shared, i);
        struct mixed_view *view = &maker->views[maker->n_views];
        view->plan = mr_control_mixed(shared, i);
        if (!view->plan->mix.kind)
            continue;
        maker->n_views++;
        view->column = i ? MR_COLUMNS_FIXED + 2 * (i - 1) : MR_COLUMN_IMAGE;
        view->picture_bytes = made->out_bytes;
        view->source_off = source_off;
        view->erases = mr_erase_is_deferred(made);
        view->first_erase = n_erases;
        source_off += made->out_bytes * made->view.n_pictures;
        n_erases += view->erases ? made->view.n_pictures : 0;
        if (shared->control->layout.source_bytes > 0)
            status = mr_mix_store_create(view->plan, &view->store, error);
    }
    return status;
}

mr_status mr_mix_make_create(const struct mr_worker_job *job, struct mr_mix_maker **maker_out,
                             mr_error *error)
{
    const struct mr_control *control = job->shared.control;
    *maker_out = NULL;
    if (!control->layout.mixes)
        return MR_OK;
    struct mr_mix_maker *maker = calloc(1, sizeof *maker);
    if (!maker)
        return mr_error_memory(error, sizeof *maker);
    maker->mix_label = mr_columns_find(&control->layout.columns, "mix_label");
    maker->mix_lambda = mr_columns_find(&control->layout.columns, "mix_lambda");
    maker->soft_label = mr_columns_find(&control->layout.columns, "soft_label");
    mr_status status = find_views(maker, &job->shared, error);
    if (status == MR_OK)
        *maker_out = maker;
    else
        mr_mix_make_destroy(maker);
    return status;
}

void mr_mix_make_destroy(struct mr_mix_maker *maker)
{
    if (!maker)
        return;
    for (uint32_t v = 0; v < maker->n_views; v++)
        mr_mix_store_destroy(maker->views[v].store);
    free(maker);
}

/* Choose how to mix row i of all views. Without mixing, *partner is set to i. */
static bool is_mixed(const struct mr_slot_view *view, uint32_t i, uint32_t *partner)
{
    bool mixes = view->mix->kind != MR_MIX_NONE && *partner != i && *mr_slot_mask(view, i) &&
                 *mr_slot_mask(view, *partner);
    if (!mixes)
        *partner = i;
    return mixes;
}

static struct mr_mix_row picture_at(const struct mr_slot_view *slot, const struct mixed_view *view,
                                    uint32_t i, uint32_t k)
{
    return (struct mr_mix_row){
        .pixels = mr_slot_source(slot, i) + view->source_off + k * view->picture_bytes,
        .erase = view->erases ? mr_slot_erases(slot, i) + view->first_erase + k : NULL};
}

static void mix_pictures(const struct mr_slot_view *slot, const struct mixed_view *view, uint32_t i,
                         uint32_t partner, const struct mr_mix *mix)
{
    uint8_t *out = mr_slot_row(slot, view->column, i);
    if (!*mr_slot_mask(slot, i)) {
        memset(out, 0, slot->layout->columns.column[view->column].row_bytes);
        return;
    }
    for (uint32_t k = 0; k < view->plan->view.n_pictures; k++) {
        const struct mr_mix_row own = picture_at(slot, view, i, k),
                                other = picture_at(slot, view, partner, k);
        mr_mix_store_run(view->store, mix, &own, &other, out + k * view->plan->out_bytes);
    }
}

static void mix_label(const struct mr_mix_maker *maker, const struct mr_slot_view *view, uint32_t i,
                      uint32_t partner, const struct mr_mix *mix)
{
    const int64_t *label = mr_slot_row(view, MR_COLUMN_LABEL, i);
    const int64_t *other = mr_slot_row(view, MR_COLUMN_LABEL, partner);
    memcpy(mr_slot_row(view, maker->mix_label, i), other, sizeof *other);
    memcpy(mr_slot_row(view, maker->mix_lambda, i), &mix->lambda, sizeof mix->lambda);
    if (maker->soft_label == MR_NO_COLUMN)
        return;
    float *soft = mr_slot_row(view, maker->soft_label, i);
    const struct mr_column *column = &view->layout->columns.column[maker->soft_label];
    if (*mr_slot_mask(view, i))
        mr_mix_store_label(mix, maker->views[0].plan->mix.smoothing, *label, *other,
                           (uint32_t)column->shape[0], soft);
    else
        memset(soft, 0, column->row_bytes);
}

void mr_mix_make_row(const struct mr_mix_maker *maker, const struct mr_slot_view *view, uint32_t i)
{
    const struct mr_mix none = {
        .kind = MR_MIX_NONE, .rule = view->mix_rule, .lambda = 1, .rest = 0};
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    uint32_t partner = mr_mix_partner(view->mix_rule, i, n);
    bool mixes = is_mixed(view, i, &partner);
    for (uint32_t v = 0; v < maker->n_views; v++)
        if (maker->views[v].store)
            mix_pictures(view, &maker->views[v], i, partner, mixes ? &view->mix[v] : &none);
    mix_label(maker, view, i, partner, mixes ? &view->mix[0] : &none);
}
