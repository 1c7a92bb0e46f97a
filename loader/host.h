/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The host's side of the slab: which batches are published, filled, lent or free, and which samples
 * come next. The loader and its lent batches share it; the last of them frees it.
 *
 * Invariant: one private mutex guards everything here. There is no mutex in shared memory.
 */
#ifndef LOADER_HOST_H
#define LOADER_HOST_H

#include <pthread.h>
#include <sys/types.h>

#include "loader/control.h"
#include "loader/trace/trace.h"
#include "pinned/copier.h"
#include "pinned/slot_streams.h"
#include "sampler/sampler.h"

#include <millrace/loader.h>

/* Columns whose rows differ in length have an array of offsets, too. */
#define MR_BATCH_MAX_ARRAYS (2 * MR_COLUMNS_MAX)
#define MR_MAX_BUFFERS 64 /* on a device */

struct mr_host;

/*
 * A batch that can be lent. There is one per slot if slots are lent, otherwise one per device
 * buffer, plus one per part if there are several parts. The host's lock guards the fields marked
 * "lock". The other fields belong to the holder while the batch is lent.
 */
struct mr_batch {
    struct mr_host *host;
    struct mr_batch *whole; /* itself, unless this is a part */
    struct mr_batch *parts; /* itself if there is one part */
    uint32_t part;
    uint32_t n_parts;
    uint32_t buffer; /* or slot, if slots are lent */
    uint32_t slot;   /* that holds the samples, or held them */
    uint32_t n_rows;
    uint32_t n_valid;
    uint32_t n_warnings;
    uint32_t padded[2]; /* height and width of all rows, if they are padded; not in parts */
    uint64_t epoch;
    uint64_t number;
    uint64_t lent_ns; /* for the trace */
    uint32_t n_holds; /* lock; while lent: releases still to come */
    bool is_taken;    /* lock; staged, not yet released or dropped */
    bool is_issued;   /* lock; streams can be ordered after its copy */
    /* lock; its copy is about to be issued, or was issued and has not been seen to end */
    bool is_copying;
    bool is_lent;      /* lock; returned by next() */
    uint64_t freed_at; /* lock; host->n_freed at its last return */
    /* lock; its last hold has ended, but a stream was being captured, so it is not released yet */
    bool is_deferred;
    bool is_copy; /* made by mr_batch_copy(): no slot, a private host */
    /* lock; its copy has ended, but its slot has damage records to report when it is lent */
    bool keeps_slot;
    uint32_t n_arrays;
    /* Where the last row of a column ends, if its rows differ in length. */
    int64_t n_values[MR_COLUMNS_MAX];
    mr_array arrays[MR_BATCH_MAX_ARRAYS];
    mr_error error;
};

/*
 * A batch that the copier has taken: its samples are in a buffer or, if it has failed, still in its
 * slot.
 */
struct mr_staged {
    struct mr_batch *batch; /* NULL: failed */
    uint32_t slot;
};

/* Type and shape of the array "image" of a lent batch. */
struct mr_image_form {
    mr_dtype dtype;
    uint32_t ndim; /* of one sample */
    uint32_t n_channels;
    int64_t shape[MR_MAX_NDIM - 1];
};

/* Totals over copies, for the statistics; guarded by the host's lock. */
struct mr_copy_totals {
    uint64_t n_issued;
    /* summed at each issue: copies under way then, including the new one */
    uint64_t sum_copying;
    uint64_t bytes;
    uint64_t ns;
    uint64_t n_steps;
    uint64_t n_steps_ready;
};

/* When the head batch counts as ready: once its copy is issued, or once it has ended. */
enum mr_head_is { MR_HEAD_ISSUED, MR_HEAD_ENDED };

/* What next() would return now. NONE means MR_PENDING. */
enum mr_answer {
    MR_ANSWER_NONE,
    MR_ANSWER_BATCH, /* or the error that takes its place */
    MR_ANSWER_END,
    MR_ANSWER_CANCELED,
    MR_ANSWER_FATAL,
    MR_ANSWER_STUCK /* all slots or buffers are lent */
};

/* The descriptor of mr_loader_fd(); ready_fd.c. Guarded by the host's lock. */
struct mr_ready_fd {
    bool is_open; /* mr_loader_fd() was called; the other fields are valid */
    bool readable;
    int fd;
    pthread_t thread;
    /* signalled when it is no longer readable, or the host has failed or is closed */
    pthread_cond_t cleared;
};

