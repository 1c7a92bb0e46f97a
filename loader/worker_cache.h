/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's cache, if there is one: samples that it takes from there in place of their files, and samples that it
 * packs for later. Every call takes NULL for no cache, and does nothing then.
 */
#ifndef LOADER_WORKER_CACHE_H
#define LOADER_WORKER_CACHE_H

#include "cache/cache_region.h"
#include "loader/sample_fetch.h"

struct mr_cached;

/* region NULL, or a directory that is not there any more: NULL. What is passed must outlive the object. */
struct mr_cached *mr_cached_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                                   struct mr_pixels *pixels);
void mr_cached_destroy(struct mr_cached *cached);

/* Is the sample there? Then the system is told which bytes these draws will need. */
bool mr_cached_prefetch(struct mr_cached *cached, int64_t index, const struct mr_rng *rng);

/* The sample with its label, for these draws; material_out is valid until the next call. False: read the file. */
bool mr_cached_take(struct mr_cached *cached, int64_t index, const struct mr_rng *rng, void *label_out,
                    struct mr_material *material_out);
/* What was taken could not be decoded. */
void mr_cached_drop(struct mr_cached *cached, int64_t index);

/* The sample was made from its file. */
void mr_cached_met(struct mr_cached *cached, int64_t index);
/* After so much work, and when there is none: pack a sample that was met. True when one was dealt with. */
bool mr_cached_fill(struct mr_cached *cached, uint64_t worked_ns);
bool mr_cached_fill_idle(struct mr_cached *cached);

#endif
