/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The part of a cache in the host: opens the directory, fills the shared region from the entries of
 * earlier runs, and follows the entries that other processes write. Workers use cache_use.h and
 * cache_fill.h.
 */
#ifndef CACHE_CACHE_HOST_H
#define CACHE_CACHE_HOST_H

#include "base/error.h"
#include "cache/cache_region.h"

struct mr_cache_host;
struct mr_catalog;

struct mr_cache_host_options {
    const char *dir;
    uint64_t budget_bytes;     /* limit for all segments; 0: only the disk limits them */
    uint32_t encoding;         /* MR_PACKED_DCT or MR_PACKED_MARKED; 0: the host chooses one. Of a
                                  pack, samples are kept as they are */
    uint32_t slowdown_percent; /* share of the time of a worker that writing may take, besides idle
                                  time: 0 to 100 */
    uint64_t max_file_bytes;
    struct mr_codec_limits limits;
    bool stock_jpeg; /* libjpeg alone decodes JPEGs */
};

/*
 * Open a cache, before the workers start. region: mr_cache_region_bytes(samples of the catalog)
 * zeros, 8-aligned, which workers will see too. region and catalog must outlive the cache.
 *
 * With encoding 0, the host chooses the encoding that more samples of the dataset have in the
 * directory. If the directory has none, it chooses DCT if the coefficients fit into the budget, or,
 * without a budget, into the free space of the disk. It logs the choice.
 *
 * MR_ERR_UNSUPPORTED if there is nothing to cache (samples that are neither image files nor members
 * of tar files) or the libjpeg of this machine cannot decode packed images; the loader then
 * continues without a cache. MR_ERR_INVALID, MR_ERR_IO: the directory is not a cache, or cannot be
 * created or read. MR_ERR_NO_MEMORY. Blocks: reads the logs, about 200 bytes per entry.
 */
mr_status mr_cache_host_create(const struct mr_cache_host_options *options,
                               const struct mr_catalog *catalog, struct mr_cache_region *region,
                               struct mr_cache_host **cache_out, mr_error *error);
/* NULL does nothing. */
void mr_cache_host_destroy(struct mr_cache_host *cache);

/*
 * Find new entries of other ranks and jobs, update the total size, and log once when writing has
 * stopped. Call it about once a second, from one thread at a time.
 */
void mr_cache_host_refresh(struct mr_cache_host *cache);

#endif
