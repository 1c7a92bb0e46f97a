/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A trace's ring. The reader runs in the host and checks what it reads, because a worker may have
 * left anything in shared memory.
 */
#include "loader/trace/trace_ring.h"

#include <assert.h>

static_assert(sizeof(struct mr_trace_event) == 32, "two events to a cache line");
static_assert(sizeof(struct mr_trace_ring) % 64 == 0, "rings are adjacent");
static_assert((MR_TRACE_RING_EVENTS & (MR_TRACE_RING_EVENTS - 1)) == 0,
              "positions are computed by a mask");

void mr_trace_ring_write(struct mr_trace_ring *ring, enum mr_trace_kind kind, uint64_t begin_ns,
                         uint64_t end_ns, int64_t value)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    if (head - atomic_load_explicit(&ring->tail, memory_order_acquire) >= MR_TRACE_RING_EVENTS) {
        atomic_fetch_add_explicit(&ring->n_dropped, 1, memory_order_relaxed);
        return;
    }
    ring->events[head % MR_TRACE_RING_EVENTS] = (struct mr_trace_event){
        .begin_ns = begin_ns, .end_ns = end_ns, .value = value, .kind = kind};
    atomic_store_explicit(&ring->head, head + 1, memory_order_release);
}

uint32_t mr_trace_ring_take(struct mr_trace_ring *ring, struct mr_trace_event *events_out,
                            uint32_t max)
{
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t n = atomic_load_explicit(&ring->head, memory_order_acquire) - tail;
    if (n > MR_TRACE_RING_EVENTS) /* a broken worker has overwritten it */
        n = 0;
    n = n < max ? n : max;
    uint32_t n_taken = 0;
    for (uint64_t i = 0; i < n; i++) {
        struct mr_trace_event event = ring->events[(tail + i) % MR_TRACE_RING_EVENTS];
        if (event.kind >= MR_TRACE_N_KINDS)
            continue;
        if (event.end_ns < event.begin_ns)
            event.end_ns = event.begin_ns;
        events_out[n_taken++] = event;
    }
    atomic_store_explicit(&ring->tail, tail + n, memory_order_release);
    return n_taken;
}
