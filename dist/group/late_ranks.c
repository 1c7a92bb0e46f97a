/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A rank that is in a collective for longer than a moment notes the collective's number in the
 * store. A fast collective therefore costs nothing. If one times out, the ranks with a lower number
 * are those that it waited for.
 *
 * A rank may have completed its part and moved on, as the root of a broadcast does. If it then
 * waits in a later collective, its number is higher. If it does not, it counts as late.
 */
#include "dist/group/late_ranks.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "dist/rendezvous/rank_list.h"

#define MS UINT64_C(1000000) /* ns */
#define ASK_MS 300           /* for an answer from the store */
#define WAIT_MS 400          /* for the note of a rank that joins at the last moment */
#define PAUSE_MS 20

static bool is_message(const struct mr_collective *c)
{
    return c->kind == MR_COLLECTIVE_SEND || c->kind == MR_COLLECTIVE_RECV;
}

static void format_key(const struct mr_group *group, uint32_t rank, char key_out[MR_STORE_KEY + 1])
{
    snprintf(key_out, MR_STORE_KEY + 1, "%sin/%u", group->prefix, rank);
}

static mr_status add_number(struct mr_group *group, uint32_t rank, uint64_t delta,
                            int64_t *number_out)
{
    char key[MR_STORE_KEY + 1];
    format_key(group, rank, key);
    return mr_store_add_until(mr_group_client(group), key, (int64_t)delta, number_out,
                              mr_clock_now_ns() + ASK_MS * MS, NULL);
}

void mr_late_ranks_note(struct mr_group *group, const struct mr_collective *c)
{
    int64_t unused;
    if (!mr_group_client(group) || is_message(c))
        return;
    pthread_mutex_lock(&group->lock);
    uint64_t before = group->noted;
    if (group->noted < c->number)
        group->noted = c->number;
    pthread_mutex_unlock(&group->lock);
    if (before < c->number)
        (void)add_number(group, group->rank, c->number - before, &unused);
}

/* Waits until the rank has noted this collective or a later one, or the time is over. */
static mr_status wait_for_note(struct mr_group *group, uint32_t rank, uint64_t number,
                               uint64_t until_ns, bool *has_joined_out)
{
    for (;;) {
        int64_t at = 0;
        mr_status status = add_number(group, rank, 0, &at);
        *has_joined_out = at >= 0 && (uint64_t)at >= number;
        if (status != MR_OK || *has_joined_out || mr_clock_now_ns() >= until_ns)
            return status;
        mr_clock_sleep_ms(PAUSE_MS);
    }
}

void mr_late_ranks_name(struct mr_group *group, const struct mr_collective *c,
                        char words_out[MR_COLLECTIVE_WORDS])
{
    char list[MR_COLLECTIVE_WORDS - 40];
    uint64_t until_ns = mr_clock_now_ns() + WAIT_MS * MS;
    uint32_t n = group->home->rendezvous.who.world_size, n_late = 0;
    words_out[0] = '\0';
    uint8_t *late = mr_group_client(group) && !is_message(c) ? calloc(1, n / 8 + 1) : NULL;
    mr_status status = late ? MR_OK : MR_ERR_NO_MEMORY;
    for (uint32_t r = 0; r < group->world_size && status == MR_OK; r++) {
        bool has_joined = r == group->rank;
        if (!has_joined)
            status = wait_for_note(group, r, c->number, until_ns, &has_joined);
        if (status == MR_OK && !has_joined)
            mr_rank_list_add(late, group->world_ranks[r]), n_late++;
    }
    if (status == MR_OK && n_late > 0) {
        mr_rank_list_spell(late, n, list, sizeof list);
        snprintf(words_out, MR_COLLECTIVE_WORDS, "rank %s did not join", list);
    }
    free(late);
}

void mr_late_ranks_forget(struct mr_group *group)
{
    char key[MR_STORE_KEY + 1];
    format_key(group, group->rank, key);
    if (mr_group_client(group) && group->noted > 0)
        (void)mr_store_remove(mr_group_client(group), key, NULL);
}
