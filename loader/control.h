/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of the slab: constants that workers need, the ticket counter, the words that host and
 * workers sleep on, and one record per worker. It holds offsets, never pointers.
 */
#ifndef LOADER_CONTROL_H
#define LOADER_CONTROL_H

#include <stdalign.h>

#include "cache/cache_region.h"
#include "loader/damage_map.h"
#include "loader/trace/trace_ring.h"
#include "pinned/slab.h"
#include "pinned/slot.h"
#include "transforms/codec.h"
#include "transforms/plan.h"

#include <millrace/loader.h>

/* What a worker is doing. The worker writes it, the supervisor reads it. */
enum mr_doing {
    MR_DOING_NOTHING,
    MR_DOING_READING,
    MR_DOING_DECODING,
    MR_DOING_PACKING, /* for the cache; no sample of a batch */
    MR_DOING_MIXING   /* rows, from finished samples */
};

/*
 * One per worker, indexed by its number. The worker writes it with relaxed order unless a field
 * says otherwise.
 */
struct mr_worker_record {
    /* changes at each step of progress; the supervisor's time limit watches it */
    alignas(64) _Atomic uint32_t beat;
    _Atomic uint32_t doing; /* enum mr_doing */
    /* 1 around the wait on work_word; seq_cst, see mr_control_wake_workers() */
    _Atomic uint32_t asleep;
    _Atomic uint32_t cause;  /* signal of a crash, written by the fault handler */
    _Atomic int64_t index;   /* dataset index of the sample that is being decoded */
    _Atomic uint64_t n_done; /* samples finished since the loader was created */
    _Atomic uint64_t read_ns;
    _Atomic uint64_t decode_ns;
    _Atomic uint64_t transform_ns;
    _Atomic uint64_t wait_ns;
    _Atomic uint64_t busy_ns;
    _Atomic uint64_t bytes_read;
    _Atomic uint64_t n_cached; /* samples from the cache */
    _Atomic uint32_t reader;   /* the first letter of its name; 0: none yet */
    _Atomic uint32_t failed;   /* 1: error says why the worker stopped (release) */
    int32_t cpu;               /* written by the host before the start; -1: no affinity */
    /* 1: move to the control block's near_cpus; the host sets it once, at any time (release) */
    _Atomic uint32_t near;
    mr_error error;
};

#define MR_CONTROL_CPUS 1024 /* as cpu_set_t */

enum { MR_MAX_AHEAD = 128 }; /* samples that a worker reads ahead */

struct mr_control {
    uint64_t magic; /* MR_CONTROL_MAGIC */
    uint64_t build; /* mr_control_build(); a worker of another build refuses the slab */
    /* Constants. */
    int64_t host_pid;
    mr_loader_options options; /* as of the slab's creation; the pointers are the host's */
    int64_t n_samples;
    uint32_t n_workers;
    /* 1: with skip, a damaged sample leaves a hole, because the tail is exact */
    uint32_t holes;
    uint32_t substitutes; /* 1: the next good sample takes a damaged one's place */
    uint32_t ring_mask;   /* entries of the ring - 1 */
    uint64_t records_off;
    uint64_t ring_off;
    uint32_t with_trace; /* each worker writes its spans into a ring */
    uint32_t slab_pages; /* enum mr_slab_pages; workers ask for the same kind */
    uint32_t with_cache; /* there is a cache, and its region is valid */
    uint64_t cache_off;  /* struct mr_cache_region; 0: none was laid out */
    /* shards that a worker keeps open; 0: as many as its process may open */
    uint32_t max_files;
    /* bits of damaged samples, for even and for odd epochs; 0 unless substitutes is set */
    uint64_t damage_off;
    uint64_t trace_off; /* the workers' trace rings; 0 without a trace */
    /* Bit c % 64 of word c / 64: CPU c is near the device. Written before `near` is set. */
    uint64_t near_cpus[MR_CONTROL_CPUS / 64];
    struct mr_slot_layout layout;
    struct mr_plan plan;
    /* of the finished rows: a copy of plan, or with mixing plan makes the pixels before it */
    struct mr_plan mixed;
    uint32_t n_views;   /* beside that of plan */
    uint64_t views_off; /* their plans, then those of their finished rows */
    /* Shared words, on separate cache lines. */
    /* next place to suggest: sequence * batch_size + place; workers add 1, the host skips ahead */
    alignas(64) _Atomic uint64_t ticket;
    /* Tickets below this one are published; the host writes it (release). */
    alignas(64) _Atomic uint64_t limit;
    /* Workers sleep on it; changed by every publish and every death. */
    alignas(64) _Atomic uint32_t work_word;
    /* The host sleeps on it; changed when a slot may be filled. */
    alignas(64) _Atomic uint32_t filled_word;
    /* host threads (consumer, copier) that sleep on filled_word or are about to; seq_cst */
    _Atomic uint32_t host_waits;
    _Atomic uint32_t stop; /* 1: workers end */
    /* worker deaths; the supervisor adds, and each worker sweeps when it has changed */
    _Atomic uint32_t n_deaths;
    /* sequence of the batch that the host needs next; the host writes it, relaxed */
    _Atomic uint64_t head;
};

