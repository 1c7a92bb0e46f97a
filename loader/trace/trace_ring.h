/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A ring of spans for a trace. It has one producer (a worker, by its number, or a thread of the
 * host) and one consumer, the trace's thread. The workers' rings are in the slab, if there is a
 * trace.
 *
 * Invariant: a worker may die at any instruction, and its successor continues in the same ring, so
 * an event counts only once head has moved past it. If the ring is full, the new event is dropped
 * and counted; a producer never waits.
 */
#ifndef LOADER_TRACE_RING_H
#define LOADER_TRACE_RING_H

#include <stdalign.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/clock.h"

/*
 * What the time was spent on. The value is a dataset index for the first three, a batch's number
 * for the others.
 */
enum mr_trace_kind {
    MR_TRACE_READ,      /* worker: from submit to reap; several at a time */
    MR_TRACE_DECODE,    /* worker */
    MR_TRACE_TRANSFORM, /* worker */
    MR_TRACE_ISSUE,     /* copier: issuing a batch's copies to the device */
    MR_TRACE_AWAIT,     /* copier: waiting until they have ended */
    MR_TRACE_COPY,      /* device: copy and finish, on its stream */
    MR_TRACE_WAIT,      /* consumer: in mr_loader_next() */
    MR_TRACE_STEP,      /* consumer: from lending to release of a batch; several at a time */
    MR_TRACE_N_KINDS
};

struct mr_trace_event {
    uint64_t begin_ns;
    uint64_t end_ns;
    int64_t value;
    uint32_t kind; /* enum mr_trace_kind */
    uint32_t spare;
};

/* 10 ms of a worker that puts 400 000 spans a second. */
enum { MR_TRACE_RING_EVENTS = 4096 };

struct mr_trace_ring {
    alignas(64) _Atomic uint64_t head; /* events put so far; the producer writes it (release) */
    _Atomic uint64_t n_dropped;        /* the producer writes it, relaxed */
    /* events taken so far; the trace's thread writes it (release) */
    alignas(64) _Atomic uint64_t tail;
    alignas(64) struct mr_trace_event events[MR_TRACE_RING_EVENTS];
};

/* For the producer; use mr_trace_ring_put(). */
void mr_trace_ring_write(struct mr_trace_ring *ring, enum mr_trace_kind kind, uint64_t begin_ns,
                         uint64_t end_ns, int64_t value);

/*
 * Take up to max events, oldest first. Returns how many. Their kinds are valid, and no span ends
 * before it begins.
 */
uint32_t mr_trace_ring_take(struct mr_trace_ring *ring, struct mr_trace_event *events_out,
                            uint32_t max);

/* Without a trace the ring is NULL, and a span costs two well-predicted branches. */
static inline uint64_t mr_trace_ring_begin(const struct mr_trace_ring *ring)
{
    return ring ? mr_clock_now_ns() : 0;
}

/* The span from begin_ns to now. */
static inline void mr_trace_ring_put(struct mr_trace_ring *ring, enum mr_trace_kind kind,
                                     uint64_t begin_ns, int64_t value)
{
    if (ring)
        mr_trace_ring_write(ring, kind, begin_ns, mr_clock_now_ns(), value);
}

/* The span from begin_ns to end_ns. */
static inline void mr_trace_ring_put_span(struct mr_trace_ring *ring, enum mr_trace_kind kind,
                                          uint64_t begin_ns, uint64_t end_ns, int64_t value)
{
    if (ring)
        mr_trace_ring_write(ring, kind, begin_ns, end_ns, value);
}

#endif
