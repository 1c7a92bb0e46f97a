/* SPDX-License-Identifier: Apache-2.0 */
/* A group's memory, its ranks, and which of them have left it or broke. */
#include "dist/group/group.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"

#define MS 1000000u                  /* ns */
#define ASK_NS (UINT64_C(300) * MS)  /* for the text of an error */
#define SAY_NS (UINT64_C(1000) * MS) /* for a goodbye */
#define LEFT_PER_KEY 32u             /* ranks per number */

static mr_status fail_child(struct mr_group *group)
{
    return mr_error_set(&group->error, MR_ERR_STATE, "a group cannot be used in a forked child");
}

mr_status mr_group_enter(struct mr_group *group)
{
    if (group->pid != getpid())
        return fail_child(group);
    pthread_mutex_lock(&group->lock);
    mr_status status = group->is_dead ? (mr_status)group->dead.status : MR_OK;
    if (status)
        group->error = group->dead;
    pthread_mutex_unlock(&group->lock);
    return status;
}

bool mr_group_on_device(const struct mr_group *group)
{
    return group && group->device_works;
}

void mr_group_find_device(struct mr_group *group)
{
    if (!group->table || !group->table->device)
        return;
    group->ordinal = group->table->device->ordinal(group->engine);
    snprintf(group->device, sizeof group->device, "cuda:%d", (int)group->ordinal);
}

bool mr_group_broken(struct mr_group *group, mr_error *error_out)
{
    return mr_group_client(group) && mr_store_broken_of(mr_group_client(group), group->world_ranks,
                                                        group->world_size, NULL, error_out);
}

/* The key of a number in the store; its bits are the ranks that have left. */
static void format_left_key(const struct mr_group *group, uint32_t rank,
                            char key_out[MR_STORE_KEY + 1])
{
    snprintf(key_out, MR_STORE_KEY + 1, "%sleft/%u", group->prefix, rank / LEFT_PER_KEY);
}

void mr_group_left(struct mr_group *group, char words_out[MR_COLLECTIVE_WORDS])
{
    char key[MR_STORE_KEY + 1];
    char ranks[MR_COLLECTIVE_WORDS - 40] = "";
    uint32_t n = 0;
    for (uint32_t r = 0; r < group->world_size && mr_group_client(group); r += LEFT_PER_KEY) {
        int64_t bits = 0;
        format_left_key(group, r, key);
        if (mr_store_add_until(mr_group_client(group), key, 0, &bits, mr_clock_now_ns() + ASK_NS,
                               NULL))
            break;
        for (uint32_t bit = 0; bit < LEFT_PER_KEY && r + bit < group->world_size; bit++) {
            size_t len = strlen(ranks);
            if (bits >> bit & 1)
                snprintf(ranks + len, sizeof ranks - len, "%s%u", n++ ? ", " : "",
                         group->world_ranks[r + bit]);
        }
    }
    words_out[0] = '\0';
    if (n > 0)
        snprintf(words_out, MR_COLLECTIVE_WORDS,
                 n > 1 ? "ranks %s have left the group" : "rank %s has left the group", ranks);
}

/*
 * If it fails, the connection is broken, and the other ranks see that. In a group that was split
 * off, the last rank of each key removes it.
 */
bool mr_group_say_left(struct mr_group *group)
{
    char key[MR_STORE_KEY + 1];
    int64_t bits = 0;
    uint32_t first = group->rank / LEFT_PER_KEY * LEFT_PER_KEY;
    uint32_t n =
        group->world_size - first < LEFT_PER_KEY ? group->world_size - first : LEFT_PER_KEY;
    format_left_key(group, group->rank, key);
    if (!mr_group_client(group) ||
        mr_store_add_until(mr_group_client(group), key, (int64_t)1 << (group->rank - first), &bits,
                           mr_clock_now_ns() + SAY_NS, NULL))
        return false;
    if (strcmp(group->prefix, MR_GROUP_WHOLE_PREFIX) != 0 && bits == ((int64_t)1 << n) - 1)
        (void)mr_store_remove(mr_group_client(group), key, NULL);
    return true;
}

static void free_group(struct mr_group *group)
{
    pthread_cond_destroy(&group->changed);
    pthread_cond_destroy(&group->ended);
    pthread_cond_destroy(&group->quit);
    pthread_mutex_destroy(&group->lock);
    free(group->world_ranks);
    free(group->n_sent);
    free(group->n_received);
    free(group->device_works);
    free(group);
}

void mr_group_drop(struct mr_group *group)
{
    pthread_mutex_lock(&group->lock);
    bool is_last = --group->n_references == 0;
    pthread_mutex_unlock(&group->lock);
    if (is_last)
        free_group(group);
}

static void init_locks(struct mr_group *group)
{
    pthread_condattr_t monotonic;
    pthread_condattr_init(&monotonic);
    pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
    pthread_mutex_init(&group->lock, NULL);
    pthread_cond_init(&group->changed, &monotonic);
    pthread_cond_init(&group->ended, &monotonic);
    pthread_cond_init(&group->quit, &monotonic);
    pthread_condattr_destroy(&monotonic);
}

mr_status mr_group_new(struct mr_group_home *home, uint32_t rank, uint32_t world_size,
                       struct mr_group **group_out, mr_error *error)
{
    struct mr_group *group = calloc(1, sizeof *group);
    *group_out = NULL;
    if (!group)
        return mr_error_memory(error, sizeof *group);
    init_locks(group);
    group->n_references = 1;
    group->rank = rank;
    group->world_size = world_size;
    group->local_world_size = 1;
    group->pid = getpid();
    group->home = home;
    group->world_ranks = calloc(world_size, sizeof *group->world_ranks);
    group->n_sent = calloc(world_size, sizeof *group->n_sent);
    group->n_received = calloc(world_size, sizeof *group->n_received);
    snprintf(group->backend, sizeof group->backend, "none");
    if (!group->world_ranks || !group->n_sent || !group->n_received) {
        free_group(group);
        return mr_error_memory(error, world_size * sizeof *group->n_sent);
    }
    *group_out = group;
    return MR_OK;
}

uint32_t mr_group_rank(const mr_group *group)
{
    return group ? group->rank : 0;
}

uint32_t mr_group_world_size(const mr_group *group)
{
    return group ? group->world_size : 1;
}

uint32_t mr_group_local_rank(const mr_group *group)
{
    return group ? group->local_rank : 0;
}

uint32_t mr_group_local_world_size(const mr_group *group)
{
    return group ? group->local_world_size : 1;
}

uint32_t mr_group_node(const mr_group *group)
{
    return group ? group->node : 0;
}

const char *mr_group_backend(const mr_group *group)
{
    return group ? group->backend : "none";
}

const mr_error *mr_group_error(const mr_group *group)
{
    return group ? &group->error : mr_error_null_handle();
}
