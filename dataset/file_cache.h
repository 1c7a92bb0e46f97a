/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Open shards, bounded by RLIMIT_NOFILE: the least recently used one is closed first, one in use
 * never.
 */
#ifndef DATASET_FILE_CACHE_H
#define DATASET_FILE_CACHE_H

#include "dataset/catalog.h"

struct mr_file_cache;

/* Files that one reader may keep open: a quarter of RLIMIT_NOFILE, 1 to 1024. */
uint32_t mr_file_cache_limit(void);

/* Returns 0 or -ENOMEM. capacity: at least 1. catalog must outlive the cache. */
int mr_file_cache_create(const struct mr_catalog *catalog, uint32_t capacity,
                         struct mr_file_cache **cache_out);
/* Closes all files. NULL does nothing. */
void mr_file_cache_destroy(struct mr_file_cache *cache);

/*
 * The descriptor of a file, opened if need be, which stays open until as many releases have
 * followed.
 * Returns the descriptor; -EBUSY when every place is in use; else as mr_file_cache_open().
 */
int mr_file_cache_acquire(struct mr_file_cache *cache, uint64_t file);
void mr_file_cache_release(struct mr_file_cache *cache, uint64_t file);

/* Close the least recently used file that is not in use. Returns false when there is none. */
bool mr_file_cache_shed(struct mr_file_cache *cache);

uint32_t mr_file_cache_n_open(const struct mr_file_cache *cache);

/*
 * Open a regular file of the catalog for reading, outside of any cache. It never blocks on a fifo.
 * Returns a descriptor of the caller's, with *size_out (may be NULL) in bytes, or a negative errno:
 * -EISDIR for a directory, -ENXIO for anything else that is not a regular file, -ESTALE for a file
 * that the catalog was not made of.
 */
int mr_file_cache_open(const struct mr_catalog *catalog, uint64_t file, uint64_t *size_out);

/* Of a file's size and time of change: another one shows that the file is another. */
uint64_t mr_file_cache_stamp(const struct stat *st);

#endif