#define MR_CONTROL_MAGIC UINT64_C(0x6563617272696c6d) /* "millrace" */

/* Pointers into a mapped slab; private to a process. */
struct mr_shared {
    uint8_t *base;
    struct mr_control *control;
    struct mr_worker_record *records;
    _Atomic uint32_t *ring; /* slot of the batch with sequence s at [s & ring_mask] */
};

/* Identifies layout and version of the shared structures. */
uint64_t mr_control_build(void);

/* A worker's part of the connections to servers. */
uint32_t mr_control_connections(const mr_loader_options *options);
/*
 * The most samples that a worker reads ahead. If read_ahead is 0, its reader decides how many of
 * them are of use.
 */
uint32_t mr_control_read_ahead(const mr_loader_options *options);

/*
 * Choose the offsets of records, rings, views, the cache's region and damage bits. Returns the
 * bytes before the slots. The caller sets with_trace, with_cache, substitutes, n_samples and
 * n_views first.
 */
uint64_t mr_control_lay_out(struct mr_control *control, uint32_t n_workers, uint32_t n_slots);

/* Pointers into a slab whose control block is filled in. */
struct mr_shared mr_control_map(uint8_t *base);
/* The same in a worker, after checks. MR_ERR_UNSUPPORTED if another build made the slab. */
mr_status mr_control_attach(const struct mr_slab *slab, struct mr_shared *shared_out,
                            mr_error *error);

/* The slot that holds the batch with this sequence number, from the ring. */
struct mr_slot_view mr_control_slot(const struct mr_shared *shared, uint64_t sequence);

/* The plans of the views beside the first, then those of their finished rows; NULL without any. */
struct mr_plan *mr_control_views(const struct mr_shared *shared);
/* What workers write of a view, counted from 0, and what its finished rows are. */
const struct mr_plan *mr_control_plan(const struct mr_shared *shared, uint32_t view);
const struct mr_plan *mr_control_mixed(const struct mr_shared *shared, uint32_t view);

/* The cache's region; NULL without a cache. */
struct mr_cache_region *mr_control_cache(const struct mr_shared *shared);

/*
 * The samples found damaged in this epoch. Its words are NULL if no sample may be replaced. How
 * much of an image is decoded depends on the epoch's draws, so a sample that is damaged in one
 * epoch may be good in the next.
 */
struct mr_damage_map mr_control_damage(const struct mr_shared *shared, uint64_t epoch);

/* A worker's trace ring; NULL without a trace. */
struct mr_trace_ring *mr_control_trace_ring(const struct mr_shared *shared, uint32_t worker);

/* Change the word and wake its sleepers. No system call if nothing sleeps. */
void mr_control_wake_workers(const struct mr_shared *shared);
void mr_control_wake_host(const struct mr_shared *shared);

#endif
