/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and lists damaged samples when their batch is returned, so dropped work is not counted. A place may have left
 * the same record twice, if its worker died in between; the list holds each index once.
 */
#include "loader/damage.h"

#include <stdlib.h>

void mr_damage_fini(struct mr_damage *damage)
{
    free(damage->kept);
    *damage = (struct mr_damage){0};
}

static const struct mr_record *find_record(const struct mr_slot_view *view, uint32_t place, uint32_t from,
                                           uint32_t *at_out)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_records, memory_order_relaxed);
    for (uint32_t i = from; i < n && i < MR_SLOT_RECORDS; i++) {
        const struct mr_record *record = &view->records[i];
        if (record->place == place && atomic_load_explicit(&record->valid, memory_order_acquire)) {
            *at_out = i;
            return record;
        }
    }
    return NULL;
}

static bool is_kept(const struct mr_damage *damage, int64_t index)
{
    for (uint32_t i = 0; i < damage->n_kept; i++)
        if (damage->kept[i].index == index)
            return true;
    return false;
}

static void keep_error(struct mr_damage *damage, const mr_error *error)
{
    if (damage->n_kept >= MR_DAMAGE_KEPT || is_kept(damage, error->index))
        return;
    if ((damage->n_kept & (damage->n_kept + 1)) == 0 || !damage->kept) { /* room for 1, 3, 7, ... */
        size_t room = 2 * (size_t)damage->n_kept + 1;
        mr_error *grown = realloc(damage->kept, room * sizeof *grown);
        if (!grown)
            return; /* counted, not listed */
        damage->kept = grown;
    }
    damage->kept[damage->n_kept++] = *error;
}

void mr_damage_collect(struct mr_damage *damage, const struct mr_slot_view *view)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t place = 0; place < n; place++) {
        uint32_t skipped = atomic_load_explicit(&view->skipped[place], memory_order_relaxed);
        uint32_t at = 0;
        damage->n_seen += skipped;
        if (skipped == 0)
            continue;
        for (const struct mr_record *r = find_record(view, place, 0, &at); r; r = find_record(view, place, at + 1, &at))
            keep_error(damage, &r->error);
    }
}

static bool has_failed(const struct mr_slot_view *view, uint32_t place)
{
    return atomic_load_explicit(&view->outcome[place], memory_order_relaxed) == MR_OUTCOME_FAILED;
}

bool mr_damage_has_failure(const struct mr_slot_view *view)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t place = 0; place < n; place++)
        if (has_failed(view, place))
            return true;
    return false;
}

bool mr_damage_first_failure(const struct mr_slot_view *view, const struct mr_catalog *catalog, mr_error *error_out)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t place = 0; place < n; place++) {
        if (!has_failed(view, place))
            continue;
        uint32_t at;
        const struct mr_record *record = find_record(view, place, 0, &at);
        if (record) {
            *error_out = record->error;
            return true;
        }
        int64_t index = atomic_load_explicit(&view->want[place], memory_order_relaxed);
        char which[MR_CATALOG_WHICH];
        mr_catalog_which(catalog, index, which);
        mr_error_set(error_out, MR_ERR_DAMAGED, "%s is damaged, as are more than %d others of its batch", which,
                     MR_SLOT_RECORDS);
        error_out->index = index;
        return true;
    }
    return false;
}
