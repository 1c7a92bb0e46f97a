/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Counts and lists damaged samples when their batch is returned, so dropped batches are not
 * counted. Each place counts once, for the sample that was wanted there; substitutes that were
 * tried and damaged do not count. Finds the error that takes a batch's place. That error does not
 * depend on which worker found which damage first. If a slot had no record left for a sample's
 * error text, the list has only the sample's name.
 */
#include "loader/damage.h"

#include <stdlib.h>

#include "base/log.h"
#include "transforms/plan_runner.h"

void mr_damage_fini(struct mr_damage *damage)
{
    free((void *)damage->seen.words);
    free(damage->named);
}

/* The error of a place. Without a record its text is lost, and only the sample is named. */
static void find_error(const struct mr_slot_view *view, const struct mr_catalog *catalog,
                       uint32_t place, bool is_damage, mr_error *error_out)
{
    char which[MR_CATALOG_DESCRIPTION];
    const mr_error *recorded = mr_slot_recorded(view, place, is_damage);
    if (recorded) {
        *error_out = *recorded;
        return;
    }
    int64_t index = atomic_load_explicit(&view->want[place], memory_order_relaxed);
    mr_catalog_describe(catalog, index, which);
    mr_error_set(error_out, is_damage ? MR_ERR_DAMAGED : MR_ERR_IO, "%s %s", which,
                 is_damage ? "is damaged" : "could not be made");
    error_out->index = index;
}

/* Most loaders meet no damage, and the list is 1 MB. */
static void make_lists(struct mr_damage *damage, int64_t n_samples)
{
    uint64_t len_bytes = mr_damage_map_bytes(n_samples);
    damage->named = calloc(MR_DAMAGE_NAMED, sizeof *damage->named);
    if (!damage->named)
        mr_log_line(MR_LOG_WARNING, "no memory: mr_loader_damaged() will list no samples");
    damage->seen = (struct mr_damage_map){.words = calloc(1, len_bytes), .n_samples = n_samples};
    if (!damage->seen.words)
        mr_log_line(MR_LOG_WARNING,
                    "cannot allocate %llu bytes to tell damaged samples apart: n_damaged_distinct "
                    "counts only those that mr_loader_damaged() lists",
                    (unsigned long long)len_bytes);
}

static bool is_new(struct mr_damage *damage, int64_t index)
{
    if (damage->seen.words)
        return mr_damage_map_set(&damage->seen, index);
    for (uint32_t i = 0; i < damage->n_named; i++)
        if (damage->named[i].index == index)
            return false;
    return damage->n_named < MR_DAMAGE_NAMED;
}

/*
 * Usually the transform is wrong, not the file: it does not fix the size. Skip and zero would hide
 * this.
 */
static void warn_other_size(struct mr_damage *damage, mr_on_error on_error, const mr_error *error)
{
    if (damage->warned_other_size || on_error == MR_ON_ERROR_FAIL ||
        !mr_plan_runner_is_other_size(error))
        return;
    damage->warned_other_size = true;
    mr_log_line(MR_LOG_WARNING, "images of other sizes %s, the first: %s",
                on_error == MR_ON_ERROR_SKIP ? "are left out (on_error skip)"
                                             : "become zeros (on_error zero)",
                error->text);
}

/* The wanted sample of a place was damaged. */
static void count_damaged(struct mr_damage *damage, const struct mr_control *control,
                          const struct mr_slot_view *view, const struct mr_catalog *catalog,
                          uint32_t place)
{
    int64_t want = atomic_load_explicit(&view->want[place], memory_order_relaxed);
    if (damage->n_seen++ == 0)
        make_lists(damage, control->n_samples);
    if (!is_new(damage, want))
        return;
    damage->n_distinct++;
    if (damage->n_named == MR_DAMAGE_NAMED || !damage->named)
        return;
    mr_error *error = &damage->named[damage->n_named++];
    find_error(view, catalog, place, true, error);
    warn_other_size(damage, control->options.on_error, error);
}

void mr_damage_collect(struct mr_damage *damage, const struct mr_control *control,
                       const struct mr_slot_view *view, const struct mr_catalog *catalog)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t place = 0; place < n; place++)
        if (atomic_load_explicit(&view->skipped[place], memory_order_relaxed) > 0)
            count_damaged(damage, control, view, catalog, place);
}

static bool has_outcome(const struct mr_slot_view *view, uint32_t place, enum mr_outcome least)
{
    return atomic_load_explicit(&view->outcome[place], memory_order_relaxed) >= least;
}

/* The lowest place with this outcome or a worse one. */
static bool find_place(const struct mr_slot_view *view, enum mr_outcome least, uint32_t *place_out)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (*place_out = 0; *place_out < n; ++*place_out)
        if (has_outcome(view, *place_out, least))
            return true;
    return false;
}

bool mr_damage_has_failure(const struct mr_slot_view *view)
{
    uint32_t unused;
    return find_place(view, MR_OUTCOME_DAMAGED, &unused);
}

static bool is_all_damaged(const struct mr_slot_view *view)
{
    uint32_t n = atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    for (uint32_t place = 0; place < n; place++)
        if (!has_outcome(view, place, MR_OUTCOME_DAMAGED))
            return false;
    return true;
}

/*
 * Name the k-th sample that was tried. With substitutes that is the k-th candidate of the first
 * place, otherwise the sample wanted at place k.
 */
static void name_tried(const struct mr_control *control, const struct mr_slot_view *view,
                       const struct mr_catalog *catalog, uint32_t k,
                       char which_out[MR_CATALOG_DESCRIPTION])
{
    uint32_t place = control->substitutes ? 0 : k;
    int64_t index = atomic_load_explicit(&view->want[place], memory_order_relaxed);
    mr_catalog_describe(catalog, control->substitutes ? (index + k) % control->n_samples : index,
                        which_out);
}

/* No sample decodes: say how many there are and why the first one failed, and name the next two. */
static void describe_all(const struct mr_control *control, const struct mr_slot_view *view,
                         const struct mr_catalog *catalog, mr_error *error)
{
    const mr_error first = *error;
    char second[MR_CATALOG_DESCRIPTION], third[MR_CATALOG_DESCRIPTION] = "";
    int64_t n = control->substitutes
                    ? control->n_samples
                    : atomic_load_explicit(&view->slot->n_places, memory_order_relaxed);
    if (n == 1)
        return;
    name_tried(control, view, catalog, 1, second);
    if (n > 2)
        name_tried(control, view, catalog, 2, third);
    mr_error_set(error, MR_ERR_DAMAGED, "all %lld samples of the %s are damaged: %s; then %s%s%s%s",
                 (long long)n, control->substitutes ? "dataset" : "batch", first.text, second,
                 n > 2 ? ", " : "", third, n > 3 ? ", ..." : "");
    error->index = first.index;
    error->os_error = first.os_error;
}

bool mr_damage_first_failure(const struct mr_control *control, const struct mr_slot_view *view,
                             const struct mr_catalog *catalog, mr_error *error_out)
{
    uint32_t place;
    bool is_damage = !find_place(view, MR_OUTCOME_FAILED, &place);
    if (is_damage && !find_place(view, MR_OUTCOME_DAMAGED, &place))
        return false;
    find_error(view, catalog, place, is_damage, error_out);
    if (is_damage && is_all_damaged(view))
        describe_all(control, view, catalog, error_out);
    return true;
}
