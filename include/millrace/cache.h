/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The cache on disk: what a directory holds, and how to empty it. Loaders fill it while they work
 * (cache in mr_loader_options, docs/cache.md).
 */
#ifndef MILLRACE_CACHE_H
#define MILLRACE_CACHE_H

#include <millrace/dataset.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Contents of a cache's directory. */
typedef struct mr_cache_report {
    size_t struct_size;
    uint64_t bytes; /* of all segments */
    uint64_t n_segments;
    uint64_t n_entries;  /* packed samples and indexes of files, of all datasets; entries that were
                            made again count again */
    uint64_t n_as_files; /* files that cannot be packed or indexed; loaders read the files */
    uint64_t n_damaged;  /* of n_entries: bytes are missing or, with verify, wrong; loaders make
                            these entries again */
    uint64_t n_torn;     /* segments that cannot be read, or that end inside a record, for example
                            after a kill */
    /*
     * Of the dataset, if one was given; each sample counts in at most one of the four fields after
     * n_samples:
     */
    uint64_t n_samples;
    uint64_t n_filled;          /* packed, indexed or both */
    uint64_t n_filled_as_files; /* cannot be packed or indexed; loaders read the files */
    uint64_t n_filled_stale;    /* the file has changed since; loaders make the entry again */
    uint64_t n_filled_damaged;  /* the entry is damaged; loaders make it again */
    /* The two forms of a cache (cache_form of mr_loader_options): */
    uint64_t n_index;        /* of n_entries: indexes of files; the others are packed samples */
    uint64_t index_bytes;    /* of indexes, without the logs */
    uint64_t packed_bytes;   /* of packed samples, without the logs */
    uint64_t n_filled_index; /* of n_filled: samples that are indexed; they may be packed too */
} mr_cache_report;

#define MR_CACHE_REPORT_INIT MR_STRUCT_INIT(mr_cache_report)

/** Do as MR_CACHE_REPORT_INIT, for languages without macros; see "Structs" in status.h. Threads:
 * any. */
MR_API void mr_cache_report_init(mr_cache_report *report, size_t size);

/**
 * Report what the cache in the directory dir holds and, unless dataset is NULL, how much of that
 * dataset. With verify, also read all bytes and compare their checksums. Loaders may use the cache
 * during the call. error may be NULL.
 *
 * Returns MR_OK; MR_ERR_INVALID (dir is not a cache); MR_ERR_UNSUPPORTED (a cache of another
 * format; a dataset whose samples are not files of one image each); MR_ERR_IO; MR_ERR_NO_MEMORY.
 * Blocks: while it reads.
 */
MR_API mr_status mr_cache_stat(const char *dir, const mr_dataset *dataset, bool verify,
                               mr_cache_report *report_out, mr_error *error);

/**
 * Remove all segments of the cache in the directory dir and nothing else. An empty cache remains.
 * Loaders that use the cache read their files instead. report_out may be NULL; its bytes and
 * n_segments count what was removed.
 *
 * Returns MR_OK; MR_ERR_INVALID (dir is not a cache); MR_ERR_UNSUPPORTED; MR_ERR_IO.
 */
MR_API mr_status mr_cache_clear(const char *dir, mr_cache_report *report_out, mr_error *error);

#ifdef __cplusplus
}
#endif

#endif
