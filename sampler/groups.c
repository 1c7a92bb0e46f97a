/* SPDX-License-Identifier: Apache-2.0 */
/* Sorts a rank's order into batches of one group each. */
#include "sampler/groups.h"

#include "base/error.h"
#include "base/xxh3.h"

#include <stdlib.h>
#include <string.h>

mr_status mr_groups_create(const uint8_t *ids, uint64_t n, uint32_t batch_size,
                           struct mr_groups **groups_out, mr_error *error)
{
    struct mr_groups *groups = malloc(sizeof *groups + n);
    if (!groups)
        return mr_error_memory(error, sizeof *groups + n);
    *groups = (struct mr_groups){
        .n_refs = 1, .batch_size = batch_size, .n = n, .digest = mr_xxh3(ids, n)};
    memcpy(groups->ids, ids, n);
    *groups_out = groups;
    return MR_OK;
}

struct mr_groups *mr_groups_ref(struct mr_groups *groups)
{
    atomic_fetch_add_explicit(&groups->n_refs, 1, memory_order_relaxed);
    return groups;
}

void mr_groups_unref(struct mr_groups *groups)
{
    if (groups && atomic_fetch_sub_explicit(&groups->n_refs, 1, memory_order_acq_rel) == 1)
        free(groups);
}

/* What has come of a group. */
struct group {
    uint64_t *positions; /* all of them, in order */
    uint64_t n;
    uint64_t since; /* position of its first sample, or of the end of its last full batch */
};

static int64_t count_left(const struct group *group, uint32_t batch_size)
{
    return (int64_t)(group->n % batch_size);
}

/* The group that comes next: of those with most left, the oldest. It has no sample left then. */
static struct group *take_fullest(struct group *groups, uint32_t batch_size, bool *taken)
{
    struct group *best = NULL;
    for (uint32_t g = 0; g < MR_GROUPS_MAX; g++) {
        int64_t more = best ? count_left(&groups[g], batch_size) - count_left(best, batch_size) : 1;
        if (!taken[g] && groups[g].n > 0 &&
            (more > 0 || (more == 0 && groups[g].since < best->since)))
            best = &groups[g];
    }
    taken[best - groups] = true;
    return best;
}

/* The positions that are left, then the first ones of the group. */
static void fill_batch(const struct group *group, uint32_t batch_size, uint64_t *out)
{
    uint64_t n_left = group->n % batch_size;
    memcpy(out, group->positions + group->n - n_left, n_left * sizeof *out);
    for (uint64_t i = n_left; i < batch_size; i++)
        out[i] = group->positions[(i - n_left) % group->n];
}

mr_status mr_groups_sort(const uint8_t *ids, uint64_t n, uint32_t batch_size,
                         uint64_t *positions_out, mr_error *error)
{
    struct group groups[MR_GROUPS_MAX] = {0};
    bool taken[MR_GROUPS_MAX] = {false};
    uint64_t n_batches = 0, *all = malloc((n + 1) * sizeof *all), *end = all;
    if (!all)
        return mr_error_memory(error, (n + 1) * sizeof *all);
    for (uint64_t p = 0; p < n; p++)
        groups[ids[p]].n++;
    for (uint32_t g = 0; g < MR_GROUPS_MAX; g++) {
        groups[g].positions = end;
        end += groups[g].n;
        groups[g].n = 0;
    }
    for (uint64_t p = 0; p < n; p++) {
        struct group *group = &groups[ids[p]];
        group->positions[group->n++] = p;
        if (group->n == 1)
            group->since = p;
        if (group->n % batch_size != 0)
            continue;
        memcpy(positions_out + n_batches++ * batch_size, group->positions + group->n - batch_size,
               batch_size * sizeof *positions_out);
        group->since = p;
    }
    for (; n_batches < n / batch_size; n_batches++)
        fill_batch(take_fullest(groups, batch_size, taken), batch_size,
                   positions_out + n_batches * batch_size);
    free(all);
    return MR_OK;
}
