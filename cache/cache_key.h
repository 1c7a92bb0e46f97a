/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The key of a cache entry: the absolute path of the file, its size and its modification time. For
 * an image in a tar shard: those of the shard, and the place of the image in it. Further members of
 * the sample are part of the key in the same way. Of a file at a URL, the URL without its query
 * takes the place of the path, and the stamp of its version that of the time
 * (dataset/remote/object_stamp.h). Also finds the samples of a dataset by the hash of a key.
 */
#ifndef CACHE_CACHE_KEY_H
#define CACHE_CACHE_KEY_H

#include "dataset/catalog.h"

/*
 * True if the dataset can be cached: its samples are encoded images, in loose files or in tar
 * shards, or in a pack at a URL.
 */
bool mr_cache_key_suits(const struct mr_catalog *catalog);

/* True if the image of the sample is at a URL. */
bool mr_cache_key_is_remote(const struct mr_catalog *catalog, int64_t index);

/*
 * The hash of the key of a sample: XXH3 of the absolute path of its file and, for an image in a
 * shard, its offset and length (u64). If the samples have further members, each goes into the hash
 * after that: the hash so far (u64), then the offset and the length of the member in the shard, or
 * the path of its file, if it has one. False if a path is too long.
 */
bool mr_cache_key_hash(const struct mr_catalog *catalog, int64_t index, uint64_t *hash_out);

struct mr_cache_version {
    uint64_t file_bytes;
    int64_t mtime_ns; /* of a file at a URL: the stamp of its version */
    int64_t ctime_ns; /* time of the last change, also of its name or permissions; not part of the
                         key */
};

/*
 * The present version of the file of a sample. Returns 0 or a negative errno: -EINVAL if it is not
 * a regular file; -ENODATA if it is at a URL and only an answer of its server states the version.
 */
int mr_cache_key_stat(const struct mr_catalog *catalog, int64_t index,
                      struct mr_cache_version *version_out);
int mr_cache_key_fstat(int fd, struct mr_cache_version *version_out);
/*
 * The version of a file at a URL that was read, by the catalog, or else by the answer of its
 * server. False: neither tells versions apart.
 */
bool mr_cache_key_answered(const struct mr_catalog *catalog, uint64_t file,
                           const struct mr_object_version *answer,
                           struct mr_cache_version *version_out);

/* A short form of size and modification time; never 0. */
uint64_t mr_cache_key_stamp(const struct mr_cache_version *version);
/*
 * The stamps of the present files of the further members of a sample, or of the bytes of members in
 * the catalog; 0 for a member that is in the shard of the sample, or that does not exist;
 * MR_CACHE_STAMP_ASK for one at a URL whose version only an answer states. Returns 0 or a negative
 * errno.
 */
#define MR_CACHE_STAMP_ASK UINT64_MAX
int mr_cache_key_stamps(const struct mr_catalog *catalog, int64_t index,
                        uint64_t stamps_out[MR_MAX_MEMBERS]);

/* The bytes of the further members of a sample; of those that can be found. */
uint64_t mr_cache_key_member_bytes(const struct mr_catalog *catalog, int64_t index);

/* The range of the image in a file of this version: all of it, or a member of a shard. */
struct mr_cache_range {
    uint64_t file; /* number for mr_catalog_path() */
    uint64_t offset;
    uint64_t len;
};
struct mr_cache_range mr_cache_key_range(const struct mr_catalog *catalog, int64_t index,
                                         const struct mr_cache_version *version);

/* The hashes of all samples, sorted. A path that is twice in a list is twice in the map. */
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

/* The first spot with this hash; further spots with it follow. n if there is none. */
size_t mr_cache_key_find(const struct mr_cache_map *map, uint64_t hash);

#endif
