/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the slab: which batches are published, filled, lent or free, and which samples
 * come next. The loader and its lent batches share it, so it lives until the last of them is gone.
 *
 * Invariant: one private mutex guards everything here. No mutex lies in shared memory.
 */
#ifndef LOADER_HOST_H
#define LOADER_HOST_H

#include <pthread.h>
#include <sys/types.h>

#include "loader/control.h"
#include "loader/trace.h"
#include "pinned/copier.h"
#include "pinned/slot_streams.h"
#include "sampler/sampler.h"

#include <millrace/loader.h>

#define MR_BATCH_ARRAYS 5 /* that every batch has */
/* Three where rows are mixed, values and offsets of byte arrays. */
#define MR_BATCH_MAX_ARRAYS (MR_BATCH_ARRAYS + 3 + 2 * MR_MAX_EXTRA)
#define MR_MAX_BUFFERS 64 /* on a device */

struct mr_host;

/*
 * One per slot where slots are lent, one per device buffer otherwise, and one more for each part
 * where there are several. What is marked "lock" is guarded by the host's; the rest is the holder's
 * while the batch is lent.
 */
struct mr_batch {
    struct mr_host *host;
    struct mr_batch *whole; /* itself but for a part */
    struct mr_batch *parts; /* itself where there is one part */
    uint32_t part;
    uint32_t n_parts;
    uint32_t buffer; /* or slot, where slots are lent */
    uint32_t slot;   /* that holds it, or held it */
    uint32_t n_rows;
    uint32_t n_valid;
    uint32_t n_warnings;
    uint64_t epoch;
    uint64_t number;
    uint64_t lent_ns;  /* for the trace */
    uint32_t n_holds;  /* lock; while lent: releases to come */
    bool is_taken;     /* lock; staged, and neither released nor dropped yet */
    bool is_issued;    /* lock; a stream may be made to wait for it */
    bool is_copying;   /* lock; about to be issued, or issued and its end was not seen yet */
    bool is_lent;      /* lock; returned by next() */
    uint64_t freed_at; /* lock; host->n_freed when it was given back last */
    bool is_deferred;  /* lock; nobody holds it, but a stream was in a capture when its last hold
                          ended */
    bool is_copy;      /* made by mr_batch_copy(): it has no slot, and its host is its own */
    bool keeps_slot;   /* lock; its copy has ended, but the slot has records to tell when it is
                          lent */
    uint32_t n_arrays;
    int64_t n_values[MR_MAX_EXTRA]; /* where the last row of each byte array ends */
    mr_array arrays[MR_BATCH_MAX_ARRAYS];
    mr_error error;
};

/*
 * A batch that the copier has taken: it lies in a buffer, or has failed and still lies in its slot.
 */
struct mr_staged {
    struct mr_batch *batch; /* NULL: failed */
    uint32_t slot;
};

/* What "image" looks like when it is lent. */
struct mr_image_form {
    mr_dtype dtype;
    uint32_t ndim; /* of one sample */
    int64_t shape[MR_MAX_NDIM - 1];
};

/* Of the copies, for the statistics; guarded by the host's lock. */
struct mr_copy_totals {
    uint64_t n_issued;
    uint64_t sum_copying; /* over the copies issued: how many were under way then, with itself */
    uint64_t bytes;
    uint64_t ns;
    uint64_t n_steps;
    uint64_t n_steps_ready;
};

/* Until when next() waits: the copy is under way, or has ended. */
enum mr_head_is { MR_HEAD_ISSUED, MR_HEAD_ENDED };

/* What next() would say now; NONE: MR_PENDING. */
enum mr_answer {
    MR_ANSWER_NONE,
    MR_ANSWER_BATCH, /* or the error in its place */
    MR_ANSWER_END,
    MR_ANSWER_CANCELED,
    MR_ANSWER_FATAL,
    MR_ANSWER_STUCK /* all are lent */
};

/* The descriptor of mr_loader_fd(); ready_fd.c. Guarded by the host's lock. */
struct mr_ready_fd {
    bool is_open; /* mr_loader_fd() was called; the rest is valid */
    bool readable;
    int fd;
    pthread_t thread;
    pthread_cond_t cleared; /* it is readable no longer, or the host has failed or is closed */
};

/* Is the order of the next epoch at hand? Made by a thread of its own, outside the lock. */
enum mr_next_epoch {
    MR_NEXT_EPOCH_NONE,
    MR_NEXT_EPOCH_WANTED,
    MR_NEXT_EPOCH_WORKING,
    MR_NEXT_EPOCH_READY,
    MR_NEXT_EPOCH_FAILED
};

struct mr_host {
    pthread_mutex_t lock;
    uint32_t n_refs; /* the loader and every lent batch */
    bool closed;     /* the loader is destroyed: nothing is published any more */
    pid_t pid;       /* of the creator; another pid is a forked child */

