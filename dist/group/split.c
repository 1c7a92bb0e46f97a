/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Splits a group into groups. All ranks exchange color, key and node. Each makes its part. Then all
 * ranks exchange whether they succeeded, so that a failed rank is named and the other ranks do not
 * wait for it.
 *
 * Invariant: ranks without a color take part in every step, because engines that split their
 * communicator need every rank of it.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/error.h"
#include "dist/group/collectives.h"
#include "dist/group/group_keys.h"
#include "dist/group/work.h"
#include "dist/group/work_threads.h"

#define MS 1000000u /* ns */

/* The numbers that each rank sends first. At the end it sends one number, its status. */
enum { COLOR, KEY, NODE, N_NUMBERS };

struct split {
    struct mr_group *parent;
    uint32_t color;
    uint32_t key;
    uint32_t n_members;
    uint32_t *members; /* ranks of the parent, in the new order */
    int64_t *numbers;  /* N_NUMBERS of each rank of the parent */
    uint64_t number;   /* number of this split in the parent */
    uint64_t deadline_ns;
};

static uint32_t get_number(const struct split *split, uint32_t rank, int what)
{
    return (uint32_t)split->numbers[rank * (size_t)N_NUMBERS + (size_t)what];
}

static mr_status gather_numbers(struct split *split, const int64_t *in, int64_t *out, uint32_t n)
{
    struct mr_group *parent = split->parent;
    if (parent->world_size > 1)
        return mr_collectives_all_gather(parent, in, out, n, MR_I64);
    memcpy(out, in, n * sizeof *in);
    return MR_OK;
}

/* Is a before b in the new group? */
static bool comes_before(const struct split *split, uint32_t a, uint32_t b)
{
    uint32_t key_a = get_number(split, a, KEY);
    uint32_t key_b = get_number(split, b, KEY);
    return key_a < key_b || (key_a == key_b && a < b);
}

static void find_members(struct split *split)
{
    for (uint32_t r = 0; r < split->parent->world_size; r++) {
        if (split->color == MR_NO_COLOR || get_number(split, r, COLOR) != split->color)
            continue;
        uint32_t at = split->n_members++;
        for (; at > 0 && comes_before(split, r, split->members[at - 1]); at--)
            split->members[at] = split->members[at - 1];
        split->members[at] = r;
    }
}

/*
 * Sets local rank, local world size, node and world ranks. Machines are numbered in the order of
 * the new ranks.
 */
static void place_rank(const struct split *split, struct mr_group *group)
{
    const struct mr_group *parent = split->parent;
    uint32_t n_local = 0;
    bool has_met_own = false;
    for (uint32_t i = 0; i < split->n_members; i++) {
        uint32_t member = split->members[i];
        uint32_t node = get_number(split, member, NODE);
        bool is_first_of_node = true;
        group->world_ranks[i] = parent->world_ranks[member];
        for (uint32_t j = 0; j < i; j++)
            is_first_of_node &= get_number(split, split->members[j], NODE) != node;
        if (member == parent->rank)
            group->local_rank = n_local;
        if (node == parent->node)
            n_local++;
        has_met_own |= node == parent->node;
        group->node += is_first_of_node && !has_met_own;
    }
    group->local_world_size = n_local;
}

/*
 * The key prefix of the new group. It is a hash of the parent's prefix, the split and the color, so
 * its length does not grow with the depth.
 */
static void make_prefix(const struct split *split, struct mr_group *group)
{
    uint64_t hash = 0xcbf29ce484222325u; /* FNV-1a, then mixed as splitmix64 does */
    char way[MR_GROUP_PREFIX + 40];
    snprintf(way, sizeof way, "%s%llu.%u", split->parent->prefix, (unsigned long long)split->number,
             split->color);
    for (const char *c = way; *c; c++)
        hash = (hash ^ (unsigned char)*c) * 0x100000001b3u;
    hash = (hash ^ hash >> 30) * 0xbf58476d1ce4e5b9u;
    hash = (hash ^ hash >> 27) * 0x94d049bb133111ebu;
    snprintf(group->prefix, sizeof group->prefix, "g%016llx/",
             (unsigned long long)(hash ^ hash >> 31));
}

static void inherit_settings(const struct split *split, struct mr_group *group)
{
    const struct mr_group *parent = split->parent;
    group->timeout_ms = parent->timeout_ms;
    group->device_rank = parent->device_rank;
    group->is_checked = parent->is_checked;
    group->table = parent->table;
    memcpy(group->device, parent->device, sizeof group->device);
    memcpy(group->backend, parent->backend, sizeof group->backend);
    if (split->n_members == 1 && !(parent->table && parent->table->on_device)) {
        group->table = NULL;
        snprintf(group->backend, sizeof group->backend, "none");
    }
}

/* The group without its engine; NULL for a rank without a color. */
static mr_status make_group(const struct split *split, struct mr_group **group_out, mr_error *error)
{
    *group_out = NULL;
    if (split->color == MR_NO_COLOR)
        return MR_OK;
    uint32_t rank = 0;
    while (split->members[rank] != split->parent->rank)
        rank++;
    mr_status status = mr_group_new(split->parent->home, rank, split->n_members, group_out, error);
    if (status)
        return status;
    atomic_fetch_add_explicit(&split->parent->home->n_groups, 1, memory_order_relaxed);
    place_rank(split, *group_out);
    make_prefix(split, *group_out);
    inherit_settings(split, *group_out);
    return MR_OK;
}

