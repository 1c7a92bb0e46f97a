/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Reads sizes from headers. The file that keeps them is found by the paths of all images, and has
 * a stamp of size and time for each.
 */
#include "loader/header_sizes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/xxh3.h"
#include "cache/cache_key.h"
#include "dataset/index_place.h"

#define MAGIC 0x31657a6953726ddd /* no text begins with these bytes */
enum { PATH_BYTES = 18, NS = 1000000000 };

struct mr_kept_size {
    uint64_t stamp; /* mr_cache_key_stamp() of the file; 0: the size is not known */
    struct mr_catalog_size size;
};

struct header {
    uint64_t magic;
    uint64_t key;
    uint64_t checksum; /* of the sizes */
};

static size_t count_bytes(const struct mr_header_sizes *sizes)
{
    return (size_t)mr_dataset_n_samples(sizes->dataset) * sizeof *sizes->kept;
}

static bool hash_paths(const struct mr_catalog *catalog, uint64_t *key_out)
{
    uint64_t pair[2] = {0};
    bool good = mr_cache_key_suits(catalog) && mr_catalog_keeps_index(catalog);
    for (int64_t i = 0; good && i < mr_catalog_count(catalog); i++) {
        good = mr_cache_key_hash(catalog, i, &pair[1]);
        pair[0] = mr_xxh3(pair, sizeof pair);
    }
    *key_out = pair[0];
    return good;
}

static struct mr_index_place_key make_place(const struct mr_header_sizes *sizes,
                                            char path[PATH_BYTES])
{
    snprintf(path, PATH_BYTES, "/%016llx", (unsigned long long)sizes->key);
    return (struct mr_index_place_key){.place = MR_INDEX_CACHE,
                                       .path = path,
                                       .recipe = sizes->upright ? "upright sizes" : "sizes"};
}

static bool take_file(void *user, const uint8_t *bytes, size_t len)
{
    struct mr_header_sizes *sizes = user;
    const size_t all = count_bytes(sizes);
    struct header header;
    if (len != sizeof header + all)
        return false;
    memcpy(&header, bytes, sizeof header);
    bytes += sizeof header;
    if (header.magic != MAGIC || header.key != sizes->key || header.checksum != mr_xxh3(bytes, all))
        return false;
    memcpy(sizes->kept, bytes, all);
    return true;
}

void mr_header_sizes_load(struct mr_header_sizes *sizes_out, const mr_dataset *dataset,
                          bool upright)
{
    char path[PATH_BYTES];
    *sizes_out = (struct mr_header_sizes){.dataset = dataset, .upright = upright};
    if (!hash_paths(mr_dataset_catalog(dataset), &sizes_out->key))
        return;
    sizes_out->kept = calloc(1, count_bytes(sizes_out));
    struct mr_index_place_key place = make_place(sizes_out, path);
    if (sizes_out->kept)
        mr_index_place_load(&place, take_file, sizes_out);
}

/* The stamp of the file of a sample. 0: it cannot be kept. */
static uint64_t find_stamp(const mr_dataset *dataset, int64_t index)
{
    const struct mr_catalog *catalog = mr_dataset_catalog(dataset);
    struct mr_cache_version version;
    if (mr_cache_key_stat(catalog, index, &version) < 0)
        return 0;
    const struct mr_index_place_stamp time = {.mtime_s = version.mtime_ns / NS};
    bool has_time = !mr_cache_key_is_remote(catalog, index); /* an ETag is never too fresh */
    return has_time && mr_index_place_is_fresh(&time) ? 0 : mr_cache_key_stamp(&version);
}

static mr_status read_size(const struct mr_header_sizes *sizes, int64_t index,
                           struct mr_catalog_size *size_out, mr_error *error)
{
    mr_sample_info info = MR_SAMPLE_INFO_INIT;
    mr_status status = mr_dataset_inspect(sizes->dataset, index, &info, error);
    bool turned = sizes->upright && info.orientation >= 5;
    *size_out = turned ? (struct mr_catalog_size){info.height, info.width}
                       : (struct mr_catalog_size){info.width, info.height};
    return status;
}

mr_status mr_header_sizes_find(struct mr_header_sizes *sizes, int64_t index,
                               struct mr_catalog_size *size_out, mr_error *error)
{
    struct mr_kept_size *kept = sizes->kept ? &sizes->kept[index] : NULL, found = {0};
    if (kept)
        found.stamp = find_stamp(sizes->dataset, index);
    if (found.stamp != 0 && found.stamp == kept->stamp) {
        *size_out = kept->size;
        return MR_OK;
    }
    mr_status status = read_size(sizes, index, &found.size, error);
    *size_out = found.size;
    if (status == MR_OK && found.stamp != 0) {
        *kept = found;
        atomic_store_explicit(&sizes->changed, true, memory_order_relaxed);
    }
    bool is_final = error->os_error == ENOENT || error->os_error == EACCES ||
                    error->os_error == ESTALE ||
                    !mr_cache_key_is_remote(mr_dataset_catalog(sizes->dataset), index);
    return status == MR_ERR_IO && !is_final ? status : MR_OK;
}

void mr_header_sizes_save(const struct mr_header_sizes *sizes)
{
    char path[PATH_BYTES];
    struct mr_bytes file = {0};
    const struct mr_index_place_key place = make_place(sizes, path);
    if (!sizes->changed)
        return;
    const struct header header = {
        .magic = MAGIC, .key = sizes->key, .checksum = mr_xxh3(sizes->kept, count_bytes(sizes))};
    if (mr_bytes_append(&file, &header, sizeof header, NULL) == MR_OK &&
        mr_bytes_append(&file, sizes->kept, count_bytes(sizes), NULL) == MR_OK)
        mr_index_place_save(&place, &file);
    mr_bytes_fini(&file);
}

void mr_header_sizes_fini(struct mr_header_sizes *sizes)
{
    free(sizes->kept);
}
