/* SPDX-License-Identifier: Apache-2.0 */
/* Reserves the slab's pages, at once or in a thread. */
#ifndef LOADER_SLAB_RESERVE_H
#define LOADER_SLAB_RESERVE_H

#include "base/thread.h"
#include "loader/host.h"

/* Reserve all pages of the slab now. */
mr_status mr_slab_reserve_now(struct mr_host *host, mr_error *error);

/*
 * Populate the slab's pages in the calling thread, which page-locks the slots next. MR_END: the
 * host was closed before all pages were populated.
 */
mr_status mr_slab_reserve_populate(struct mr_host *host, mr_error *error);

/*
 * Reserve the slab's pages in a thread of the lowest priority, which does not delay the first
 * batch. A failure ends the loader. The thread ends early if the host is closed. The caller joins
 * it.
 */
mr_status mr_slab_reserve_start(struct mr_host *host, struct mr_thread *thread, mr_error *error);

#endif
