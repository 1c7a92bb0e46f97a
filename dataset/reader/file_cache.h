/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A cache of open shards, limited by RLIMIT_NOFILE. It closes the least recently used shard first,
 * and never one in use.
 */
#ifndef DATASET_FILE_CACHE_H
#define DATASET_FILE_CACHE_H

#include "dataset/catalog.h"

struct mr_file_cache;

/*
 * Files that are not in the catalog, such as those of a cache. They have the numbers from
 * mr_catalog_n_files() on. open returns a descriptor, which its caller closes, or a negative errno;
 * number counts from 0.
 */
struct mr_other_files {
    int (*open)(void *user, uint64_t number);
    void *user;
    uint32_t max_open; /* the most of them that a reader keeps open */
};

/* The most files that one reader may keep open: a quarter of RLIMIT_NOFILE, 1 to 1024. */
uint32_t mr_file_cache_limit(void);

/*
 * Returns 0 or -ENOMEM. other: files beside those of the catalog, or NULL.
 * capacity: at least 1. catalog and other must outlive the cache.
 */
int mr_file_cache_create(const struct mr_catalog *catalog, const struct mr_other_files *other,
                         uint32_t capacity, struct mr_file_cache **cache_out);
/* Closes all files. NULL does nothing. */
void mr_file_cache_destroy(struct mr_file_cache *cache);

/*
 * Open a file, or find it open. It stays open until it has been released as often as it was
 * acquired.
 * Returns the descriptor; -EBUSY if the cache is full of files in use; else as
 * mr_file_cache_open().
 */
int mr_file_cache_acquire(struct mr_file_cache *cache, uint64_t file);
void mr_file_cache_release(struct mr_file_cache *cache, uint64_t file);

/* An open file, mapped for reading. A byte beyond the file's end raises SIGBUS when it is read. */
struct mr_file_map {
    int fd;
    const uint8_t *bytes;
    uint64_t len; /* of the file when it was mapped */
};

/*
 * Map an open file, which stays mapped while it is open. *map_out is valid until the next call for
 * this cache. Returns false if the file is not open: where shards are opened and closed all the
 * time, none is mapped for one read. Also false if it cannot be mapped, or too much is.
 */
bool mr_file_cache_map(struct mr_file_cache *cache, uint64_t file, struct mr_file_map *map_out);

/* Open a file of the catalog or another one outside the cache; as mr_file_cache_open(). */
int mr_file_cache_open_apart(const struct mr_file_cache *cache, uint64_t file, uint64_t *size_out);

/* Close the least recently used file that is not in use. Returns false if there is none. */
bool mr_file_cache_shed(struct mr_file_cache *cache);

uint32_t mr_file_cache_n_open(const struct mr_file_cache *cache);

/*
 * Open a regular file of the catalog for reading, outside any cache. It never blocks on a fifo.
 * Returns a descriptor that the caller closes, with the size in bytes in *size_out (may be NULL),
 * or a negative errno: -EISDIR for a directory, -ENXIO for anything else that is not a regular
 * file, -ESTALE if the file is not the one that the catalog was made from.
 */
int mr_file_cache_open(const struct mr_catalog *catalog, uint64_t file, uint64_t *size_out);

/* A hash of the size and modification time of a file. If it differs, the file has changed. */
uint64_t mr_file_cache_stamp(const struct stat *st);

#endif
