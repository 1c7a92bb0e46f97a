/* SPDX-License-Identifier: Apache-2.0 */
/* The struct of the public handle, for the files that implement <millrace/loader.h>. */
#ifndef LOADER_LOADER_H
#define LOADER_LOADER_H

#include "base/thread.h"
#include "cache/cache_thread.h"
#include "loader/host.h"
#include "loader/damage.h"
#include "loader/supervisor.h"
#include "loader/workers/worker.h"

struct mr_loader {
    struct mr_host *host;
    mr_dataset *dataset;
    struct mr_supervisor *supervisor;     /* NULL with MR_NO_WORKERS */
    struct mr_worker *worker;             /* runs in the caller's thread; with MR_NO_WORKERS only */
    struct mr_cache_thread *cache_thread; /* NULL without a cache */
    struct mr_thread next_epoch;
    struct mr_thread copying; /* to devices */
    struct mr_thread freeing; /* page-locked slots */
    struct mr_thread reserver;
    bool holds_keys; /* of stores, so they are renewed */
    struct mr_damage damage;
    mr_error error; /* of the last failed call */
    /* Statistics of the consumer. next() writes them; readers hold the host's lock. */
    uint64_t n_batches;
    uint64_t n_samples;
    uint64_t n_warnings;
    uint64_t consumer_wait_ns;
    uint64_t first_next_ns;
};

#endif
