/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The start of the slab: what the host and its workers share beside the slots. It has the constants
 * that workers need, the ticket counter, the words they sleep on, and one record per worker. It
 * holds offsets, never pointers.
 */
#ifndef LOADER_CONTROL_H
#define LOADER_CONTROL_H

#include <stdalign.h>

#include "cache/cache_region.h"
#include "loader/damage_map.h"
#include "loader/trace_ring.h"
#include "pinned/slab.h"
#include "pinned/slot.h"
#include "transforms/codec.h"
#include "transforms/plan.h"

#include <millrace/loader.h>

/* What a worker is doing; written by the worker, read by the supervisor. */
enum mr_doing {
    MR_DOING_NOTHING,
    MR_DOING_READING,
    MR_DOING_DECODING,
    MR_DOING_PACKING, /* for the cache; no sample of a batch */
    MR_DOING_MIXING   /* rows of samples that are made */
};

/* One per worker, by its number. Written by the worker with relaxed order unless said otherwise. */
struct mr_worker_record {
    alignas(64) _Atomic uint32_t beat; /* changes whenever the worker makes progress; the
                                          supervisor's time limit watches it */
    _Atomic uint32_t doing;            /* enum mr_doing */
    _Atomic uint32_t asleep;           /* 1 around the wait on work_word; seq_cst, see
                                          mr_control_wake_workers() */
    _Atomic uint32_t cause;            /* signal of a crash, written by the fault handler */
    _Atomic int64_t index;             /* dataset index of the sample in decoding */
    _Atomic uint64_t n_done;           /* samples finished, since the loader began */
    _Atomic uint64_t read_ns;
    _Atomic uint64_t decode_ns;
    _Atomic uint64_t transform_ns;
    _Atomic uint64_t wait_ns;
    _Atomic uint64_t busy_ns;
    _Atomic uint64_t bytes_read;
    _Atomic uint64_t n_cached; /* samples from the cache */
    _Atomic uint32_t uses_uring;
    _Atomic uint32_t failed; /* 1: error says why the worker could not go on (release) */
    int32_t cpu;             /* written by the host before the start; -1: no affinity */
    _Atomic uint32_t near;   /* 1: on the control block's near_cpus, from now on; the host
                                (release), once, at any time */
    mr_error error;
};

#define MR_CONTROL_CPUS 1024 /* as cpu_set_t */

struct mr_control {
    uint64_t magic; /* MR_CONTROL_MAGIC */
    uint64_t build; /* mr_control_build(): a worker of another build refuses the slab */
    /* Constants. */
    int64_t host_pid;
    mr_loader_options options; /* as they were when the slab was made; the pointers are the
                                  host's */
    int64_t n_samples;
    uint32_t n_workers;
    uint32_t holes;       /* 1: a damaged sample under skip leaves a hole, because the tail is
                             exact */
    uint32_t substitutes; /* 1: a damaged sample's place gets the next good one */
    uint32_t ring_mask;   /* entries of the ring - 1 */
    uint64_t records_off;
    uint64_t ring_off;
    uint32_t with_trace; /* workers put their spans into rings of their own */
    uint32_t slab_pages; /* enum mr_slab_pages; workers ask for the same */
    uint32_t with_cache; /* there is a cache; its region is valid */
    uint64_t cache_off;  /* struct mr_cache_region, where one was laid out; else 0 */
    uint32_t max_files;  /* shards that a worker keeps open; 0: what its own process may */
    uint64_t damage_off; /* bits of damaged samples, of even and of odd epochs, with substitutes;
                            else 0 */
    uint64_t trace_off;  /* those rings, by worker; 0 without */
    /* bit c % 64 of word c / 64: CPU c is near the device; before near */
    uint64_t near_cpus[MR_CONTROL_CPUS / 64];
    struct mr_slot_layout layout;
    struct mr_plan plan;
    struct mr_plan mixed; /* of the finished rows where rows are mixed; plan is then that of
                             their pixels */
    /* Shared words, each on a cache line of its own. */
    alignas(64) _Atomic uint64_t ticket; /* next place to suggest: sequence x batch_size + place;
                                            workers add, the host skips */
    /* tickets below it are published; the host (release) */
    alignas(64) _Atomic uint64_t limit;
    /* workers sleep on it; changed by every publish and every death */
    alignas(64) _Atomic uint32_t work_word;
    /* the host sleeps on it; changed when a slot may be filled */
    alignas(64) _Atomic uint32_t filled_word;
    _Atomic uint32_t host_waits; /* threads of the host (the consumer, the copier) that sleep on
                                    filled_word or are about to; seq_cst */
    _Atomic uint32_t stop;       /* 1: workers end */
    _Atomic uint32_t n_deaths;   /* of workers; the supervisor; each worker sweeps when it has
                                    changed */
    _Atomic uint64_t head;       /* sequence of the batch that the host wants next; the host,
                                    relaxed */
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

/*
 * Where control, records, rings, the cache's region and the bits of damage lie; fills in the
 * offsets and returns the bytes before the slots. with_trace, with_cache, substitutes and n_samples
 * are set before.
 */
uint64_t mr_control_lay_out(struct mr_control *control, uint32_t n_workers, uint32_t n_slots);

/* Pointers into a slab that the host has filled in. */
struct mr_shared mr_control_map(uint8_t *base);
/* The same in a worker, after checks. MR_ERR_UNSUPPORTED when the slab is of another build. */
mr_status mr_control_attach(const struct mr_slab *slab, struct mr_shared *shared_out,
                            mr_error *error);

/* The slot that holds the batch of this sequence number now, by the ring. */
struct mr_slot_view mr_control_slot(const struct mr_shared *shared, uint64_t sequence);

/* What is known of the cache; NULL where there is none. */
struct mr_cache_region *mr_control_cache(const struct mr_shared *shared);

/*
 * The samples found damaged in this epoch; without words where no sample may be replaced. An
 * epoch's draws decide how much of an image is decoded, so in another epoch the same sample may be
 * good.
 */
struct mr_damage_map mr_control_damage(const struct mr_shared *shared, uint64_t epoch);

/* A worker's ring for the trace; NULL where there is none. */
struct mr_trace_ring *mr_control_trace_ring(const struct mr_shared *shared, uint32_t worker);

/* Change the word, and wake who sleeps on it. Without a system call when nobody does. */
void mr_control_wake_workers(const struct mr_shared *shared);
void mr_control_wake_host(const struct mr_shared *shared);

#endif