/* State of the next epoch's order. A thread makes it, without the lock. */
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
    bool closed;     /* the loader is destroyed; nothing more is published */
    pid_t pid;       /* of the creator; another pid is a forked child */

    mr_loader_options options;       /* resolved; its strings are the next three members */
    int32_t *cpus;                   /* options.affinity_cpus */
    char *weights;                   /* options.weights; NULL without */
    char *lengths;                   /* options.lengths; NULL without */
    char *names[MR_MAX_DEVICES + 2]; /* of the devices and of the labels' device */
    struct mr_placement placement;
    struct mr_finish finish;
    struct mr_image_form image;
    struct mr_slab slab;
    struct mr_shared shared;
    struct mr_batch *batches; /* one per slot or device buffer */
    uint32_t n_batch_objects; /* length of batches */

    struct mr_trace *trace; /* NULL without a trace; the loader destroys it after closing */

    /* Used only if batches are copied to devices: */
    struct mr_copier *copier;  /* made by the copying thread; NULL if slots are lent */
    struct mr_staged *staging; /* batch with sequence s at [s & staging_mask] */
    uint64_t staging_mask;
    uint64_t staged; /* sequence of the next batch that the copier takes */
    uint32_t n_copying;
    struct mr_copy_totals copies;
    bool copying_ended; /* the copying thread has finished */

    /* Used only if page-locked slots are lent (pin_memory): */
    struct mr_device_name pin_device;
    struct mr_slot_streams *slot_streams; /* made by the freeing thread; NULL without a GPU */
    /* signalled when a slot was released on streams, or the host is closed */
    pthread_cond_t freeing_wanted;

    /* Used in both of these cases: */
    uint32_t n_deferred; /* batches whose release next() retries */
    uint64_t n_freed;    /* buffers or slots returned so far; orders them by age */
    bool is_page_locked; /* the slots are */
    bool opened;         /* the copying or freeing thread has tried to open the devices */
    mr_error open_error;
    pthread_cond_t opened_changed;

    mr_sampler *sampler; /* of the present epoch */
    /* of the epoch after it, see next_epoch_state; made when first needed */
    mr_sampler *next_sampler;
    mr_sampler_options sampler_options;
    struct mr_token_piece *pieces; /* room for those of a row of packed documents; NULL: no such */
    /* a thread makes the next epoch's order, so workers continue past the end of an epoch */
    bool has_next_epoch;
    enum mr_next_epoch next_epoch_state;
    bool next_epoch_rests; /* somebody waits for the thread, which begins nothing else */
    pthread_cond_t next_epoch_changed;
    uint64_t next_epoch;
    bool own_order; /* the caller gave the present epoch's order */

    uint64_t epoch;
    uint64_t n_batches;  /* of the present epoch */
    uint64_t n_returned; /* of n_batches, by next() */
    /* next one to publish, of the present epoch or, with pub_next, of the next one */
    uint64_t pub_batch;
    bool pub_next;
    uint64_t head;     /* sequence of the next batch to return */
    uint64_t tail;     /* sequence of the next batch to publish */
    bool canceled;     /* mr_loader_cancel() */
    bool end_returned; /* next() has returned MR_END in this epoch */
    struct mr_ready_fd ready_fd;
    bool warned_same_epoch;
    mr_error fatal; /* why the loader has failed; status 0: it has not */
};

struct mr_slot_view mr_host_slot(const struct mr_host *host, uint32_t i);

/* Add and drop a reference; the last drop frees everything. */
void mr_host_retain(struct mr_host *host);
void mr_host_release(struct mr_host *host);

/* Wait until the copying or freeing thread has opened the devices. */
mr_status mr_host_await_open(struct mr_host *host, mr_error *error);

/* With the lock held: publish a batch into each free slot, and wake the workers. */
void mr_host_publish(struct mr_host *host);

/* With the lock held, before the first batch of an epoch is published: clear its damage bits. */
void mr_host_forget_damage(struct mr_host *host, uint64_t epoch);

/*
 * With the lock held: drop the published batches. With keep, stop at the first one of this epoch.
 */
void mr_host_drop_published(struct mr_host *host, bool keep, uint64_t epoch);

/* With the lock held: the batch of this sequence is the next one to return. */
void mr_host_move_head(struct mr_host *host, uint64_t head);
/* With the lock held: publish, then determine what next() would return. */
enum mr_answer mr_host_answer(struct mr_host *host, enum mr_head_is how);
/*
 * With the lock held, after a change: make the descriptor of mr_loader_fd() readable if next() has
 * an answer, otherwise not.
 */
void mr_host_update_fd(struct mr_host *host);
/* With the lock held: the copier has taken the batch at staged. */
void mr_host_move_staged(struct mr_host *host, const struct mr_staged *staged);
/* With the lock held: the slot of a published batch. */
uint32_t mr_host_slot_of(const struct mr_host *host, uint64_t sequence);
/* With the lock held: is the next batch for the copier filled? */
bool mr_host_copier_is_next(const struct mr_host *host);
/*
 * With the lock held: the free device buffer that was returned first, because its streams have most
 * likely finished. NULL if none is free.
 */
struct mr_batch *mr_host_free_buffer(const struct mr_host *host);
/* With the lock held: this buffer's batch is not used any more; the buffer is free. */
void mr_host_give_buffer(struct mr_host *host, struct mr_batch *batch);

/* Fail the loader with this error, unless it has failed before. Wakes next(). Takes the lock. */
void mr_host_fail(struct mr_host *host, const mr_error *error);

#endif
