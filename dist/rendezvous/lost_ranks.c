/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks that a client of the store knows to be lost: the list, and its text for errors. */
#include "dist/rendezvous/lost_ranks.h"

#include <stdlib.h>
#include <string.h>

#include "dist/rendezvous/rank_list.h"
#include "dist/rendezvous/store_greeting.h"

bool mr_lost_ranks_init(struct mr_lost_ranks *lost, uint32_t world_size)
{
    lost->n = 0;
    lost->world_size = world_size;
    lost->ranks = calloc((size_t)world_size + 1, sizeof *lost->ranks);
    lost->bits = calloc(2, world_size / 8 + 1);
    return lost->ranks && lost->bits;
}

void mr_lost_ranks_fini(struct mr_lost_ranks *lost)
{
    free(lost->ranks);
    free(lost->bits);
}

void mr_lost_ranks_add(struct mr_lost_ranks *lost, uint32_t rank, uint8_t how)
{
    for (uint32_t i = 0; i < lost->n; i++)
        if (lost->ranks[i].rank == rank)
            return;
    lost->ranks[lost->n++] = (struct mr_lost_rank){rank, how};
}

/*
 * Finds the first lost rank among those that count, and sets the bits of the further ones in the
 * second half of lost->bits. False if none is lost.
 */
static bool find_lost(struct mr_lost_ranks *lost, const uint32_t *ranks, uint32_t n,
                      struct mr_lost_rank *first_out, uint32_t *n_others_out)
{
    bool found = false;
    uint32_t n_others = 0;
    memset(lost->bits, ranks ? 0 : 0xff, lost->world_size / 8 + 1);
    for (uint32_t i = 0; i < n; i++)
        if (ranks[i] < lost->world_size)
            mr_rank_list_add(lost->bits, ranks[i]);
    uint8_t *others = lost->bits + lost->world_size / 8 + 1;
    memset(others, 0, lost->world_size / 8 + 1);
    for (uint32_t i = 0; i < lost->n; i++) {
        if (!mr_rank_list_has(lost->bits, lost->ranks[i].rank))
            continue;
        if (found)
            mr_rank_list_add(others, lost->ranks[i].rank);
        else
            *first_out = lost->ranks[i];
        n_others += found;
        found = true;
    }
    *n_others_out = n_others;
    return found;
}

bool mr_lost_ranks_describe(struct mr_lost_ranks *lost, const uint32_t *ranks, uint32_t n,
                            uint32_t silence_ms, uint32_t *rank_out, mr_error *error_out)
{
    struct mr_lost_rank first;
    uint32_t n_others;
    char list[256];
    mr_error how;
    if (!find_lost(lost, ranks, n, &first, &n_others))
        return false;
    if (rank_out)
        *rank_out = first.rank;
    mr_store_greeting_tell(first.rank, first.how, silence_ms, &how);
    mr_rank_list_spell(lost->bits + lost->world_size / 8 + 1, lost->world_size, list, sizeof list);
    if (n_others == 0)
        mr_error_copy(error_out, &how);
    else
        mr_error_set(error_out, MR_ERR_PEER, "%.300s; rank%s %s %s lost too", how.text,
                     n_others > 1 ? "s" : "", list, n_others > 1 ? "are" : "is");
    return true;
}
