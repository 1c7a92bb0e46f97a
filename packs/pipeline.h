/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Runs a function on every sample of a dataset in threads; the caller's thread takes the results in
 * order. Used for packing, checking and unpacking. Each worker has its own reader with a few reads
 * in flight. The number and the bytes of results that wait are bounded.
 */
#ifndef PACKS_PIPELINE_H
#define PACKS_PIPELINE_H

#include "dataset/reader.h"

/* One sample on its way. The worker fills it in, the caller's thread takes it. */
struct mr_pipeline_item {
    uint64_t position;
    int64_t index;
    mr_status status; /* of reading and of run(); error is set where it is negative */
    mr_error error;
    uint64_t read_bytes;
    uint8_t *bytes; /* of mr_pipeline_reserve(); freed after take() */
    size_t len;
    void *result; /* result_bytes of the caller's, 16-aligned and zero when run() is called */
};

struct mr_pipeline_work {
    const struct mr_catalog *catalog;
    uint64_t first; /* position to begin with */
    uint64_t end;   /* and the one behind the last */
    uint32_t n_workers;
    bool marks; /* also read the marks of samples of a pack */
    size_t result_bytes;
    void *user;
    /* The sample at a position. Threads: any. */
    int64_t (*index_at)(const void *user, uint64_t position);
    /* A worker's own state, made in the caller's thread, used in the worker's. */
    mr_status (*open)(void *user, void **worker_out, mr_error *error);
    void (*close)(void *worker);
    /*
     * In a worker, on a sample that was read whole (of a pack: with what stands beside it). It
     * copies the bytes that it needs later. Its return value becomes the item's status; item->error
     * is set where that is negative.
     */
    mr_status (*run)(void *worker, const struct mr_read *read, struct mr_pipeline_item *item);
    /* In the caller's thread, in order, each item once. Anything but MR_OK ends the work. */
    mr_status (*take)(void *user, struct mr_pipeline_item *item, mr_error *error);
    /* In the caller's thread, at most ten times a second; true: end with MR_ERR_CANCELED. */
    bool (*tick)(void *user);
};

/*
 * Returns MR_OK when all were taken; what take() returned; MR_ERR_CANCELED, MR_ERR_NO_MEMORY. No
 * thread is left.
 */
mr_status mr_pipeline_run(const struct mr_pipeline_work *work, mr_error *error);

/* Room for len bytes in a new item. MR_ERR_NO_MEMORY, with the item's error set. */
mr_status mr_pipeline_reserve(struct mr_pipeline_item *item, size_t len);

#endif
