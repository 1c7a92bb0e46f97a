/* SPDX-License-Identifier: Apache-2.0 */
/* Lent batches, as the loader uses them. <millrace/batch.h> has the functions for the program. */
#ifndef LOADER_BATCH_H
#define LOADER_BATCH_H

#include "loader/host.h"

/*
 * Declare the columns of a host's batches (columns.c): plan is the workers' of the first view,
 * mixed those of all views' finished rows. The form of the samples is host->image. MR_ERR_INVALID
 * names an array that has the name of another one.
 */
mr_status mr_columns_declare(const struct mr_host *host, const struct mr_plan *plan,
                             const struct mr_plan *mixed, uint32_t n_views,
                             struct mr_columns *columns_out, mr_error *error);

/* Make the batches of a host. Its options, placement and slab are set. */
mr_status mr_batch_make_all(struct mr_host *host, mr_error *error);
/*
 * Copy the slot's book into the batch, and move the rows of byte arrays together. Once per batch.
 */
void mr_batch_describe(struct mr_batch *batch, uint32_t slot);
/* With the lock held: lend it. Fills in its arrays and takes a reference to the host. */
void mr_batch_lend(struct mr_batch *batch);
/* mr_batch_use() for one array of the batch: a NULL stream is the default stream of its device. */
mr_status mr_batch_use_array(mr_batch *batch, const mr_array *array, void *stream);
/* Add a hold on the whole lent batch. Each hold is ended by one mr_batch_release(). */
void mr_batch_retain(mr_batch *batch);
/*
 * mr_batch_release() for a caller that cannot retry: if a capture forbids the release now, the next
 * mr_loader_next() makes it.
 */
void mr_batch_release_or_defer(mr_batch *batch);
/* Poll interval while releases are deferred: the end of a capture wakes no waiter. */
#define MR_OWED_NAP_MS 10u
/* Retry the deferred releases. */
void mr_batch_retry_deferred(struct mr_host *host);
/* MR_ERR_STATE, with the batch's error set, in a forked child. */
mr_status mr_batch_check_process(mr_batch *batch);
/* Free a copy made by mr_batch_copy(), after its last hold has ended. */
void mr_batch_free_copy(struct mr_batch *batch);
/* The batch that this one is a part of. */
mr_batch *mr_batch_whole(mr_batch *batch);

#endif
