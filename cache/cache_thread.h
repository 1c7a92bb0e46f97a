/* SPDX-License-Identifier: Apache-2.0 */
/* The cache of a loader: what the host opens, and a thread that follows what others write into it. */
#ifndef CACHE_CACHE_THREAD_H
#define CACHE_CACHE_THREAD_H

#include "cache/cache_host.h"

struct mr_caching;

/*
 * Open the cache, fill region (mr_cache_create()) and start the thread. *caching_out stays NULL with MR_OK where the
 * dataset or the machine has no use for a cache, or the disk is too full for making one; a log line says why.
 */
mr_status mr_caching_start(const struct mr_cache_options *options, const struct mr_catalog *catalog,
                           struct mr_cache_region *region, struct mr_caching **caching_out, mr_error *error);
/* Ends the thread and closes the cache; after the workers. NULL does nothing. */
void mr_caching_stop(struct mr_caching *caching);

#endif
