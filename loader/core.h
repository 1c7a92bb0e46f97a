/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the slab: which batches are published, filled, lent, free, and which samples come next. Shared by
 * the loader and its lent batches, so it lives until the last of them is gone.
 *
 * One private mutex guards everything here; no mutex lies in shared memory.
 */
#ifndef LOADER_CORE_H
#define LOADER_CORE_H

#include <pthread.h>
#include <sys/types.h>

#include "loader/control.h"
#include "pinned/device.h"
#include "sampler/order.h"

#include <millrace/loader.h>

#define MR_BATCH_ARRAYS 5

struct mr_core;

struct mr_batch {
    struct mr_core *core;
    uint32_t slot;
    uint32_t n_rows;
    uint32_t n_valid;
    uint64_t epoch;
    uint64_t number;
    mr_array arrays[MR_BATCH_ARRAYS];
};

/* Is the order of the next epoch at hand? Made by the planner thread, outside the lock. */
enum mr_ahead { MR_AHEAD_NONE, MR_AHEAD_WANTED, MR_AHEAD_WORKING, MR_AHEAD_READY, MR_AHEAD_FAILED };

struct mr_core {
    pthread_mutex_t lock;
    uint32_t n_refs; /* the loader and every lent batch */
    bool closed;     /* the loader is destroyed: nothing is published any more */
    pid_t pid;       /* of the creator; another pid is a forked child */

    mr_loader_options options; /* resolved */
    int32_t *cpus;             /* those of the options */
    const struct mr_device_table *device_table;
    mr_device device;
    struct mr_slab slab;
    struct mr_shared shared;
    struct mr_batch *batches; /* one per slot */

    mr_sampler *sampler; /* of the present epoch */
    mr_sampler *next;    /* of the epoch after it, see ahead; made by the planner when first needed */
    mr_sampler_options sampler_options;
    bool goes_ahead; /* there is a planner: work goes on beyond the end of an epoch */
    enum mr_ahead ahead;
    pthread_cond_t ahead_changed;
    uint64_t ahead_epoch;
    bool own_order; /* the present epoch's order is the caller's */

    uint64_t epoch;
    uint64_t n_batches;  /* of the present epoch */
    uint64_t n_returned; /* of them, by next() */
    uint64_t pub_batch;  /* next one to publish, of the present epoch, or of the next when pub_next */
    bool pub_next;
    uint64_t head; /* sequence of the next batch to return */
    uint64_t tail; /* sequence of the next batch to publish */
    bool canceled; /* mr_loader_cancel() */
    bool warned_same_epoch;
    mr_error fatal; /* status 0, or why the loader is at its end */
};

struct mr_slot_view mr_core_slot(const struct mr_core *core, uint32_t i);

/* Take and give a reference; the last one frees everything. */
void mr_core_retain(struct mr_core *core);
void mr_core_release(struct mr_core *core);

/* With the lock held: publish every batch for which there is a slot, and wake the workers. */
void mr_core_publish(struct mr_core *core);

/* With the lock held: begin with the first epoch, once the samplers and the slab are there. */
void mr_core_open(struct mr_core *core);

/* Where to begin. */
struct mr_epoch_start {
    uint64_t epoch;
    const int64_t *indices; /* an order of the caller's own, n of them; NULL: the sampler's */
    int64_t n;
    uint64_t skip; /* batches that were used already */
    bool restored; /* from a saved position: using an epoch again is meant */
};

/* With the lock held: go there. On failure the loader stands where it stood. */
mr_status mr_core_set_epoch(struct mr_core *core, const struct mr_epoch_start *start, mr_error *error);

/* With the lock held: the batch of this sequence is the next one to return. */
void mr_core_move_head(struct mr_core *core, uint64_t head);
/* With the lock held: is the batch at head published, and filled? */
bool mr_core_head_is_published(const struct mr_core *core);
bool mr_core_head_is_filled(const struct mr_core *core);
/* With the lock held: will a slot come free without the caller's doing? */
bool mr_core_awaits_slot(const struct mr_core *core);

/* End the loader with this error, once; wakes next(). Takes the lock. */
void mr_core_fail(struct mr_core *core, const mr_error *error);

/* Should the planner make the order of ahead_epoch? Then the epoch after it, until closed. The body of its thread. */
void mr_core_plan(struct mr_core *core);

/* Fill in the batch of a slot that was just returned. */
void mr_batch_fill(struct mr_batch *batch, struct mr_core *core, uint32_t slot);

#endif
