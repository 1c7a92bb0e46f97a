/* SPDX-License-Identifier: Apache-2.0 */
/* Epochs: begin one, and make the order of the next one in advance. */
#ifndef LOADER_EPOCH_H
#define LOADER_EPOCH_H

#include "loader/host.h"

/* With the lock held: begin the first epoch. The sampler and the slab exist. */
void mr_epoch_open(struct mr_host *host);

/* Where to begin. */
struct mr_epoch_start {
    uint64_t epoch;
    const int64_t *indices; /* the caller's own order of n indices; NULL: the sampler's order */
    int64_t n;
    uint64_t skip; /* batches that are already used */
    bool restored; /* from a saved position: using an epoch again is intended */
};

/* With the lock held: go to this start. On failure the loader stays where it was. */
mr_status mr_epoch_set(struct mr_host *host, const struct mr_epoch_start *start, mr_error *error);

/*
 * With the lock held: wait until all rows of the present epoch are counted, if documents are
 * packed. It releases the lock meanwhile.
 */
void mr_epoch_await_rows(struct mr_host *host);

/*
 * A thread's function: makes the order of the next epoch whenever it is requested, until the host
 * is closed.
 */
void mr_epoch_make_next(struct mr_host *host);

#endif
