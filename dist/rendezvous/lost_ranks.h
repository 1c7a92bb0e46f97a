/* SPDX-License-Identifier: Apache-2.0 */
/* The ranks that a client of the store knows to be lost. The caller holds the client's lock. */
#ifndef DIST_RENDEZVOUS_LOST_RANKS_H
#define DIST_RENDEZVOUS_LOST_RANKS_H

#include "base/error.h"

#include <stdbool.h>

struct mr_lost_rank {
    uint32_t rank;
    uint8_t how; /* enum mr_store_code */
};

struct mr_lost_ranks {
    uint32_t world_size;
    uint32_t n;
    struct mr_lost_rank *ranks; /* in the order of the reports; room for all ranks */
    uint8_t *bits;              /* two sets of ranks, for mr_lost_ranks_describe() */
};

/* False if there is no memory. Call fini in any case. */
bool mr_lost_ranks_init(struct mr_lost_ranks *lost, uint32_t world_size);
void mr_lost_ranks_fini(struct mr_lost_ranks *lost);
/* Does nothing if the rank is already in the list. */
void mr_lost_ranks_add(struct mr_lost_ranks *lost, uint32_t rank, uint8_t how);
/*
 * The first lost rank of these n ranks (of all if ranks is NULL), and how it was lost. The text
 * lists the further lost ones. False if none is lost. rank_out may be NULL.
 */
bool mr_lost_ranks_describe(struct mr_lost_ranks *lost, const uint32_t *ranks, uint32_t n,
                            uint32_t silence_ms, uint32_t *rank_out, mr_error *error_out);

#endif
