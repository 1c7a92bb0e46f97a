/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A dataset, the directory of a cache, and runs with both but without a loader: the rig makes the
 * calls of the host of a loader and of one worker. A failure in here fails the test.
 */
#ifndef TESTS_CACHE_CACHE_RIG_H
#define TESTS_CACHE_CACHE_RIG_H

#include "dataset/dataset.h"
#include "cache/cache_host.h"
#include "cache/cache_append.h"
#include "cache/cache_fill.h"
#include "cache/cache_use.h"

struct cache_rig {
    char *folder;     /* contains everything below */
    char photos[600]; /* an image folder */
    char dir[600];    /* directory of the cache; does not exist at the start */
    mr_dataset *dataset;
    const struct mr_catalog *catalog;
    int64_t n;
    uint32_t encoding; /* encoding of its runs; MR_PACKED_DCT unless a test sets another */
};

/* One run: a region, a host, a worker. */
struct cache_run {
    struct cache_rig *rig;
    struct mr_cache_region *region;
    size_t region_bytes;
    struct mr_cache_host *cache;
    struct mr_file_cache *data; /* open data files, as a reader has them */
    struct mr_cache_use *use;
    struct mr_cache_fill *fill;
};

/* Write n_images photographs, and wait until their times have settled. */
void cache_rig_set_up(struct cache_rig *rig, uint32_t n_images);
void cache_rig_tear_down(struct cache_rig *rig);
/* Open the dataset again, after files were added. */
void cache_rig_reopen(struct cache_rig *rig);
/* Replace a photograph by another one, with another modification time. */
void cache_rig_change(struct cache_rig *rig, const char *name, uint32_t seed);

/*
 * True if the photograph, as it was at the start, can be packed or marked. Every fifth is
 * progressive and cannot have marks.
 */
bool cache_rig_fits(const struct cache_rig *rig, int64_t index);
/* The number of photographs that can. */
int64_t cache_rig_n_fit(const struct cache_rig *rig);

struct mr_cache_host_options cache_rig_options(const struct cache_rig *rig);
/* options NULL: those of the rig. */
void cache_run_begin(struct cache_run *run, struct cache_rig *rig,
                     const struct mr_cache_host_options *options);
void cache_run_end(struct cache_run *run);
/* Find a sample as a worker does, with the check of its bytes at the first use. */
bool cache_run_find(struct cache_run *run, int64_t index, struct mr_cache_hit *hit_out);
/* A part of the bytes of an entry; 64 more are readable. NULL if it has fewer. Ownership: free().
 */
uint8_t *cache_run_read(struct cache_run *run, const struct mr_cache_hit *hit, uint64_t offset,
                        uint64_t len);
/* Act as a worker that meets each sample and is then idle. Returns how many samples it handled. */
unsigned cache_run_fill_all(struct cache_run *run);
bool cache_run_has(struct cache_run *run, int64_t index);
unsigned cache_run_count(struct cache_run *run);

/*
 * An entry whose bytes depend on a number, for tests without images. Valid until the next call with
 * the same storage.
 */
struct cache_made {
    struct mr_cache_entry entry;
    struct mr_packed_template template;
    uint32_t rows[40];
    uint8_t bytes[3000];
};
void cache_rig_make_entry(struct cache_made *made, uint64_t number);
/* True if these are the bytes and the record of the entry of some number. */
bool cache_rig_is_right(const struct mr_cache_sample *sample, const uint8_t *bytes);

/* Counts of a directory: valid records, and those of them with wrong bytes. */
struct cache_counts {
    unsigned n_segments;
    unsigned n_records;
    unsigned n_wrong;
};
struct cache_counts cache_rig_count(const char *dir);
/* The path of a file of the only segment. ending: ".log" or ".data". */
void cache_rig_find_file(const char *dir, const char *ending, char path_out[700]);

#endif
