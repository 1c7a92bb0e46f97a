/* SPDX-License-Identifier: Apache-2.0 */
/* Epochs: begin one, and make the order of the next one ahead of time. */
#ifndef LOADER_EPOCH_H
#define LOADER_EPOCH_H

#include "loader/host.h"

/* With the lock held: begin with the first epoch, once the samplers and the slab are there. */
void mr_epoch_open(struct mr_host *host);

/* Where to begin. */
struct mr_epoch_start {
    uint64_t epoch;
    const int64_t *indices; /* an order of the caller's own, n of them; NULL: the sampler's */
    int64_t n;
    uint64_t skip; /* batches that were used already */
    bool restored; /* from a saved position: using an epoch again is meant */
};

/* With the lock held: go there. On failure the loader stays where it was. */
mr_status mr_epoch_set(struct mr_host *host, const struct mr_epoch_start *start, mr_error *error);

/*
 * The body of a thread: makes the order of the next epoch whenever that is wanted, until the host
 * is closed.
 */
void mr_epoch_make_next(struct mr_host *host);

#endif
