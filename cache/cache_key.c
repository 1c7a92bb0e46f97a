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
#include "dataset/remote/object_stamp.h"
#include "dataset/remote/url.h"

bool mr_cache_key_suits(const struct mr_catalog *catalog)
{
    return catalog && mr_catalog_kind(catalog)->encoded &&
           (mr_catalog_loose_files(catalog) || mr_catalog_has_members(catalog) ||
            (mr_catalog_is_pack(catalog) && mr_catalog_is_remote(catalog)));
}

/* Find the URL of a file. False: it is local. */
static bool find_url(const struct mr_catalog *catalog, uint64_t file, char url_out[MR_CATALOG_PATH])
{
    return mr_catalog_is_remote(catalog) && mr_catalog_url(catalog, file, url_out) == 0;
}

bool mr_cache_key_is_remote(const struct mr_catalog *catalog, int64_t index)
{
    char url[MR_CATALOG_PATH];
    return mr_catalog_is_remote(catalog) &&
           find_url(catalog, mr_catalog_image(catalog, index).file, url);
}

/* Write the absolute path of a file, or its URL. False: it is too long. */
static bool find_whole_path(const struct mr_catalog *catalog, uint64_t file,
                            char whole[2 * MR_CATALOG_PATH], size_t *len_out)
{
    char path[MR_CATALOG_PATH];
    if (find_url(catalog, file, whole)) {
        *len_out = mr_url_shown_len(whole);
        return true;
    }
    if (mr_catalog_path(catalog, file, path) != 0)
        return false;
    const char *root = path[0] == '/' ? "" : mr_catalog_absolute_root(catalog);
    size_t root_len = strlen(root), path_len = strlen(path);
    bool slash = root_len > 0 && root[root_len - 1] != '/';
    if (root_len >= MR_CATALOG_PATH)
        return false;
    memcpy(whole, root, root_len);
    whole[root_len] = '/';
    memcpy(whole + root_len + slash, path, path_len);
    *len_out = root_len + slash + path_len;
    return true;
}

static bool add_members(const struct mr_catalog *catalog, int64_t index, uint64_t *hash)
{
    char whole[2 * MR_CATALOG_PATH];
    struct mr_extent members[MR_MAX_MEMBERS];
    mr_catalog_members(catalog, index, members);
    for (uint32_t k = 0; k < mr_catalog_kind(catalog)->n_extra; k++) {
        const uint64_t place[2] = {members[k].offset, members[k].len};
        const void *what = place;
        size_t len = sizeof place;
        if (mr_catalog_loose_files(catalog)) {
            what = whole;
            len = 0;
            if (members[k].len > 0 && members[k].file != MR_FILE_CATALOG &&
                !find_whole_path(catalog, members[k].file, whole, &len))
                return false;
        }
        *hash = mr_xxh3_pair(hash, sizeof *hash, what, len);
    }
    return true;
}

bool mr_cache_key_hash(const struct mr_catalog *catalog, int64_t index, uint64_t *hash_out)
{
    char whole[2 * MR_CATALOG_PATH];
    size_t len;
    struct mr_extent image = mr_catalog_image(catalog, index);
    if (!find_whole_path(catalog, image.file, whole, &len))
        return false;
    uint64_t place[2] = {image.offset, image.len};
    *hash_out = mr_catalog_loose_files(catalog) ? mr_xxh3(whole, len)
                                                : mr_xxh3_pair(whole, len, place, sizeof place);
    return add_members(catalog, index, hash_out);
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

static bool describe_object(const char *url, const struct mr_object_version *version,
                            struct mr_cache_version *version_out)
{
    *version_out = (struct mr_cache_version){
        .file_bytes = version->size, .mtime_ns = (int64_t)mr_object_stamp_make(url, version)};
    return version->size != MR_LEN_UNKNOWN && version_out->mtime_ns != 0;
}

static int stat_file(const struct mr_catalog *catalog, uint64_t file,
                     struct mr_cache_version *version_out)
{
    char path[MR_CATALOG_PATH];
    struct stat st;
    struct mr_object_version version;
    if (find_url(catalog, file, path))
        return mr_catalog_version(catalog, file, &version) &&
                       describe_object(path, &version, version_out)
                   ? 0
                   : -ENODATA;
    int rc = mr_catalog_path(catalog, file, path);
    if (rc != 0)
        return rc;
    return fstatat(mr_catalog_root(catalog), path, &st, 0) != 0
               ? -errno
               : describe_version(&st, version_out);
}

int mr_cache_key_stat(const struct mr_catalog *catalog, int64_t index,
                      struct mr_cache_version *version_out)
{
    return stat_file(catalog, mr_catalog_image(catalog, index).file, version_out);
}

static uint64_t make_stamp(const void *bytes, size_t len)
{
    uint64_t stamp = mr_xxh3(bytes, len);
    return stamp | (stamp == 0);
}

uint64_t mr_cache_key_stamp(const struct mr_cache_version *version)
{
    const int64_t parts[2] = {(int64_t)version->file_bytes, version->mtime_ns};
    return make_stamp(parts, sizeof parts);
}

int mr_cache_key_stamps(const struct mr_catalog *catalog, int64_t index,
                        uint64_t stamps_out[MR_MAX_MEMBERS])
{
    struct mr_extent members[MR_MAX_MEMBERS];
    struct mr_cache_version version;
    mr_catalog_members(catalog, index, members);
    for (uint32_t k = 0; k < mr_catalog_kind(catalog)->n_extra; k++) {
        const uint8_t *memory = mr_catalog_memory(catalog, &members[k]);
        bool is_file = mr_catalog_loose_files(catalog) && members[k].len > 0 && !memory;
        int rc = is_file ? stat_file(catalog, members[k].file, &version) : -ENOENT;
        if (rc < 0 && rc != -ENODATA &&
            !(rc == -ENOENT && (!is_file || mr_catalog_may_lack(catalog, members[k].file))))
            return rc;
        stamps_out[k] = rc == 0          ? mr_cache_key_stamp(&version)
                        : rc == -ENODATA ? MR_CACHE_STAMP_ASK
                        : memory         ? make_stamp(memory, (size_t)members[k].len)
                                         : 0;
    }
    return 0;
}

uint64_t mr_cache_key_member_bytes(const struct mr_catalog *catalog, int64_t index)
{
    struct mr_extent members[MR_MAX_MEMBERS];
    struct mr_cache_version version;
    uint64_t bytes = 0;
    mr_catalog_members(catalog, index, members);
    for (uint32_t k = 0; k < mr_catalog_kind(catalog)->n_extra; k++)
        if (members[k].len != MR_LEN_UNKNOWN)
            bytes += members[k].len;
        else if (stat_file(catalog, members[k].file, &version) == 0)
            bytes += version.file_bytes;
    return bytes;
}

bool mr_cache_key_answered(const struct mr_catalog *catalog, uint64_t file,
                           const struct mr_object_version *answer,
                           struct mr_cache_version *version_out)
{
    char url[MR_CATALOG_PATH];
    return stat_file(catalog, file, version_out) == 0 ||
           (answer && find_url(catalog, file, url) && describe_object(url, answer, version_out));
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
