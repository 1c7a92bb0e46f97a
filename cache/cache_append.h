/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into a cache: one object per thread, with a segment of its own (flock on its log). A
 * segment that an earlier run left is continued. An entry whose record is there is complete,
 * whenever the process is killed.
 */
#ifndef CACHE_CACHE_APPEND_H
#define CACHE_CACHE_APPEND_H

#include "cache/cache_format.h"
#include "cache/cache_log.h"

struct mr_cache_append;

struct mr_cache_entry {
    struct mr_cache_sample sample;             /* all but head, offset, data_checksum,
                                                  template_at and made_ns */
    const struct mr_packed_template *template; /* of DCT and MARKED */
    const uint32_t *rows;                      /* likewise: n_rows + 1 */
    const uint8_t *bytes;                      /* sample.len of them */
};

/* Where an entry lies. */
struct mr_cache_place {
    uint64_t id;    /* of the segment */
    uint64_t at;    /* of the record in its log */
    uint64_t grown; /* bytes that the files have grown by */
};

/* folder must stay open as long as the object lives. Opens no file yet. NULL: no memory. */
struct mr_cache_append *mr_cache_append_create(int folder);
/* Closes the segment, which gives up its lock. NULL does nothing. */
void mr_cache_append_destroy(struct mr_cache_append *append);

/*
 * Returns 0, or a negative errno, after which the cache holds nothing of the entry: -ENOSPC,
 * -EDQUOT; -EFBIG where RLIMIT_FSIZE is too small for the sample; -EROFS, -EACCES, -ENOENT where
 * the directory is gone.
 */
int mr_cache_append_add(struct mr_cache_append *append, const struct mr_cache_entry *entry,
                        struct mr_cache_place *place_out);

#endif
