/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The nccl engine inside: one communicator, one stream of its own, and pools of what collectives need, so that nothing
 * is allocated once a program has gone through its first step.
 *
 * Easy to get wrong: abort() comes from another thread, in the middle of whatever. So calls of NCCL with the
 * communicator are made under comm_lock, none of them should wait for another rank, and is_aborted is set before
 * anything ends: an event that has passed says nothing about its collective after that.
 */
#ifndef DIST_NCCL_NCCL_ENGINE_H
#define DIST_NCCL_NCCL_ENGINE_H

#include "dist/group/engine_table.h"

#include <nccl.h>
#include <pthread.h>
#include <stdatomic.h>

#if NCCL_MAJOR < 2 || (NCCL_MAJOR == 2 && NCCL_MINOR < 18)
#error "NCCL 2.18 or later is needed"
#endif

/* Pinned memory and as much of the device's, for what the library itself reduces. */
struct mr_nccl_stage {
    struct mr_nccl_stage *next; /* of the pool's */
    size_t size;
    char *host;
    char *device;
};

/* A collective under way. */
struct mr_nccl_ticket {
    struct mr_nccl_ticket *next; /* of the pool's */
    cudaEvent_t ended;
    struct mr_nccl_stage *stage; /* NULL: the buffers are the caller's */
    void *out;     /* under pool_lock: where the host's result goes; NULL: it is there, or there is none */
    size_t out_at; /* in the stage */
    size_t out_len;
};

#define MR_NCCL_ADDERS 8 /* streams that are told apart */

/* The last add of one stream since the last reduction; after it come all adds of that slot. */
struct mr_nccl_adder {
    void *stream;
    cudaEvent_t last;
    bool is_used;
};

/* Sums on the device: adds go to one of two accumulators while the other one is being reduced. */
struct mr_nccl_metric_sums {
    struct mr_nccl_metric_sums *next; /* of the engine's, in use or not */
    bool is_used;
    uint32_t n;
    uint32_t size;          /* n may be up to this */
    double *accumulator[2]; /* on the device, one allocation */
    cudaEvent_t taken[2];   /* all 0 from here on */
    uint32_t turn;          /* which one is added to */
    uint32_t next_slot;
    struct mr_nccl_adder adders[MR_NCCL_ADDERS];
    uint8_t *last_slot; /* per number: slot + 1 of the last add; 0: none */
};

struct mr_nccl_engine {
    uint32_t rank;
    uint32_t n_ranks;
    int32_t device;
    bool is_adopted;
    cudaStream_t stream;
    cudaEvent_t ready; /* recorded in a caller's stream, waited for by ours */
    void *cell;        /* one number on the device, 0: what a barrier adds up */

    pthread_mutex_t comm_lock;
    ncclComm_t comm;        /* NULL: none, or aborted */
    atomic_bool is_aborted; /* set without the lock */
    atomic_bool is_ended;   /* comm was given to NCCL's abort or destroy, once; also without the lock */

    pthread_mutex_t pool_lock;
    struct mr_nccl_ticket *tickets; /* not in use */
    struct mr_nccl_stage *stages;   /* not in use */

    struct mr_nccl_metric_sums *metric_sums; /* of the caller's thread */

    atomic_ulong caller; /* pthread_t of the last issue */
    atomic_ulong watch;  /* pthread_t of the thread that asks for health; it keeps our device as its own */
};

/* nccl_issue.c: the functions of struct mr_engine_device. */
int32_t mr_nccl_issue(void *user, const struct mr_collective *collective, uint64_t deadline_ns,
                      const volatile uint32_t *stop, void **ticket_out, mr_error *error);
int32_t mr_nccl_issue_test(void *user, void *ticket, mr_error *error);
int32_t mr_nccl_issue_wait(void *user, void *ticket, void *stream, mr_error *error);
/* May the stream be given something that is no part of a graph? MR_ERR_STATE: it is being captured. */
int32_t mr_nccl_issue_check(const struct mr_nccl_engine *engine, void *stream, mr_error *error);

