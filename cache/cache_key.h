/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a cache entry: the file's absolute path, its size and its time of modification; of an
 * image in a tar shard these of the shard, and its place in it. Also the way back from a key's hash
 * to the samples of a dataset.
 */
#ifndef CACHE_CACHE_KEY_H
#define CACHE_CACHE_KEY_H

#include "dataset/catalog.h"

/*
 * Can this dataset be cached? Yes, if its samples are encoded images, in files of their own or in
 * tar shards.
 */
bool mr_cache_key_suits(const struct mr_catalog *catalog);

/* False where a path is too long. */
bool mr_cache_key_hash(const struct mr_catalog *catalog, int64_t index, uint64_t *hash_out);

struct mr_cache_version {
    uint64_t file_bytes;
    int64_t mtime_ns;
    int64_t ctime_ns; /* of its last change, of name and rights too; not part of the key */
};

/*
 * The sample's file, and how it was when it was looked at. Returns 0 or a negative errno: -EINVAL
 * for what is no regular file.
 */
int mr_cache_key_stat(const struct mr_catalog *catalog, int64_t index,
                      struct mr_cache_version *version_out);
int mr_cache_key_fstat(int fd, struct mr_cache_version *version_out);

/* Where the image lies in a file of this version: all of it, or a member of a shard. */
struct mr_cache_range {
    uint64_t file; /* number for mr_catalog_path() */
    uint64_t offset;
    uint64_t len;
};
struct mr_cache_range mr_cache_key_range(const struct mr_catalog *catalog, int64_t index,
                                         const struct mr_cache_version *version);

/* Hashes of all samples, sorted; a path that is in a list twice is here twice. */
struct mr_cache_map {
    struct mr_cache_spot {
        uint64_t hash;
        int64_t index;
    } * spots;
    size_t n;
};

mr_status mr_cache_key_map(const struct mr_catalog *catalog, struct mr_cache_map *map_out,
                           mr_error *error);
void mr_cache_key_free_map(struct mr_cache_map *map);

/* The first spot with this hash, which the others follow; n if there is none. */
size_t mr_cache_key_find(const struct mr_cache_map *map, uint64_t hash);

#endif
