/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function on every sample of a dataset in worker threads; the caller's thread takes the
 * results in order. Used for packing, checking and unpacking. Each worker has its own reader with a
 * few reads in flight. The number and the bytes of waiting results are limited.
 */
#ifndef PACKS_PIPELINE_H
#define PACKS_PIPELINE_H

#include "dataset/reader/reader.h"

/* The result for one sample. A worker fills it in, the caller's thread takes it. */
struct mr_pipeline_item {
    uint64_t position;
    int64_t index;
    mr_status status; /* of the read, then of run(); error is set if it is negative */
    mr_error error;
    uint64_t read_bytes;
    uint8_t *bytes; /* from mr_pipeline_reserve(); freed after take() */
    size_t len;
    void *result; /* result_bytes for the caller, 16-aligned, zero when run() is called */
};

struct mr_pipeline_work {
    const struct mr_catalog *catalog;
    uint64_t first; /* first position */
    uint64_t end;   /* one past the last position */
    uint32_t n_workers;
    bool marks; /* also read the marks of a pack's samples */
    size_t result_bytes;
    void *user;
    /* The index of the sample at a position. Threads: any. */
    int64_t (*index_at)(const void *user, uint64_t position);
    /*
     * Make the state of one worker. Called in the caller's thread; the worker's thread uses the
     * state.
     */
    mr_status (*open)(void *user, void **worker_out, mr_error *error);
    void (*close)(void *worker);
    /*
     * Called in a worker with a whole sample. It must copy the bytes that it needs later. Its
     * return value becomes the item's status; if that is negative, it sets item->error.
     */
    mr_status (*run)(void *worker, const struct mr_read *read, struct mr_pipeline_item *item);
    /*
     * Called in the caller's thread once for each item, in order. Anything but MR_OK ends the work.
     */
    mr_status (*take)(void *user, struct mr_pipeline_item *item, mr_error *error);
    /* Called in the caller's thread, at most ten times a second. True: end with MR_ERR_CANCELED. */
    bool (*tick)(void *user);
};

/*
 * Returns MR_OK after all items were taken; the first other status of take(); MR_ERR_CANCELED,
 * MR_ERR_NO_MEMORY. All threads have ended when it returns.
 */
mr_status mr_pipeline_run(const struct mr_pipeline_work *work, mr_error *error);

/* Allocate len bytes for a new item. MR_ERR_NO_MEMORY, with the item's error set. */
mr_status mr_pipeline_reserve(struct mr_pipeline_item *item, size_t len);

#endif