/*
 * Called by all ranks of the parent. A group of one rank on host memory has no engine, like a rank
 * without a color.
 */
static mr_status split_engine(const struct split *split, struct mr_group *group, mr_error *error)
{
    struct mr_group *parent = split->parent;
    bool has_engine = group && group->table;
    struct mr_engine_setup setup;
    void *engine = NULL;
    mr_group_keys_setup(has_engine ? group : parent, split->deadline_ns, &setup);
    mr_status status = mr_work_take_engine(parent, split->deadline_ns);
    if (status) {
        mr_error_copy(error, mr_group_error(parent));
        return status;
    }
    status =
        (mr_status)parent->table->split(parent->engine, has_engine ? split->color : MR_NO_COLOR,
                                        split->key, &setup, &engine, error);
    mr_work_give_engine(parent, status == MR_OK);
    if (!status && has_engine)
        group->engine = engine;
    return status;
}

static mr_status make_engine(const struct split *split, struct mr_group *group, mr_error *error)
{
    struct mr_engine_setup setup;
    if (split->parent->table && split->parent->table->split)
        return split_engine(split, group, error);
    if (!group || !group->table)
        return MR_OK;
    mr_group_keys_setup(group, split->deadline_ns, &setup);
    return (mr_status)group->table->create(&setup, &group->engine, error);
}

/*
 * The rank that failed; prefers one that did not only time out waiting. world_size if all
 * succeeded.
 */
static uint32_t find_failed_rank(const struct split *split)
{
    uint32_t n = split->parent->world_size;
    uint32_t late = n;
    for (uint32_t r = 0; r < n; r++) {
        if (split->numbers[r] != MR_OK && split->numbers[r] != MR_ERR_TIMEOUT)
            return r;
        if (split->numbers[r] != MR_OK && late == n)
            late = r;
    }
    return late;
}

/* Has every rank made its part? */
static mr_status exchange_outcomes(struct split *split, mr_status own, mr_error *error)
{
    struct mr_group *parent = split->parent;
    int64_t own_outcome = own;
    mr_status status = gather_numbers(split, &own_outcome, split->numbers, 1);
    if (status) {
        mr_error_copy(own ? NULL : error, mr_group_error(parent));
        return own ? own : status;
    }
    uint32_t failed_rank = find_failed_rank(split);
    if (failed_rank == parent->world_size || split->numbers[failed_rank] == own)
        return own;
    return mr_error_set(error, MR_ERR_PEER, "rank %u cannot split the group: %s",
                        parent->world_ranks[failed_rank],
                        mr_status_name((mr_status)split->numbers[failed_rank]));
}

/* Destroys the part without waiting for other ranks, which may have none. */
static void destroy_part(struct mr_group *group, const mr_error *error)
{
    if (group && group->has_threads)
        (void)mr_work_fail_group(group, error);
    else if (group && group->engine)
        group->table->destroy(group->engine, false);
    mr_group_destroy(group);
}

static mr_status make_part(struct split *split, mr_group **group_out, mr_error *error)
{
    struct mr_group *group;
    mr_status status = make_group(split, &group, error);
    if (!status)
        status = make_engine(split, group, error);
    if (!status && group && group->table) {
        mr_group_find_device(group);
        status = mr_work_threads_start(group, error);
    }
    status = exchange_outcomes(split, status, error);
    if (group)
        mr_group_keys_forget(group, true);
    if (status)
        destroy_part(group, error);
    else
        *group_out = group;
    return status;
}

static mr_status exchange_colors(struct split *split)
{
    int64_t own[N_NUMBERS] = {
        [COLOR] = split->color, [KEY] = split->key, [NODE] = split->parent->node};
    return gather_numbers(split, own, split->numbers, N_NUMBERS);
}

static mr_status split_group(struct split *split, mr_group **group_out)
{
    struct mr_group *parent = split->parent;
    mr_error error;
    split->members = calloc(parent->world_size, sizeof *split->members);
    split->numbers = calloc((size_t)parent->world_size * N_NUMBERS, sizeof *split->numbers);
    if (!split->members || !split->numbers) {
        mr_error_memory(&error, parent->world_size * sizeof *split->numbers * N_NUMBERS);
        return mr_work_fail_group(parent, &error);
    }
    mr_status status = exchange_colors(split);
    if (status)
        return status;
    find_members(split);
    status = make_part(split, group_out, &error);
    return status ? mr_work_end_group(parent, &error) : MR_OK;
}

mr_status mr_group_split(mr_group *group, uint32_t color, uint32_t key, mr_group **group_out)
{
    if (group_out)
        *group_out = NULL;
    if (!group)
        return MR_ERR_INVALID;
    mr_status status = mr_group_enter(group);
    if (status)
        return status;
    if (!group_out)
        return mr_error_set(&group->error, MR_ERR_INVALID, "group_out is NULL");
    struct split split = {.parent = group, .color = color, .key = key, .number = ++group->n_splits};
    /* the last quarter is for the final exchange */
    split.deadline_ns = mr_clock_now_ns() + group->timeout_ms * (uint64_t)MS / 4 * 3;
    status = split_group(&split, group_out);
    free(split.members);
    free(split.numbers);
    return status;
}
