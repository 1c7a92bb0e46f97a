/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's part in filling a cache: which missing samples it has met, and when it may pack one.
 * One object per worker.
 */
#ifndef CACHE_CACHE_FILL_H
#define CACHE_CACHE_FILL_H

#include "dataset/catalog.h"
#include "dataset/reader/reader.h"
#include "cache/cache_region.h"

struct mr_cache_fill;

/*
 * MR_ERR_IO if the directory cannot be opened; MR_ERR_NO_MEMORY. region and catalog must outlive
 * the object.
 */
mr_status mr_cache_fill_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                               struct mr_cache_fill **fill_out, mr_error *error);
/* NULL does nothing. */
void mr_cache_fill_destroy(struct mr_cache_fill *fill);

/*
 * Report that a sample was made from its file, so the file is probably in the page cache. If the
 * cache lacks the sample, it is remembered.
 */
void mr_cache_fill_met(struct mr_cache_fill *fill, int64_t index);

/*
 * True if the sample, which is at a URL, should be read whole, with its marks, and given to
 * mr_cache_fill_keep().
 */
bool mr_cache_fill_wants(const struct mr_cache_fill *fill, int64_t index);
/*
 * Add a sample at a URL that was read whole and decoded. It is packed at once, whatever the share
 * of time is, so it is never requested again. What cannot be packed or marked is kept as it is.
 */
void mr_cache_fill_keep(struct mr_cache_fill *fill, int64_t index, const struct mr_read *read);

/*
 * Report worked_ns of work since the last call. Packs at most one remembered sample, if the share
 * of time for packing allows it. True if it packed one. Blocks: for one sample, a few milliseconds.
 */
bool mr_cache_fill_worked(struct mr_cache_fill *fill, uint64_t worked_ns);

/*
 * Report that the worker is idle. Packs at most one sample, without counting the time. False if
 * there is nothing to pack.
 */
bool mr_cache_fill_idle(struct mr_cache_fill *fill);

#endif
