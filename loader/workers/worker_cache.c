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
#include "cache/cache_key.h"
#include "cache/cache_use.h"

struct mr_worker_cache {
    struct mr_cache_use *use;
    struct mr_cache_fill *fill;
    const struct mr_sample_source *source;
};

struct mr_worker_cache *mr_worker_cache_create(struct mr_cache_region *region, uint32_t n_tags,
                                               const struct mr_sample_source *source)
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
    cache->source = source;
    if (mr_cache_use_create(region, source->catalog, n_tags, &cache->use, NULL) == MR_OK &&
        mr_cache_fill_create(region, source->catalog, &cache->fill, NULL) == MR_OK)
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

const struct mr_other_files *mr_worker_cache_files(const struct mr_worker_cache *cache)
{
    return cache ? mr_cache_use_files(cache->use) : NULL;
}

/*
 * Put a range of the sample in the cache in place of its file, its marks, and its members in place
 * of theirs.
 */
static void list_sample(const struct mr_sample_source *source, struct mr_sample_job *job,
                        uint64_t offset, uint64_t len, struct mr_part_list *list)
{
    const struct mr_cache_hit *hit = &job->hit;
    if (!hit->is_checked || source->verifies) {
        offset = 0;
        len = hit->image.len;
    }
    job->is_packed = !hit->is_file;
    job->offset = offset;
    list->part[0].max_bytes = len;
    list->part[0].extent = (struct mr_extent){hit->entry.file, hit->entry.offset + offset, len};
    for (uint32_t i = 0, k = 0; i < list->n; i++)
        if (list->part[i].purpose == MR_FOR_MEMBER)
            list->part[i].extent = hit->members[k++];
    job->has_marks = hit->image.marks_len > 0 && (!hit->is_checked || len < hit->image.len);
    if (job->has_marks)
        mr_part_list_add(list,
                         (struct mr_extent){hit->entry.file, hit->entry.offset + hit->marks_at,
                                            hit->image.marks_len},
                         hit->image.marks_len, MR_FOR_MARKS);
    for (uint32_t i = 0; i < hit->n_asked; i++)
        mr_part_list_add(list, (struct mr_extent){hit->asked[i], 0, 1}, 1, MR_FOR_VERSION);
}

/* List the marks and a range of the file. Marks do not help if the whole file is needed. */
static bool list_marked(const struct mr_catalog *catalog, struct mr_sample_job *job,
                        uint64_t offset, uint64_t len, struct mr_part_list *list)
{
    mr_error unused;
    if (len == job->hit.image.len)
        return false;
    job->is_packed = job->has_marks = true;
    job->offset = offset;
    mr_part_list_add(list, job->hit.entry, job->hit.entry.len, MR_FOR_MARKS);
    return mr_catalog_restrict(catalog, job->index, offset, len, list, &unused) == MR_OK;
}

bool mr_worker_cache_list(struct mr_worker_cache *cache, struct mr_sample_job *job,
                          struct mr_part_list *list_out)
{
    mr_error unused;
    if (!cache || !mr_cache_use_find(cache->use, job->tag, job->index, &job->hit))
        return false;
    const struct mr_cache_hit *hit = &job->hit;
    uint64_t offset = 0, len = hit->image.len;
    if (!hit->is_file && mr_plan_runner_range(cache->source->runner, &hit->image, &job->draws,
                                              &offset, &len, &unused) != MR_OK)
        return false; /* the file will say whether it is the entry's fault or the image's */
    mr_catalog_parts(cache->source->catalog, job->index, cache->source->max_bytes, list_out);
    job->is_from_cache = true;
    if (hit->needs_file)
        return list_marked(cache->source->catalog, job, offset, len, list_out);
    list_sample(cache->source, job, offset, len, list_out);
    return true;
}

bool mr_worker_cache_check(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                           const struct mr_read *read)
{
    bool needs_file = job->hit.needs_file;
    const struct mr_read_part *entry =
        needs_file ? mr_read_find(read, MR_FOR_MARKS) : &read->part[0];
    /* first, because the file may have changed so that its read has failed */
    if (needs_file && !mr_cache_use_is_current(cache->use, job->index, &job->hit))
        return false;
    /* without the file and versions, all parts are from the cache */
    if (read->status == MR_ERR_DAMAGED && (!entry->bytes || (!needs_file && job->hit.n_asked == 0)))
        mr_cache_use_drop(cache->use, job->index);
    return read->status == MR_OK &&
           (job->hit.is_checked || mr_cache_use_check(cache->use, job->index, &job->hit, read));
}

void mr_worker_cache_drop(struct mr_worker_cache *cache, int64_t index)
{
    if (cache)
        mr_cache_use_drop(cache->use, index);
}

bool mr_worker_cache_wants(const struct mr_worker_cache *cache, int64_t index)
{
    return cache && mr_cache_fill_wants(cache->fill, index);
}

void mr_worker_cache_met(struct mr_worker_cache *cache, const struct mr_sample_job *job,
                         const struct mr_read *read)
{
    if (!cache)
        return;
    if (!mr_cache_key_is_remote(cache->source->catalog, job->index))
        mr_cache_fill_met(cache->fill, job->index);
    else if (!job->is_packed || read->part[0].len == job->hit.image.len)
        mr_cache_fill_keep(cache->fill, job->index, read);
}

bool mr_worker_cache_fill(struct mr_worker_cache *cache, uint64_t worked_ns)
{
    return cache && mr_cache_fill_worked(cache->fill, worked_ns);
}

bool mr_worker_cache_fill_idle(struct mr_worker_cache *cache)
{
    return cache && mr_cache_fill_idle(cache->fill);
}
