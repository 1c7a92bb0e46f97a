/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of a cache: opens the directory, fills the shared region from the entries of
 * earlier runs, and keeps looking for entries that others write. Workers use cache_use.h and
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
    uint64_t budget_bytes;     /* of all segments; 0: no limit but the disk's */
    uint32_t encoding;         /* MR_PACKED_DCT, MR_PACKED_MARKED; 0: DCT or MARKED is chosen */
    uint32_t slowdown_percent; /* of a worker's time that writing may take beside idle time: 0 to
                                  100 */
    uint64_t max_file_bytes;
    struct mr_codec_limits limits;
    bool stock_jpeg; /* libjpeg alone decodes JPEGs */
};

/*
 * region: mr_cache_region_bytes(samples of the catalog) zeros, 8-aligned, that workers will see
 * too; it and catalog must outlive the cache. Before the workers begin.
 *
 * If the encoding is to be chosen, it is the one that more samples of the dataset lie in the
 * directory with; if there are none, DCT where it fits into the budget, or without one into what
 * the disk has free. A log line says so.
 *
 * MR_ERR_UNSUPPORTED where there is nothing to cache (samples that are neither image files nor
 * members of tar files) or this machine's libjpeg cannot decode what was packed: the loader goes on
 * without. MR_ERR_INVALID, MR_ERR_IO: the directory is no cache, or cannot be made or read.
 * MR_ERR_NO_MEMORY. Blocks: reads the logs, about 200 bytes for each entry.
 */
mr_status mr_cache_host_create(const struct mr_cache_host_options *options,
                               const struct mr_catalog *catalog, struct mr_cache_region *region,
                               struct mr_cache_host **cache_out, mr_error *error);
/* NULL does nothing. */
void mr_cache_host_destroy(struct mr_cache_host *cache);

/*
 * Look for new entries of other ranks and jobs and for the bytes that all take up, and log once
 * when writing has stopped. Call it about once a second, from one thread at a time.
 */
void mr_cache_host_refresh(struct mr_cache_host *cache);

/* Samples of the dataset that lie in the cache, as far as is known. Goes through all words. */
int64_t mr_cache_host_count(const struct mr_cache_host *cache);

#endif
