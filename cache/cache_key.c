/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Makes the keys of a cache. Relative paths of a dataset start from its root, so a file has the
 * same key however the dataset was named. A path through a symbolic link gives another key.
 */
#include "cache/cache_key.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/checked.h"
#include "base/xxh3.h"

bool mr_cache_key_suits(const struct mr_catalog *catalog)
{
    return catalog && mr_catalog_kind(catalog)->encoded &&
           (mr_catalog_loose_files(catalog) || mr_catalog_has_members(catalog));
}

bool mr_cache_key_hash(const struct mr_catalog *catalog, int64_t index, uint64_t *hash_out)
{
    char path[MR_CATALOG_PATH];
    char whole[2 * MR_CATALOG_PATH];
    struct mr_extent image = mr_catalog_image(catalog, index);
    if (mr_catalog_path(catalog, image.file, path) != 0)
        return false;
    const char *root = path[0] == '/' ? "" : mr_catalog_absolute_root(catalog);
    size_t root_len = strlen(root), path_len = strlen(path);
    bool slash = root_len > 0 && root[root_len - 1] != '/';
    if (root_len >= MR_CATALOG_PATH)
        return false;
    memcpy(whole, root, root_len);
    whole[root_len] = '/';
    memcpy(whole + root_len + slash, path, path_len);
    uint64_t place[2] = {image.offset, image.len};
    size_t len = root_len + slash + path_len;
    *hash_out = mr_catalog_has_members(catalog) ? mr_xxh3_pair(whole, len, place, sizeof place)
                                                : mr_xxh3(whole, len);
    return true;
}

static int64_t time_ns(struct timespec time)
{
    int64_t ns;
    if (__builtin_mul_overflow((int64_t)time.tv_sec, INT64_C(1000000000), &ns) ||
        __builtin_add_overflow(ns, (int64_t)time.tv_nsec, &ns))
        return INT64_MAX;
    return ns;
}

static int describe_version(const struct stat *st, struct mr_cache_version *version_out)
{
    if (!S_ISREG(st->st_mode) || st->st_size < 0)
        return -EINVAL;
    *version_out = (struct mr_cache_version){.file_bytes = (uint64_t)st->st_size,
                                             .mtime_ns = time_ns(st->st_mtim),
                                             .ctime_ns = time_ns(st->st_ctim)};
    return 0;
}

int mr_cache_key_stat(const struct mr_catalog *catalog, int64_t index,
                      struct mr_cache_version *version_out)
{
    char path[MR_CATALOG_PATH];
    struct stat st;
    struct mr_extent image = mr_catalog_image(catalog, index);
    int rc = mr_catalog_path(catalog, image.file, path);
    if (rc != 0)
        return rc;
    return fstatat(mr_catalog_root(catalog), path, &st, 0) != 0
               ? -errno
               : describe_version(&st, version_out);
}

int mr_cache_key_fstat(int fd, struct mr_cache_version *version_out)
{
    struct stat st;
    return fstat(fd, &st) != 0 ? -errno : describe_version(&st, version_out);
}

struct mr_cache_range mr_cache_key_range(const struct mr_catalog *catalog, int64_t index,
                                         const struct mr_cache_version *version)
{
    struct mr_extent image = mr_catalog_image(catalog, index);
    return (struct mr_cache_range){.file = image.file,
                                   .offset = image.offset,
                                   .len = image.len == MR_LEN_UNKNOWN ? version->file_bytes
                                                                      : image.len};
}

static int compare_spots(const void *a, const void *b)
{
    const struct mr_cache_spot *x = a, *y = b;
    if (x->hash != y->hash)
        return x->hash < y->hash ? -1 : 1;
    return (x->index > y->index) - (x->index < y->index);
}

mr_status mr_cache_key_map(const struct mr_catalog *catalog, struct mr_cache_map *map_out,
                           mr_error *error)
{
    *map_out = (struct mr_cache_map){0};
    size_t n = (size_t)mr_catalog_count(catalog), len;
    if (!mr_checked_mul(n + 1, sizeof *map_out->spots, &len))
        return mr_error_memory(error, SIZE_MAX);
    map_out->spots = malloc(len);
    if (!map_out->spots)
        return mr_error_memory(error, len);
    for (size_t i = 0; i < n; i++) {
        struct mr_cache_spot *spot = &map_out->spots[map_out->n];
        spot->index = (int64_t)i;
        map_out->n += mr_cache_key_hash(catalog, spot->index, &spot->hash);
    }
    qsort(map_out->spots, map_out->n, sizeof *map_out->spots, compare_spots);
    return MR_OK;
}

void mr_cache_key_free_map(struct mr_cache_map *map)
{
    free(map->spots);
    *map = (struct mr_cache_map){0};
}

size_t mr_cache_key_find(const struct mr_cache_map *map, uint64_t hash)
{
    size_t lo = 0, hi = map->n;
    while (lo < hi) {
        size_t mid = lo + (hi - lo) / 2;
        if (map->spots[mid].hash < hash)
            lo = mid + 1;
        else
            hi = mid;
    }
    return lo < map->n && map->spots[lo].hash == hash ? lo : map->n;
}
