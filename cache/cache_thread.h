/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache of a loader: opened by the host, and followed by a thread that reads what other
 * processes write into it.
 */
#ifndef CACHE_CACHE_THREAD_H
#define CACHE_CACHE_THREAD_H

#include "cache/cache_host.h"

struct mr_cache_thread;

/*
 * Open the cache, fill region (mr_cache_host_create()) and start the thread. Returns MR_OK with
 * *thread_out NULL if the dataset or the machine cannot use a cache, or the disk is too full to
 * create one; a log line says why.
 */
mr_status mr_cache_thread_start(const struct mr_cache_host_options *options,
                                const struct mr_catalog *catalog, struct mr_cache_region *region,
                                struct mr_cache_thread **thread_out, mr_error *error);
/*
 * Stops the thread and closes the cache. Call it after the workers have ended. NULL does nothing.
 */
void mr_cache_thread_stop(struct mr_cache_thread *thread);

#endif
