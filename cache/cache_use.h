/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access of a worker to a cache; one object per worker. Calls block only to read the files of
 * the cache. A damaged file is not an error: the sample is then not in the cache.
 */
#ifndef CACHE_CACHE_USE_H
#define CACHE_CACHE_USE_H

#include "base/packed_image.h"
#include "dataset/catalog.h"
#include "cache/cache_region.h"

struct mr_cache_use;

/*
 * A sample in the cache; valid until the next mr_cache_use_find() on the same object. If image is
 * MR_PACKED_MARKED, the entry is the marks of the file or member: image.len is the bytes of the
 * file or member, and image.marks is NULL.
 */
struct mr_cache_hit {
    struct mr_packed_image image;
    uint32_t segment;
    uint64_t offset; /* offset of the entry in the data file of the segment */
    uint64_t len;
    uint64_t file_bytes; /* version of the file that the entry was made from */
    int64_t mtime_ns;
};

/*
 * MR_ERR_IO if the directory cannot be opened; MR_ERR_NO_MEMORY. region and catalog must outlive
 * the object.
 */
mr_status mr_cache_use_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                              struct mr_cache_use **use_out, mr_error *error);
/* NULL does nothing. */
void mr_cache_use_destroy(struct mr_cache_use *use);

/*
 * Find a sample. At its first use by this loader, the version of its file is checked, and all bytes
 * of the entry are read and compared with their checksum.
 */
bool mr_cache_use_find(struct mr_cache_use *use, int64_t index, struct mr_cache_hit *hit_out);

/*
 * Read [offset, offset + len) of an entry that was found; 64 bytes after it are readable too.
 * *bytes_out is valid until the next mr_cache_use_find() or mr_cache_use_read(). False if reading
 * fails.
 */
bool mr_cache_use_read(struct mr_cache_use *use, const struct mr_cache_hit *hit, uint64_t offset,
                       uint64_t len, const uint8_t **bytes_out);

/* Announce to the system that this range will be read soon. */
void mr_cache_use_prefetch(struct mr_cache_use *use, const struct mr_cache_hit *hit,
                           uint64_t offset, uint64_t len);

/*
 * True if the file still has the version that the entry was made from. Call it after bytes of the
 * file were read: they are then of that version too. If the file has changed, the entry is not used
 * any more, and may be made again.
 */
bool mr_cache_use_is_current(struct mr_cache_use *use, int64_t index,
                             const struct mr_cache_hit *hit);

/*
 * Report that a sample that was found could not be read or decoded. It is not used any more, and
 * may be made again.
 */
void mr_cache_use_drop(struct mr_cache_use *use, int64_t index);

#endif
