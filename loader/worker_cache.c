/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's cache. Easy to get wrong: whatever is wrong with it must never be seen in a batch, so each failure here
 * ends in reading the file, whose errors are the sample's.
 */
#include "loader/worker_cache.h"

#include <stdlib.h>

#include "cache/cache_fill.h"
#include "cache/cache_use.h"
#include "transforms/codec_packed.h"

struct mr_cached {
    struct mr_cache_use *use;
    struct mr_cache_fill *fill;
    const struct mr_catalog *catalog;
    struct mr_pixels *pixels;
};

struct mr_cached *mr_cached_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                                   struct mr_pixels *pixels)
{
    /* A worker's libjpeg may be another than the host's. One that packs nothing must not note that nothing fits. */
    struct mr_cached *cached = region && mr_codec_packed_works(NULL) ? calloc(1, sizeof *cached) : NULL;
    if (!cached)
        return NULL;
    cached->catalog = catalog;
    cached->pixels = pixels;
    if (mr_cache_use_create(region, catalog, &cached->use, NULL) == MR_OK &&
        mr_cache_fill_create(region, catalog, &cached->fill, NULL) == MR_OK)
        return cached;
    mr_cached_destroy(cached);
    return NULL;
}

void mr_cached_destroy(struct mr_cached *cached)
{
    if (!cached)
        return;
    mr_cache_fill_destroy(cached->fill);
    mr_cache_use_destroy(cached->use);
    free(cached);
}

/* An entry whose description makes no sense is dropped. */
static bool find(struct mr_cached *cached, int64_t index, const struct mr_rng *rng, struct mr_cache_hit *hit_out,
                 uint64_t *offset_out, uint64_t *len_out)
{
    mr_error unused;
    if (!mr_cache_use_find(cached->use, index, hit_out))
        return false;
    if (mr_pixels_range(cached->pixels, &hit_out->image, rng, offset_out, len_out, &unused) == MR_OK)
        return true;
    mr_cache_use_drop(cached->use, index);
    return false;
}

bool mr_cached_prefetch(struct mr_cached *cached, int64_t index, const struct mr_rng *rng)
{
    struct mr_cache_hit hit;
    uint64_t offset, len;
    if (!cached || !find(cached, index, rng, &hit, &offset, &len))
        return false;
    mr_cache_use_prefetch(cached->use, &hit, offset, len);
    return true;
}

bool mr_cached_take(struct mr_cached *cached, int64_t index, const struct mr_rng *rng, void *label_out,
                    struct mr_material *material_out)
{
    struct mr_cache_hit hit;
    uint64_t offset, len;
    const uint8_t *bytes, *unused;
    size_t unused_len;
    mr_error error;
    if (!cached || !find(cached, index, rng, &hit, &offset, &len))
        return false;
    if (!mr_cache_use_read(cached->use, &hit, offset, len, &bytes)) {
        mr_cache_use_drop(cached->use, index);
        return false;
    }
    *material_out = (struct mr_material){
        .bytes = bytes, .len = (size_t)len, .encoded = true, .is_packed = true, .offset = offset, .packed = hit.image};
    return mr_catalog_split(cached->catalog, index, bytes, (size_t)len, &unused, &unused_len, label_out, &error) ==
           MR_OK;
}

void mr_cached_drop(struct mr_cached *cached, int64_t index)
{
    if (cached)
        mr_cache_use_drop(cached->use, index);
}

void mr_cached_met(struct mr_cached *cached, int64_t index)
{
    if (cached)
        mr_cache_fill_met(cached->fill, index);
}

bool mr_cached_fill(struct mr_cached *cached, uint64_t worked_ns)
{
    return cached && mr_cache_fill_worked(cached->fill, worked_ns);
}

bool mr_cached_fill_idle(struct mr_cached *cached)
{
    return cached && mr_cache_fill_idle(cached->fill);
}
