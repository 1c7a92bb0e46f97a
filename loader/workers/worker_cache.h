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
 * NULL if region is NULL or its directory does not exist any more. The arguments must outlive the
 * object.
 */
struct mr_worker_cache *mr_worker_cache_create(struct mr_cache_region *region,
                                               const struct mr_catalog *catalog,
                                               struct mr_plan_runner *runner);
void mr_worker_cache_destroy(struct mr_worker_cache *cache);

enum mr_worker_cache_has {
    MR_WORKER_CACHE_NOTHING, /* read the file */
    /* the bytes that the candidate's draws need; the system was asked to read them ahead */
    MR_WORKER_CACHE_SAMPLE,
    MR_WORKER_CACHE_MARKS, /* the marks of its file; read a range of the file */
};

/*
 * What does the cache have of the candidate? With MARKS, sets the range, and the file's version in
 * the job.
 */
enum mr_worker_cache_has mr_worker_cache_prefetch(struct mr_worker_cache *cache,
                                                  struct mr_sample_job *job, uint64_t *offset_out,
                                                  uint64_t *len_out);

/*
 * Take the candidate's bytes and label. fetched_out is valid until the next call. read is the range
 * that the marks have led to; NULL without marks. False: read the file.
 */
bool mr_worker_cache_take(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                          const struct mr_read *read, void *label_out,
                          struct mr_fetched *fetched_out);
/* Drop an entry that could not be decoded. */
void mr_worker_cache_drop(struct mr_worker_cache *cache, int64_t index);

/* Record that the sample was made from its file. */
void mr_worker_cache_met(struct mr_worker_cache *cache, int64_t index);
/*
 * Pack a recorded sample, after worked_ns of work or when there is no work. True if one was
 * handled.
 */
bool mr_worker_cache_fill(struct mr_worker_cache *cache, uint64_t worked_ns);
bool mr_worker_cache_fill_idle(struct mr_worker_cache *cache);

#endif
