/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's side of the cache: takes samples from the cache in place of their files, and packs
 * samples into it. If there is no cache, the object is NULL, and every call does nothing.
 */
#ifndef LOADER_WORKERS_WORKER_CACHE_H
#define LOADER_WORKERS_WORKER_CACHE_H

#include "cache/cache_region.h"
#include "loader/workers/sample_fetch.h"
#include "loader/workers/sample_job.h"

struct mr_worker_cache;

/*
 * NULL if region is NULL or its directory does not exist any more. n_tags: as of jobs. The
 * arguments must outlive the object.
 */
struct mr_worker_cache *mr_worker_cache_create(struct mr_cache_region *region, uint32_t n_tags,
                                               const struct mr_sample_source *source);
void mr_worker_cache_destroy(struct mr_worker_cache *cache);

/* The files of the cache, for the worker's reader; NULL without a cache. */
const struct mr_other_files *mr_worker_cache_files(const struct mr_worker_cache *cache);

/*
 * If the cache has the candidate, list the parts that its draws need: the packed sample in place of
 * its file, or the marks of its file and a range of it. False: read the file.
 */
bool mr_worker_cache_list(struct mr_worker_cache *cache, struct mr_sample_job *job,
                          struct mr_part_list *list_out);

/*
 * Called after the read of these parts: are the bytes right, and was the file not changed
 * meanwhile? False: the entry is not used any more, and the file must be read.
 */
bool mr_worker_cache_check(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                           const struct mr_read *read);
/* Drop an entry that could not be decoded. */
void mr_worker_cache_drop(struct mr_worker_cache *cache, int64_t index);

/*
 * True if the sample of a pack at a URL should be read whole, because the cache would keep it.
 */
bool mr_worker_cache_wants(const struct mr_worker_cache *cache, int64_t index);
/*
 * Record that the sample was made from its file. If that is at a URL, the sample is added at once.
 */
void mr_worker_cache_met(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                         const struct mr_read *read);
/*
 * Pack a recorded sample, after worked_ns of work or when there is no work. True if one was
 * handled.
 */
bool mr_worker_cache_fill(struct mr_worker_cache *cache, uint64_t worked_ns);
bool mr_worker_cache_fill_idle(struct mr_worker_cache *cache);

#endif
