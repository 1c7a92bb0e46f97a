/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Mixes one row of a batch.
 *
 * Invariant: the inputs of a row are not written here. If a worker dies while mixing, the next one
 * mixes the row again.
 */
#include "loader/workers/mix_make.h"

#include <stdlib.h>
#include <string.h>

#include "transforms/mixing/mix_store.h"

struct mr_mix_maker {
    const struct mr_control *control;
    struct mr_mix_store *store; /* NULL: a device mixes the pixels */
    /* The columns that it writes; soft_label may be MR_NO_COLUMN. */
    uint32_t mix_label, mix_lambda, soft_label;
};

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
    maker->control = control;
    maker->mix_label = mr_columns_find(&control->layout.columns, "mix_label");
    maker->mix_lambda = mr_columns_find(&control->layout.columns, "mix_lambda");
    maker->soft_label = mr_columns_find(&control->layout.columns, "soft_label");
    mr_status status = MR_OK;
    if (control->layout.source_bytes > 0)
        status = mr_mix_store_create(&control->mixed, &maker->store, error);
    if (status == MR_OK)
        *maker_out = maker;
    else
        free(maker);
    return status;
}

void mr_mix_make_destroy(struct mr_mix_maker *maker)
{
    if (!maker)
        return;
    mr_mix_store_destroy(maker->store);
    free(maker);
}

/* Choose how to mix row i. Without mixing, *partner is set to i. */
static struct mr_mix choose_mix(const struct mr_slot_view *view, uint32_t i, uint32_t *partner)
{
    bool mixes = view->mix->kind != MR_MIX_NONE && *partner != i && *mr_slot_mask(view, i) &&
                 *mr_slot_mask(view, *partner);
    if (mixes)
        return *view->mix;
    *partner = i;
    return (struct mr_mix){.kind = MR_MIX_NONE, .rule = view->mix_rule, .lambda = 1, .rest = 0};
}

static struct mr_mix_row row_at(const struct mr_slot_view *view, uint32_t i)
{
    return (struct mr_mix_row){.pixels = mr_slot_source(view, i),
                               .erase = view->erases ? &view->erases[i] : NULL};
}

static void mix_pixels(const struct mr_mix_maker *maker, const struct mr_slot_view *view,
                       uint32_t i, uint32_t partner, const struct mr_mix *mix)
{
    uint8_t *out = mr_slot_row(view, MR_COLUMN_IMAGE, i);
    if (!*mr_slot_mask(view, i)) {
        memset(out, 0, view->layout->sample_bytes);
        return;
    }
    const struct mr_mix_row own = row_at(view, i), other = row_at(view, partner);
    mr_mix_store_run(maker->store, mix, &own, &other, out);
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
        mr_mix_store_label(mix, maker->control->mixed.mix.smoothing, *label, *other,
                           (uint32_t)column->shape[0], soft);
    else
        memset(soft, 0, column->row_bytes);
}

void mr_mix_make_row(const struct mr_mix_maker *maker, const struct mr_slot_view *view, uint32_t i)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    uint32_t partner = mr_mix_partner(view->mix_rule, i, n);
    struct mr_mix mix = choose_mix(view, i, &partner);
    if (maker->store)
        mix_pixels(maker, view, i, partner, &mix);
    mix_label(maker, view, i, partner, &mix);
}
