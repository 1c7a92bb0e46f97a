/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The files of a cache as structs; docs/cache.md describes them in words. Everything is
 * little-endian and 8-aligned.
 *
 *   DIR/millrace-cache     one line of text: this folder is a cache, and its format
 *   DIR/seg-ID.log         a head, then records, each with its own checksum; only the process that
 *                          holds its lock (flock) appends
 *   DIR/seg-ID.data        the bytes of packed samples, as in the shard of a pack, the marks of
 *                          files that are indexed, and the bytes of files at URLs
 *
 * Invariant: what a valid record points to never changes while any process may have read the
 * record. So data files only grow. A log may be cut after its last valid record, so a process that
 * uses a record again verifies its checksum and key again.
 */
#ifndef CACHE_CACHE_FORMAT_H
#define CACHE_CACHE_FORMAT_H

#include "base/packed_image.h"
#include "dataset/extent.h"

#include <assert.h>
#include <stdint.h>

#define MR_CACHE_MARKER "millrace-cache"
#define MR_CACHE_MARKER_WORDS "millrace cache, format "
#define MR_CACHE_MARKER_TEXT MR_CACHE_MARKER_WORDS "2\n"
#define MR_CACHE_LOG_MAGIC UINT64_C(0x31676f4c6863726d) /* "mrchLog1" */
#define MR_CACHE_VERSION 2u
#define MR_CACHE_SAMPLE UINT32_C(0x6d617372)   /* "rsam" */
#define MR_CACHE_TEMPLATE UINT32_C(0x706d6574) /* "temp" */

/*
 * The recipe of an entry: the version of the tiles, and the requested encoding. Entries of other
 * recipes are ignored. With MR_PACKED_MARKED an entry contains not the sample but the marks of its
 * file, and a crop is read from the file; the entry of a file at a URL contains the file, then the
 * marks. With MR_PACKED_JPEG, the recipe for packs at URLs, it contains the sample as it is in the
 * pack, then its marks.
 */
#define MR_CACHE_TILES 1u
#define MR_CACHE_RECIPE(encoding) (MR_CACHE_TILES << 16 | (uint32_t)(encoding))

/* A segment with this many bytes of data is full. The last sample may exceed it. */
#define MR_CACHE_SEGMENT_BYTES (UINT64_C(4) << 30)
/* A JPEG has at most 65535 rows of pixels, and a row of MCUs at least 8 of them. */
#define MR_CACHE_MAX_ROWS 8192u
#define MR_CACHE_MAX_RECORD 34816u

struct mr_cache_log_head {
    uint64_t magic;
    uint64_t version;
    uint64_t id;       /* as in the name of the file */
    uint64_t checksum; /* XXH3 (64 bits) of the three fields before it */
};

/* The head of every record. */
struct mr_cache_head {
    uint32_t kind;      /* MR_CACHE_SAMPLE or MR_CACHE_TEMPLATE */
    uint32_t len_bytes; /* bytes of the record including this head; a multiple of 8 */
    uint64_t checksum;  /* XXH3 (64 bits) of the record without this field */
};

struct mr_cache_template {
    struct mr_cache_head head;
    struct mr_packed_template template;
};

/*
 * The record of a sample. For DCT and MARKED, n_rows + 1 offsets of 32 bits follow, with zeros up
 * to a multiple of 8. For MARKED they are offsets in the file. For DCT and for files at URLs, a
 * struct mr_cache_member for each further member of the dataset's samples follows; the length of
 * the record says how many.
 */
struct mr_cache_sample {
    struct mr_cache_head head;
    uint64_t path_hash;  /* mr_cache_key_hash() */
    uint64_t file_bytes; /* size of the file that was packed */
    int64_t mtime_ns;    /* its modification time, since 1970; at a URL: the stamp of its version */
    uint64_t made_ns;    /* when the entry was made, since 1970: of two entries for a path the later
                            one counts */
    uint64_t offset;     /* offset in the data file */
    uint64_t len; /* bytes of the sample or of the marks; 0: the file cannot be packed or marked and
                     is read as a file; encoding is MR_PACKED_JPEG then. MR_PACKED_JPEG with bytes:
                     the file at the URL, or the sample in the pack, as it is */
    uint64_t data_checksum;
    uint64_t template_at; /* offset of the record of its template in this log */
    uint32_t recipe;
    uint32_t width; /* as in struct mr_packed_image */
    uint32_t height;
    uint32_t n_rows;
    uint16_t encoding;
    uint8_t flags;
    uint8_t orientation;
    uint32_t template_check; /* mr_cache_template_check() of the record of its template; 0 without a
                                template */
};

/*
 * A further member of a sample. Its bytes follow, in the data file, those of the sample and of its
 * earlier members.
 */
struct mr_cache_member {
    uint64_t len;
    uint64_t checksum; /* XXH3 (64 bits) of its bytes */
    uint64_t stamp;    /* mr_cache_key_stamp() of its file; 0: it is in the shard of the sample, or
                          there is no such file */
};

/*
 * A short checksum of the record of a template. With it, a process that remembers a template by its
 * place notices that the place was written again.
 */
static inline uint32_t mr_cache_template_check(const struct mr_cache_template *record)
{
    return (uint32_t)record->head.checksum;
}

static_assert(sizeof(struct mr_cache_log_head) == 32, "is stored in files");
static_assert(sizeof(struct mr_cache_template) == 544, "is stored in files");
static_assert(sizeof(struct mr_cache_sample) == 104, "is stored in files");
static_assert(sizeof(struct mr_cache_member) == 24, "is stored in files");
static_assert(sizeof(struct mr_cache_sample) + 4 * (MR_CACHE_MAX_ROWS + 2) +
                      MR_MAX_MEMBERS * sizeof(struct mr_cache_member) <=
                  MR_CACHE_MAX_RECORD,
              "no record is longer");

#endif
