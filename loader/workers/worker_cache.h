/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's side of the cache: takes samples from it in place of their files, and packs samples
 * into it. If there is no cache the object is NULL, and every call does nothing.
 */
#ifndef LOADER_WORKERS_WORKER_CACHE_H
#define LOADER_WORKERS_WORKER_CACHE_H

#include "cache/cache_region.h"
#include "loader/workers/sample_fetch.h"
#include "loader/workers/sample_job.h"

struct mr_worker_cache;

/*
 * region NULL, or a directory that is not there any more: NULL. What is passed must outlive the
 * object.
 */
struct mr_worker_cache *mr_worker_cache_create(struct mr_cache_region *region,
                                               const struct mr_catalog *catalog,
                                               struct mr_plan_runner *runner);
void mr_worker_cache_destroy(struct mr_worker_cache *cache);

enum mr_worker_cache_has {
    MR_WORKER_CACHE_NOTHING, /* the file is to be read */
    MR_WORKER_CACHE_SAMPLE,  /* the bytes that the candidate's draws need; the system is asked to
                                read them ahead */
    MR_WORKER_CACHE_MARKS,   /* those of its file, of which a range is to be read */
};

/* What of the candidate is there? MARKS: sets the range, and in the job the version of the file. */
enum mr_worker_cache_has mr_worker_cache_prefetch(struct mr_worker_cache *cache,
                                                  struct mr_sample_job *job, uint64_t *offset_out,
                                                  uint64_t *len_out);

/*
 * The candidate's bytes and label; fetched_out is valid until the next call. read: the range that
 * was read by the file's marks, NULL where there was none. False: read the file.
 */
bool mr_worker_cache_take(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                          const struct mr_read *read, void *label_out,
                          struct mr_fetched *fetched_out);
/* What was taken could not be decoded. */
void mr_worker_cache_drop(struct mr_worker_cache *cache, int64_t index);

/* The sample was made from its file. */
void mr_worker_cache_met(struct mr_worker_cache *cache, int64_t index);
/*
 * After so much work, and when there is none: pack a sample that was met. True when one was dealt
 * with.
 */
bool mr_worker_cache_fill(struct mr_worker_cache *cache, uint64_t worked_ns);
bool mr_worker_cache_fill_idle(struct mr_worker_cache *cache);

#endif
