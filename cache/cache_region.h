/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The memory that host and workers share about a cache: constants, the ids of the segments by
 * number, and one word per sample of the dataset that says whether and where it is in the cache.
 * The memory is initially all zeros, and contains offsets, no pointers.
 */
#ifndef CACHE_CACHE_REGION_H
#define CACHE_CACHE_REGION_H

#include <assert.h>
#include <limits.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "transforms/codec.h"

/*
 * Legal moves: ABSENT -> FOUND (the host, which found the entry in a log) -> GOOD, AS_FILE or
 * ABSENT (a worker, at the first use); ABSENT -> CLAIMED -> GOOD, AS_FILE or ABSENT (the worker
 * that packs it); GOOD -> ABSENT (a worker that cannot use it); CLAIMED -> CLAIMED or AS_FILE
 * (another worker, if the claiming worker died).
 */
enum mr_cache_state {
    MR_CACHE_ABSENT,  /* not known to be in the cache */
    MR_CACHE_FOUND,   /* a record says so; this run has not checked the file and the bytes */
    MR_CACHE_GOOD,    /* the file has not changed, and the bytes are right */
    MR_CACHE_CLAIMED, /* a worker is packing it */
    MR_CACHE_AS_FILE, /* read from its file, for the whole run */
};

/*
 * A word: state:3 segment:13 rest:48. rest is the offset of a record / 8. In a claim, rest is the
 * time of the claim in seconds, and segment the number of claims so far.
 */
static inline uint64_t mr_cache_region_word(enum mr_cache_state state, uint32_t segment,
                                            uint64_t rest)
{
    return (uint64_t)state | (uint64_t)segment << 3 | rest << 16;
}
static inline enum mr_cache_state mr_cache_region_state(uint64_t word)
{
    return (enum mr_cache_state)(word & 7);
}
static inline uint32_t mr_cache_region_segment(uint64_t word)
{
    return (uint32_t)(word >> 3 & 0x1fff);
}
static inline uint64_t mr_cache_region_rest(uint64_t word)
{
    return word >> 16;
}

#define MR_CACHE_MAX_SEGMENTS 4096u
#define MR_CACHE_MAX_LOG (UINT64_C(1) << 50)
static_assert(MR_CACHE_MAX_SEGMENTS <= 1 << 13 && MR_CACHE_MAX_LOG / 8 <= UINT64_C(1) << 48,
              "fit in a word");

/* Whether the cache is written, and if not, why. */
enum mr_cache_stop {
    MR_CACHE_WRITING,
    MR_CACHE_AT_BUDGET,
    MR_CACHE_REFUSED, /* the system refused a write: stop_errno */
};

struct mr_cache_region {
    /* Constants. */
    int64_t n_samples;
    uint64_t budget_bytes;
    uint64_t max_file_bytes;
    uint32_t encoding; /* MR_PACKED_DCT; MR_PACKED_MARKED for the index of each file;
                          MR_PACKED_JPEG for the samples of a pack as they are */
    uint32_t slowdown_percent;
    struct mr_codec_limits limits;
    uint32_t stock_jpeg; /* 1: libjpeg alone decodes JPEGs */
    char path[PATH_MAX]; /* absolute path of the directory */
    /* Written and read with relaxed order; the counts are of this run. */
    _Atomic uint64_t bytes;   /* bytes of all segments: the last value found by the host, plus what
                                 this run has written since */
    _Atomic uint32_t stopped; /* enum mr_cache_stop */
    _Atomic int32_t stop_errno; /* written before stopped */
    _Atomic uint64_t n_made;
    _Atomic uint64_t n_as_files; /* entries of files that are not packed */
    _Atomic uint64_t n_stale;    /* entries whose file has changed */
    _Atomic uint64_t n_damaged;  /* entries that could not be read or had wrong bytes */
    _Atomic uint64_t ids[MR_CACHE_MAX_SEGMENTS]; /* ids of segments by number; 0: none yet; written
                                                    once by compare-and-swap */
    _Atomic uint64_t words[];                    /* n_samples; changed by compare-and-swap,
                                                    acq_rel */
};

uint64_t mr_cache_region_bytes(int64_t n_samples);

/* The number of a segment; a new segment gets a new number. -1 if there are too many. */
int mr_cache_region_number(struct mr_cache_region *region, uint64_t id);

/* Change a word if it still has the value `seen`; false if it has not. */
static inline bool mr_cache_region_move(struct mr_cache_region *region, int64_t index,
                                        uint64_t seen, uint64_t next)
{
    return atomic_compare_exchange_strong(&region->words[index], &seen, next);
}

/* Stop all writing by workers. Only the first reason is stored. */
void mr_cache_region_stop(struct mr_cache_region *region, enum mr_cache_stop why, int os_error);

#endif
