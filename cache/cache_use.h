/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker's access to a cache: one object per worker. No call blocks except to read the cache's
 * files. Damaged files are no error: the sample is then not in the cache.
 */
#ifndef CACHE_CACHE_USE_H
#define CACHE_CACHE_USE_H

#include "base/packed_image.h"
#include "dataset/catalog.h"
#include "cache/cache_region.h"

struct mr_cache_use;

/*
 * A sample in the cache. Valid until the next mr_cache_use_find() on the same object. If image is
 * MR_PACKED_MARKED, the entry is the marks of the sample's file or member, and image.len is its
 * bytes; image.marks is NULL.
 */
struct mr_cache_hit {
    struct mr_packed_image image;
    uint32_t segment;
    uint64_t offset; /* of the entry in the segment's data */
    uint64_t len;
    uint64_t file_bytes; /* the version of the file that the entry was made of */
    int64_t mtime_ns;
};

/*
 * MR_ERR_IO where the directory cannot be opened; MR_ERR_NO_MEMORY. region and catalog must outlive
 * the object.
 */
mr_status mr_cache_use_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                              struct mr_cache_use **use_out, mr_error *error);
/* NULL does nothing. */
void mr_cache_use_destroy(struct mr_cache_use *use);

/*
 * Is the sample there? At its first use in a run (of this loader) its file is looked at and all
 * bytes of the entry are read and compared with their checksum.
 */
bool mr_cache_use_find(struct mr_cache_use *use, int64_t index, struct mr_cache_hit *hit_out);

/*
 * [offset, offset + len) of an entry that was found, with 64 readable bytes behind. *bytes_out is
 * valid until the next mr_cache_use_find() or mr_cache_use_read(). False where they cannot be read.
 */
bool mr_cache_use_read(struct mr_cache_use *use, const struct mr_cache_hit *hit, uint64_t offset,
                       uint64_t len, const uint8_t **bytes_out);

/* Tell the system that this range will be read soon. */
void mr_cache_use_prefetch(struct mr_cache_use *use, const struct mr_cache_hit *hit,
                           uint64_t offset, uint64_t len);

/*
 * Is the file still of the version that the entry was made of? Ask after bytes of the file were
 * read: then they are of that version too. If the file has changed, the entry is not used any more,
 * and may be made again.
 */
bool mr_cache_use_is_current(struct mr_cache_use *use, int64_t index,
                             const struct mr_cache_hit *hit);

/*
 * The sample that was found could not be read or decoded: it is not used any more, and may be made
 * again.
 */
void mr_cache_use_drop(struct mr_cache_use *use, int64_t index);

#endif