/* nccl_comm.c: the communicator. */
/* Take setup->adopt over; gives the engine its device where setup names none. */
int32_t mr_nccl_comm_adopt(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup, mr_error *error);
/* Connect on the current device, by setup->deadline_ns. */
int32_t mr_nccl_comm_open(struct mr_nccl_engine *engine, const struct mr_engine_setup *setup, const ncclUniqueId *id,
                          mr_error *error);
/* One collective of device memory into the engine's stream. Returns when it stands there. */
int32_t mr_nccl_comm_put(struct mr_nccl_engine *engine, const struct mr_collective *collective, uint64_t deadline_ns,
                         const volatile uint32_t *stop, mr_error *error);
int32_t mr_nccl_comm_health(void *user, mr_error *error);
void mr_nccl_comm_abort(void *user);
/* Finalize and destroy it, or abort it. Blocks; may never return when NCCL does not. */
void mr_nccl_comm_close(struct mr_nccl_engine *engine, bool healthy);

/* nccl_pool.c */
/* Nothing larger is staged. */
#define MR_NCCL_POOL_MAX ((size_t)1 << 20)
/* stage_size 0: a ticket without a stage. */
int32_t mr_nccl_pool_take(struct mr_nccl_engine *engine, size_t stage_size, struct mr_nccl_ticket **ticket_out,
                          mr_error *error);
void mr_nccl_pool_drop(void *user, void *ticket);
void mr_nccl_pool_free(struct mr_nccl_engine *engine);

/* nccl_adds.c */
int32_t mr_nccl_metric_sums_create(void *user, uint32_t n, void **sums_out, mr_error *error);
int32_t mr_nccl_metric_sums_add(void *user, void *handle, uint32_t at, const void *value, uint32_t dtype, double count,
                                void *stream, mr_error *error);
void mr_nccl_metric_sums_destroy(void *user, void *handle);
/* In the engine's stream: to[i] += the sums so far, which begin again at 0. */
int32_t mr_nccl_metric_sums_take(struct mr_nccl_engine *engine, struct mr_nccl_metric_sums *metric_sums, double *to,
                                 mr_error *error);
void mr_nccl_metric_sums_free(struct mr_nccl_engine *engine);

/* nccl_ranks.c: the cards of all ranks are compared by rank 0, which gives the communicator's id, or its refusal. */
int32_t mr_nccl_ranks_agree(const struct mr_nccl_engine *engine, const struct mr_engine_setup *setup,
                            ncclUniqueId *id_out, mr_error *error);

/* nccl_aside.c: do it in a thread of its own, and wait for that so long. False: it is still at it, and goes on. */
bool mr_nccl_detached_do(void (*job)(void *arg), void *arg, uint64_t timeout_ms);
/* For a job: this thread is of the engine's device from now on, and may allocate and free while others capture. */
int32_t mr_nccl_detached_enter(const struct mr_nccl_engine *engine, mr_error *error);

/* nccl_call.c: what a call returned, as a status; its words in the error. */
int32_t mr_nccl_call_cuda(const struct mr_nccl_engine *engine, cudaError_t code, const char *name, mr_error *error);
/* As above, but a stream that is not of the engine's device is the caller's mistake: MR_ERR_INVALID. */
int32_t mr_nccl_call_stream(const struct mr_nccl_engine *engine, cudaError_t code, const char *name, mr_error *error);
/* comm NULL: there is none that could say more. Under comm_lock. */
int32_t mr_nccl_call_nccl(ncclComm_t comm, ncclResult_t result, const char *name, mr_error *error);
int32_t mr_nccl_call_aborted(mr_error *error);
/* "2.28.9", of what ncclGetVersion() gives. */
#define MR_NCCL_VERSION_TEXT 24
void mr_nccl_call_version(int version, char text_out[MR_NCCL_VERSION_TEXT]);

#endif
