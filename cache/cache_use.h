/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The access of a worker to a cache; one object per worker. It finds where the bytes of a sample
 * are in the cache; the worker's reader reads them. Calls block only to read the logs of the cache.
 * A damaged file is not an error: the sample is then not in the cache.
 */
#ifndef CACHE_CACHE_USE_H
#define CACHE_CACHE_USE_H

#include "base/packed_image.h"
#include "dataset/catalog.h"
#include "dataset/reader/file_cache.h"
#include "dataset/reader/reader.h"
#include "cache/cache_region.h"

struct mr_cache_use;

/*
 * A sample in the cache; valid until the next mr_cache_use_find() with the same tag. If the image
 * is MR_PACKED_MARKED, image.len is the bytes of the file or member, and image.marks is NULL.
 */
struct mr_cache_hit {
    struct mr_packed_image image;
    bool is_file;           /* the entry is a file as it is: image has only its length */
    bool needs_file;        /* the entry is only the marks; the rows are in the sample's file */
    uint64_t marks_at;      /* where the image.marks_len bytes of the marks are in the entry */
    struct mr_extent entry; /* the bytes of the entry, among mr_cache_use_files() */
    uint32_t n_members;     /* further members in the entry, after these bytes; 0 for marks */
    struct mr_extent members[MR_MAX_MEMBERS];
    uint64_t member_sums[MR_MAX_MEMBERS];
    bool is_checked; /* false: all bytes must be read, and given to mr_cache_use_check() */
    /*
     * If it is not checked: a byte of each of these files at URLs must be read too, because only an
     * answer states their versions: the image's file and those of members.
     */
    uint32_t n_asked;
    uint64_t asked[1 + MR_MAX_MEMBERS];
    uint64_t asked_stamps[1 + MR_MAX_MEMBERS]; /* mr_cache_key_stamp(); 0: there is no such file */
    uint64_t data_checksum;
    uint64_t word;       /* what the region said of the sample */
    uint64_t file_bytes; /* version of the file that the entry was made from */
    int64_t mtime_ns;
};

/*
 * n_tags: how many hits may be in use at a time. MR_ERR_IO if the directory cannot be opened;
 * MR_ERR_NO_MEMORY. region and catalog must outlive the object.
 */
mr_status mr_cache_use_create(struct mr_cache_region *region, const struct mr_catalog *catalog,
                              uint32_t n_tags, struct mr_cache_use **use_out, mr_error *error);
/* NULL does nothing. */
void mr_cache_use_destroy(struct mr_cache_use *use);

/* The files with the bytes of entries, for the reader. It must not outlive use. */
const struct mr_other_files *mr_cache_use_files(const struct mr_cache_use *use);

/* Find a sample. At its first use by this loader, the version of its file is checked. */
bool mr_cache_use_find(struct mr_cache_use *use, uint32_t tag, int64_t index,
                       struct mr_cache_hit *hit_out);

/*
 * Compare all bytes of the entry and of its members with their checksums, and the versions of files
 * that were asked for, at its first use by this loader. False: they differ, and the entry is not
 * used any more.
 */
bool mr_cache_use_check(struct mr_cache_use *use, int64_t index, const struct mr_cache_hit *hit,
                        const struct mr_read *read);

/*
 * True if the file still has the version that the entry was made from. Call it after bytes of the
 * file were read: they are then of that version too. If the file has changed, the entry is not used
 * any more, and may be made again; an entry that was made meanwhile stays.
 */
bool mr_cache_use_is_current(struct mr_cache_use *use, int64_t index,
                             const struct mr_cache_hit *hit);

/*
 * Report that a sample that was found could not be read or decoded. It is not used any more, and
 * may be made again.
 */
void mr_cache_use_drop(struct mr_cache_use *use, int64_t index);

#endif
