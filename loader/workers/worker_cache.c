/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Takes samples from the cache in place of their files, and packs samples into it.
 *
 * Invariant: a fault of the cache never reaches a batch. After every failure here the file is read,
 * and errors of the file are the sample's.
 */
#include "loader/workers/worker_cache.h"

#include <stdlib.h>

#include "cache/cache_fill.h"
#include "cache/cache_form.h"
#include "cache/cache_use.h"

struct mr_worker_cache {
    struct mr_cache_use *use;
    struct mr_cache_fill *fill;
    const struct mr_catalog *catalog;
    struct mr_plan_runner *runner;
};

struct mr_worker_cache *mr_worker_cache_create(struct mr_cache_region *region,
                                               const struct mr_catalog *catalog,
                                               struct mr_plan_runner *runner)
{
    /*
     * A worker's libjpeg may differ from the host's. A worker that cannot pack must not record that
     * nothing fits.
     */
    bool is_usable =
        region && mr_cache_form_check(region->encoding, region->stock_jpeg, NULL) == MR_OK;
    struct mr_worker_cache *cache = is_usable ? calloc(1, sizeof *cache) : NULL;
    if (!cache)
        return NULL;
    cache->catalog = catalog;
    cache->runner = runner;
    if (mr_cache_use_create(region, catalog, &cache->use, NULL) == MR_OK &&
        mr_cache_fill_create(region, catalog, &cache->fill, NULL) == MR_OK)
        return cache;
    mr_worker_cache_destroy(cache);
    return NULL;
}

void mr_worker_cache_destroy(struct mr_worker_cache *cache)
{
    if (!cache)
        return;
    mr_cache_fill_destroy(cache->fill);
    mr_cache_use_destroy(cache->use);
    free(cache);
}

/* Find the entry. If its description makes no sense, drop it. */
static bool find_entry(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                       struct mr_cache_hit *hit_out, uint64_t *offset_out, uint64_t *len_out)
{
    mr_error unused;
    if (!mr_cache_use_find(cache->use, job->index, hit_out))
        return false;
    if (mr_plan_runner_range(cache->runner, &hit_out->image, &job->draws, offset_out, len_out,
                             &unused) == MR_OK)
        return true;
    mr_cache_use_drop(cache->use, job->index);
    return false;
}

enum mr_worker_cache_has mr_worker_cache_prefetch(struct mr_worker_cache *cache,
                                                  struct mr_sample_job *job, uint64_t *offset_out,
                                                  uint64_t *len_out)
{
    struct mr_cache_hit hit;
    job->is_part = false;
    if (!cache || !find_entry(cache, job, &hit, offset_out, len_out))
        return MR_WORKER_CACHE_NOTHING;
    if (hit.image.encoding != MR_PACKED_MARKED) {
        mr_cache_use_prefetch(cache->use, &hit, *offset_out, *len_out);
        return MR_WORKER_CACHE_SAMPLE;
    }
    if (*len_out == hit.image.len) /* marks do not help if the whole file is needed */
        return MR_WORKER_CACHE_NOTHING;
    mr_cache_use_prefetch(cache->use, &hit, 0, hit.len);
    job->is_part = true;
    job->file_bytes = hit.file_bytes;
    job->mtime_ns = hit.mtime_ns;
    return MR_WORKER_CACHE_MARKS;
}

/*
 * Was this range read from the version of the file that the entry describes, and does it have what
 * the draws need? If the read failed, the file may have changed; then the entry is dropped too.
 */
static bool read_fits(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                      const struct mr_read *read, const struct mr_cache_hit *hit, uint64_t offset,
                      uint64_t len)
{
    return mr_cache_use_is_current(cache->use, job->index, hit) && read->status == MR_OK &&
           read->offset == offset && read->len == len && job->file_bytes == hit->file_bytes &&
           job->mtime_ns == hit->mtime_ns;
}

/* Take the marks for the range that was read. */
static bool take_marks(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                       const struct mr_read *read, struct mr_cache_hit *hit, uint64_t offset,
                       uint64_t len, const uint8_t **bytes_out)
{
    if (!read || !read_fits(cache, job, read, hit, offset, len))
        return false;
    if (!mr_cache_use_read(cache->use, hit, 0, hit->len, &hit->image.marks)) {
        mr_cache_use_drop(cache->use, job->index);
        return false;
    }
    *bytes_out = read->bytes;
    return true;
}

static bool take_sample(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                        const struct mr_cache_hit *hit, uint64_t offset, uint64_t len,
                        const uint8_t **bytes_out)
{
    if (mr_cache_use_read(cache->use, hit, offset, len, bytes_out))
        return true;
    mr_cache_use_drop(cache->use, job->index);
    return false;
}

bool mr_worker_cache_take(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                          const struct mr_read *read, void *label_out,
                          struct mr_fetched *fetched_out)
{
    struct mr_cache_hit hit;
    uint64_t offset, len;
    const uint8_t *bytes, *unused;
    size_t unused_len;
    mr_error error;
    if (!cache || !find_entry(cache, job, &hit, &offset, &len))
        return false;
    bool taken = hit.image.encoding == MR_PACKED_MARKED
                     ? take_marks(cache, job, read, &hit, offset, len, &bytes)
                     : take_sample(cache, job, &hit, offset, len, &bytes);
    if (!taken)
        return false;
    *fetched_out = (struct mr_fetched){.bytes = bytes,
                                       .len = (size_t)len,
                                       .encoded = true,
                                       .is_packed = true,
                                       .offset = offset,
                                       .packed = hit.image};
    return mr_catalog_split(cache->catalog, job->index, bytes, (size_t)len, &unused, &unused_len,
                            label_out, &error) == MR_OK;
}

void mr_worker_cache_drop(struct mr_worker_cache *cache, int64_t index)
{
    if (cache)
        mr_cache_use_drop(cache->use, index);
}

void mr_worker_cache_met(struct mr_worker_cache *cache, int64_t index)
{
    if (cache)
        mr_cache_fill_met(cache->fill, index);
}

bool mr_worker_cache_fill(struct mr_worker_cache *cache, uint64_t worked_ns)
{
    return cache && mr_cache_fill_worked(cache->fill, worked_ns);
}

bool mr_worker_cache_fill_idle(struct mr_worker_cache *cache)
{
    return cache && mr_cache_fill_idle(cache->fill);
}
