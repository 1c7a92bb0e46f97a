/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a cache as structs; docs/cache.md describes them in words. Everything is
 * little-endian and 8-aligned.
 *
 *   DIR/millrace-cache     one line of text: this folder is a cache, and of which format
 *   DIR/seg-ID.log         a head, then records, each with a checksum of its own; only the process
 *                          that holds its lock (flock) appends
 *   DIR/seg-ID.data        the bytes of packed samples, as in a pack's shard, and the marks of
 *                          files that are indexed
 *
 * Invariant: what a valid record points to never changes while anybody may have read that record.
 * So data files only grow. A log may be cut behind its last valid record, so a process that uses a
 * record again checks its checksum and its key again.
 */
#ifndef CACHE_CACHE_FORMAT_H
#define CACHE_CACHE_FORMAT_H

#include "base/packed_image.h"

#include <assert.h>
#include <stdint.h>

#define MR_CACHE_MARKER "millrace-cache"
#define MR_CACHE_MARKER_WORDS "millrace cache, format "
#define MR_CACHE_MARKER_TEXT MR_CACHE_MARKER_WORDS "1\n"
#define MR_CACHE_LOG_MAGIC UINT64_C(0x31676f4c6863726d) /* "mrchLog1" */
#define MR_CACHE_VERSION 1u
#define MR_CACHE_SAMPLE UINT32_C(0x6d617372)   /* "rsam" */
#define MR_CACHE_TEMPLATE UINT32_C(0x706d6574) /* "temp" */

/*
 * What an entry holds: the version of the tiles and the encoding that was asked for. Entries of
 * other recipes are not ours. With MR_PACKED_MARKED an entry holds no sample but the marks of its
 * file, from which a crop is read then.
 */
#define MR_CACHE_TILES 1u
#define MR_CACHE_RECIPE(encoding) (MR_CACHE_TILES << 16 | (uint32_t)(encoding))

/* A segment of so many bytes of data is full; one sample may go beyond. */
#define MR_CACHE_SEGMENT_BYTES (UINT64_C(4) << 30)
/* A JPEG has at most 65535 rows of pixels, and a row of MCUs at least 8 of them. */
#define MR_CACHE_MAX_ROWS 8192u
#define MR_CACHE_MAX_RECORD 34816u

struct mr_cache_log_head {
    uint64_t magic;
    uint64_t version;
    uint64_t id;       /* as in the file's name */
    uint64_t checksum; /* XXH3 (64 bits) of the three before */
};

/* Every record begins so. */
struct mr_cache_head {
    uint32_t kind;      /* MR_CACHE_SAMPLE or MR_CACHE_TEMPLATE */
    uint32_t len_bytes; /* of the record, this head with it; a multiple of 8 */
    uint64_t checksum;  /* XXH3 (64 bits) of the record but for this field */
};

struct mr_cache_template {
    struct mr_cache_head head;
    struct mr_packed_template template;
};

/*
 * Then, for DCT and MARKED, n_rows + 1 offsets of 32 bits, and zeros up to a multiple of 8. Those
 * of MARKED are offsets in the file.
 */
struct mr_cache_sample {
    struct mr_cache_head head;
    uint64_t path_hash;  /* XXH3 of the file's absolute path; of a member with its offset and
                            length behind it (u64) */
    uint64_t file_bytes; /* of the file that was packed */
    int64_t mtime_ns;    /* likewise, since 1970 */
    uint64_t made_ns;    /* when it was made, since 1970: of two entries for a path the later one
                            counts */
    uint64_t offset;     /* in the data file */
    uint64_t len;        /* of the sample, or of the file's marks; 0: this file is read as it is,
                            because it cannot be packed or marked; encoding is MR_PACKED_JPEG
                            then */
    uint64_t data_checksum;
    uint64_t template_at; /* of its template's record in this log */
    uint32_t recipe;
    uint32_t width; /* as in struct mr_packed_image */
    uint32_t height;
    uint32_t n_rows;
    uint16_t encoding;
    uint8_t flags;
    uint8_t orientation;
    uint32_t template_check; /* mr_cache_template_check() of its template's record; 0 without one */
};

/*
 * Shows a process that remembers a template by its place whether that place has been written again.
 */
static inline uint32_t mr_cache_template_check(const struct mr_cache_template *record)
{
    return (uint32_t)record->head.checksum;
}

static_assert(sizeof(struct mr_cache_log_head) == 32, "stands in files");
static_assert(sizeof(struct mr_cache_template) == 544, "stands in files");
static_assert(sizeof(struct mr_cache_sample) == 104, "stands in files");
static_assert(sizeof(struct mr_cache_sample) + 4 * (MR_CACHE_MAX_ROWS + 2) <= MR_CACHE_MAX_RECORD,
              "no record is longer");

#endif
