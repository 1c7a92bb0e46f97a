/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl engine's state, shared by its files: one communicator, the engine's stream, and pools of
 * what collectives need, so that nothing is allocated after a program's first step.
 *
 * Invariant: abort() may come from another thread at any moment. So NCCL calls with the
 * communicator are made under comm_lock, and none of them should wait for another rank. is_aborted
 * is set before anything ends: after that, an event that has passed does not mean that its
 * collective succeeded.
 */
#ifndef DIST_NCCL_NCCL_STATE_H
#define DIST_NCCL_NCCL_STATE_H

#include "dist/group/engine_table.h"

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#if NCCL_MAJOR < 2 || (NCCL_MAJOR == 2 && NCCL_MINOR < 18)
#error "NCCL 2.18 or later is needed"
#endif

struct mr_nccl_ticket;      /* nccl_pool.h */
struct mr_nccl_stage;       /* nccl_pool.h */
struct mr_nccl_metric_sums; /* nccl_metric_sums.h */

struct mr_nccl_engine {
    uint32_t rank;
    uint32_t n_ranks;
    int32_t device;
    bool is_adopted;
    cudaStream_t stream;
    cudaEvent_t ready; /* recorded in a caller's stream; the engine's stream waits for it */
    void *cell;        /* one number on the device, always 0: a barrier sums it */

    pthread_mutex_t comm_lock;
    ncclComm_t comm;        /* NULL: none, or aborted */
    atomic_bool is_aborted; /* set without the lock */
    /* comm was passed to NCCL's abort or destroy; set once, also without the lock */
    atomic_bool is_ended;

    pthread_mutex_t pool_lock;
    struct mr_nccl_ticket *tickets; /* a list of the free ones */
    struct mr_nccl_stage *stages;   /* likewise */

    struct mr_nccl_metric_sums *metric_sums; /* used by the caller's thread only */

    atomic_ulong caller; /* pthread_t of the last issue */
    atomic_ulong watch;  /* pthread_t of the thread that checks health; it keeps our device set */
};

#endif
