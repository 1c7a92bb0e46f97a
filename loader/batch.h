/* SPDX-License-Identifier: Apache-2.0 */
/* Lent batches, from the loader's side; <millrace/batch.h> has what the program calls. */
#ifndef LOADER_BATCH_H
#define LOADER_BATCH_H

#include "loader/host.h"

/* Make the batches of a host whose options, placement and slab are known. */
mr_status mr_batch_make_all(struct mr_host *host, mr_error *error);
/*
 * Copy what the slot's book says of its batch, and move rows of byte arrays together: once per
 * batch.
 */
void mr_batch_describe(struct mr_batch *batch, uint32_t slot);
/* With the lock held: lend it. Its arrays are filled in, and it holds the host. */
void mr_batch_lend(struct mr_batch *batch);
/*
 * mr_batch_use(), but NULL is the default stream of the device of this array, which is one of the
 * batch's.
 */
mr_status mr_batch_use_array(mr_batch *batch, const mr_array *array, void *stream);
/* A further hold on the whole lent batch; each is ended by one mr_batch_release(). */
void mr_batch_retain(mr_batch *batch);
/*
 * mr_batch_release() for a caller that cannot try again: if a capture forbids it now, the next
 * mr_loader_next() does it.
 */
void mr_batch_release_or_defer(mr_batch *batch);
/*
 * While something is owed, who waits looks again after so long: the end of a capture wakes nobody.
 */
#define MR_OWED_NAP_MS 10u
/* Try to give back what is owed. */
void mr_batch_retry_deferred(struct mr_host *host);
/* MR_ERR_STATE with words in a forked child. */
mr_status mr_batch_check_process(mr_batch *batch);
/* Free what mr_batch_copy() made; its last hold has ended. */
void mr_batch_free_copy(struct mr_batch *batch);
/* The batch that this is a part of. */
mr_batch *mr_batch_whole(mr_batch *batch);

#endif
