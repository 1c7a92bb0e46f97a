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
    bool mixes =
        view->mix->kind != MR_MIX_NONE && *partner != i && view->mask[i] && view->mask[*partner];
    if (mixes)
        return *view->mix;
    *partner = i;
    return (struct mr_mix){.kind = MR_MIX_NONE, .rule = view->mix_rule, .lambda = 1, .rest = 0};
}

static struct mr_mix_row row_at(const struct mr_slot_view *view, uint32_t i)
{
    return (struct mr_mix_row){.pixels = view->source + i * view->source_bytes,
                               .erase = view->erases ? &view->erases[i] : NULL};
}

static void mix_pixels(const struct mr_mix_maker *maker, const struct mr_slot_view *view,
                       uint32_t i, uint32_t partner, const struct mr_mix *mix)
{
    const struct mr_slot_layout *layout = &maker->control->layout;
    uint8_t *out = view->data + i * layout->sample_bytes;
    if (!view->mask[i]) {
        memset(out, 0, layout->sample_bytes);
        return;
    }
    const struct mr_mix_row own = row_at(view, i), other = row_at(view, partner);
    mr_mix_store_run(maker->store, mix, &own, &other, out);
}

static void mix_label(const struct mr_mix_maker *maker, const struct mr_slot_view *view, uint32_t i,
                      uint32_t partner, const struct mr_mix *mix)
{
    const int64_t *labels = (const int64_t *)(const void *)view->label;
    uint32_t n_classes = maker->control->layout.n_classes;
    float *soft = view->soft_label + (size_t)i * n_classes;
    view->mix_label[i] = labels[partner];
    view->mix_lambda[i] = mix->lambda;
    if (n_classes > 0 && view->mask[i])
        mr_mix_store_label(mix, maker->control->mixed.mix.smoothing, labels[i], labels[partner],
                           n_classes, soft);
    else
        memset(soft, 0, n_classes * sizeof *soft);
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
