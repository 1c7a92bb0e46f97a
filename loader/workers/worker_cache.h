/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's side of the cache: takes samples from it in place of their files, and packs samples into it. If there is
 * no cache the object is NULL, and every call does nothing.
 */
#ifndef LOADER_WORKERS_WORKER_CACHE_H
#define LOADER_WORKERS_WORKER_CACHE_H

#include "cache/cache_region.h"
#include "loader/workers/sample_fetch.h"
#include "loader/workers/sample_job.h"

struct mr_worker_cache;

/* region NULL, or a directory that is not there any more: NULL. What is passed must outlive the object. */
struct mr_worker_cache *mr_worker_cache_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                                               struct mr_pixels *pixels);
void mr_worker_cache_destroy(struct mr_worker_cache *cache);

/* Is the candidate there? Then the system is asked to read ahead the bytes that its draws need. */
bool mr_worker_cache_prefetch(struct mr_worker_cache *cache, const struct mr_sample_job *job);

/* The candidate's bytes and label; fetched_out is valid until the next call. False: read the file. */
bool mr_worker_cache_take(struct mr_worker_cache *cache, const struct mr_sample_job *job, void *label_out,
                          struct mr_fetched *fetched_out);
/* What was taken could not be decoded. */
void mr_worker_cache_drop(struct mr_worker_cache *cache, int64_t index);

/* The sample was made from its file. */
void mr_worker_cache_met(struct mr_worker_cache *cache, int64_t index);
/* After so much work, and when there is none: pack a sample that was met. True when one was dealt with. */
bool mr_worker_cache_fill(struct mr_worker_cache *cache, uint64_t worked_ns);
bool mr_worker_cache_fill_idle(struct mr_worker_cache *cache);

#endif
