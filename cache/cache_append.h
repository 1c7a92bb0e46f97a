/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes into a cache. Each thread has one object with its own segment, locked by flock on its log.
 * A segment left by an earlier run is continued. An entry is complete as soon as its record exists,
 * even if the process is killed at any time.
 */
#ifndef CACHE_CACHE_APPEND_H
#define CACHE_CACHE_APPEND_H

#include "cache/cache_format.h"
#include "cache/cache_log.h"

struct mr_cache_append;

struct mr_cache_entry {
    struct mr_cache_sample
        sample; /* all fields except head, offset, data_checksum, template_at and made_ns */
    const struct mr_packed_template *template; /* for DCT and MARKED */
    const uint32_t *rows;                      /* for DCT and MARKED: n_rows + 1 offsets */
    const uint8_t *bytes;                      /* sample.len bytes, less those of the tail */
    const uint8_t *tail; /* the last of sample.len bytes: the marks after a file. NULL: none */
    size_t tail_len;
    uint32_t n_members; /* of the sample, unless its file is read too */
    struct mr_cache_member members[MR_MAX_MEMBERS];
    const uint8_t *member_bytes[MR_MAX_MEMBERS];
};

/* The place of an entry. */
struct mr_cache_place {
    uint64_t id;    /* id of the segment */
    uint64_t at;    /* offset of the record in its log */
    uint64_t grown; /* bytes added to the files */
};

/* folder must stay open until destroy. No file is opened yet. NULL: no memory. */
struct mr_cache_append *mr_cache_append_create(int folder);
/* Closes the segment, which releases its lock. NULL does nothing. */
void mr_cache_append_destroy(struct mr_cache_append *append);

/* Bytes of an entry in the data file. */
uint64_t mr_cache_append_bytes(const struct mr_cache_entry *entry);

/*
 * Add an entry. Returns 0 or a negative errno; after an error the cache does not contain the entry.
 * -ENOSPC, -EDQUOT: no space. -EFBIG: RLIMIT_FSIZE is too small for the sample. -EROFS, -EACCES;
 * -ENOENT: the directory was removed.
 */
int mr_cache_append_add(struct mr_cache_append *append, const struct mr_cache_entry *entry,
                        struct mr_cache_place *place_out);

#endif