    mr_loader_options options;       /* resolved; its texts are the next ones */
    int32_t *cpus;                   /* those of the options */
    char *weights;                   /* path of those of the options; NULL */
    char *names[MR_MAX_DEVICES + 2]; /* of the devices, of the labels' device */
    struct mr_placement placement;
    struct mr_finish finish;
    struct mr_image_form image;
    struct mr_slab slab;
    struct mr_shared shared;
    struct mr_batch *batches; /* one per slot or device buffer */
    uint32_t n_batch_objects; /* of them */

    struct mr_trace *trace; /* NULL without; the loader's to destroy, once closed */

    /* Only where batches are copied to devices: */
    struct mr_copier *copier;  /* made by the copying thread; NULL where slots are lent */
    struct mr_staged *staging; /* batch with sequence s at [s & staging_mask] */
    uint64_t staging_mask;
    uint64_t staged; /* sequence of the next batch that the copier takes */
    uint32_t n_copying;
    struct mr_copy_totals copies;
    bool copying_ended; /* the copying thread issues and awaits nothing any more */

    /* Only where page-locked slots are lent (pin_memory): */
    struct mr_device_name pin_device;
    struct mr_slot_streams *slot_streams; /* made by the freeing thread; NULL without a GPU */
    pthread_cond_t freeing_wanted;        /* a slot was released on streams, or the host is
                                             closed */

    /* Where there is a device, in either way: */
    uint32_t n_deferred; /* batches that next() tries to give back */
    uint64_t n_freed;    /* buffers, or slots on streams, given back so far */
    bool is_page_locked; /* the slots are */
    bool opened;         /* the copying or freeing thread has opened the devices, or failed: */
    mr_error open_error;
    pthread_cond_t opened_changed;

    mr_sampler *sampler;      /* of the present epoch */
    mr_sampler *next_sampler; /* of the epoch after it, see next_epoch_state; made when first
                                 needed */
    mr_sampler_options sampler_options;
    bool has_next_epoch; /* a thread makes the next order: work goes on beyond the end of an
                            epoch */
    enum mr_next_epoch next_epoch_state;
    pthread_cond_t next_epoch_changed;
    uint64_t next_epoch;
    bool own_order; /* the present epoch's order is the caller's */

    uint64_t epoch;
    uint64_t n_batches;  /* of the present epoch */
    uint64_t n_returned; /* of them, by next() */
    uint64_t pub_batch;  /* next one to publish, of the present epoch, or of the next when
                            pub_next */
    bool pub_next;
    uint64_t head;     /* sequence of the next batch to return */
    uint64_t tail;     /* sequence of the next batch to publish */
    bool canceled;     /* mr_loader_cancel() */
    bool end_returned; /* MR_END, by next(), since the epoch was set */
    struct mr_ready_fd ready_fd;
    bool warned_same_epoch;
    mr_error fatal; /* status 0, or why the loader is at its end */
};

struct mr_slot_view mr_host_slot(const struct mr_host *host, uint32_t i);

/* Take and give a reference; the last one frees everything. */
void mr_host_retain(struct mr_host *host);
void mr_host_release(struct mr_host *host);

/* Wait until the copying or freeing thread has opened the devices. */
mr_status mr_host_await_open(struct mr_host *host, mr_error *error);

/* With the lock held: publish every batch for which there is a slot, and wake the workers. */
void mr_host_publish(struct mr_host *host);

/*
 * With the lock held, before the first batch of an epoch is published: nothing is known of its
 * damage yet.
 */
void mr_host_forget_damage(struct mr_host *host, uint64_t epoch);

/*
 * With the lock held: drop the batches that are published; with keep, all but those of this epoch.
 */
void mr_host_drop_published(struct mr_host *host, bool keep, uint64_t epoch);

/* With the lock held: the batch of this sequence is the next one to return. */
void mr_host_move_head(struct mr_host *host, uint64_t head);
/* With the lock held: publish, and find what next() would say. */
enum mr_answer mr_host_answer(struct mr_host *host, enum mr_head_is how);
/*
 * With the lock held: make the descriptor of mr_loader_fd() readable, or not, after what may change
 * the answer.
 */
void mr_host_update_fd(struct mr_host *host);
/* With the lock held: the copier has taken the batch at staged. */
void mr_host_move_staged(struct mr_host *host, const struct mr_staged *staged);
/* With the lock held: the slot of a published sequence; is the next batch for the copier filled? */
uint32_t mr_host_slot_of(const struct mr_host *host, uint64_t sequence);
bool mr_host_copier_is_next(const struct mr_host *host);
/*
 * With the lock held: the device buffer that may be filled next, of several the one that was given
 * back first, whose streams are likeliest to have ended; NULL when none is free.
 */
struct mr_batch *mr_host_free_buffer(const struct mr_host *host);
/* With the lock held: nobody has this buffer's batch any more. */
void mr_host_give_buffer(struct mr_host *host, struct mr_batch *batch);

/* End the loader with this error, once; wakes next(). Takes the lock. */
void mr_host_fail(struct mr_host *host, const mr_error *error);

#endif
