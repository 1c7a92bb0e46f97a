/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A loader's cache: opened by the host, and followed by a thread that reads what others write into
 * it.
 */
#ifndef CACHE_CACHE_THREAD_H
#define CACHE_CACHE_THREAD_H

#include "cache/cache_host.h"

struct mr_cache_thread;

/*
 * Open the cache, fill region (mr_cache_host_create()) and start the thread. *thread_out stays NULL
 * with MR_OK where the dataset or the machine has no use for a cache, or the disk is too full for
 * making one; a log line says why.
 */
mr_status mr_cache_thread_start(const struct mr_cache_host_options *options,
                                const struct mr_catalog *catalog, struct mr_cache_region *region,
                                struct mr_cache_thread **thread_out, mr_error *error);
/* Ends the thread and closes the cache; after the workers. NULL does nothing. */
void mr_cache_thread_stop(struct mr_cache_thread *thread);

#endif
