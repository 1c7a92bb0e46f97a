/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The interface of an engine: one table of functions, with which the group works on any backend.
 * Engines are modules (libmillrace-gloo.so, -mpi.so, -nccl.so) that dist/group/module.c opens. They
 * need no symbol of libmillrace: every function that they call is in the setup. No exception leaves
 * a module.
 */
#ifndef DIST_GROUP_ENGINE_TABLE_H
#define DIST_GROUP_ENGINE_TABLE_H

#include <millrace/group.h>

#define MR_ENGINE_ABI 4u
#define MR_ENGINE_SYMBOL "mr_engine_table"

enum mr_collective_kind {
    MR_COLLECTIVE_BARRIER,
    MR_COLLECTIVE_ALL_REDUCE,
    MR_COLLECTIVE_REDUCE,
    MR_COLLECTIVE_BROADCAST,
    MR_COLLECTIVE_ALL_GATHER,
    MR_COLLECTIVE_REDUCE_SCATTER,
    MR_COLLECTIVE_SEND,
    MR_COLLECTIVE_RECV
};

/* Checked by collectives.c: the values are in range, and a pointer is NULL only if count is 0. */
struct mr_collective {
    uint32_t kind; /* enum mr_collective_kind */
    uint32_t root; /* or the peer of a send or recv */
    const void *in;
    void *out;      /* equal to in if the collective works in place */
    uint64_t count; /* elements per rank */
    uint32_t dtype; /* mr_dtype */
    uint32_t op;    /* mr_reduction */
    uint64_t
        number;   /* number of this collective in the group; equal on all ranks, usable as a tag */
    void *stream; /* device engines: the collective is ordered after work already in this stream */
    bool on_host; /* device engines: in and out are a few numbers of the library, in host memory */
    void *sums; /* with on_host and an all_reduce of f64 sums: device sums to add first; or NULL */
};

/*
 * The store. Keys are separate for each group. deadline_ns is on CLOCK_MONOTONIC. Both return an
 * mr_status.
 */
struct mr_engine_store {
    void *user;
    int32_t (*set)(void *user, const char *key, const void *value, uint32_t len, mr_error *error);
    int32_t (*get)(void *user, const char *key, void *value_out, uint32_t size, uint32_t *len_out,
                   uint64_t deadline_ns, mr_error *error);
};

struct mr_engine_setup {
    uint32_t abi;
    uint32_t rank;
    uint32_t world_size;
    uint32_t local_rank;
    uint64_t deadline_ns; /* for creation */
    uint32_t timeout_ms;  /* of each collective */
    struct mr_engine_store store;
    const char *local_address; /* numeric, of the interface that the other ranks can reach */
    const char *device;        /* nccl */
    void *adopt;               /* MPI_Comm *, ncclComm_t *, or NULL */
    /* mr_error_set(): writes the message and returns status. */
    int32_t (*fail)(mr_error *error, int32_t status, const char *format, ...) MR_PRINTF(3, 4);
};

/*
 * The functions of a device engine, in place of run(). It issues collectives into its own stream,
 * and the host does not wait for them. Threads: issue, wait, drop and sums_* are called in the
 * caller's thread; test also in the watch's; health and abort in any thread, even during another
 * call.
 */
struct mr_engine_device {
    /*
     * Issue a collective, ordered after the work already in its stream. Returns when it is in the
     * engine's stream. If the engine is still connecting, waits until deadline_ns (MR_ERR_TIMEOUT)
     * or until *stop is nonzero (MR_ERR_CANCELED). After MR_ERR_INVALID and MR_ERR_STATE (the
     * stream is being captured) nothing was begun. all_gather and reduce_scatter may work in place:
     * in is inside out, or out inside in, at rank * count elements. Ownership: *ticket_out is the
     * caller's, which drops it before destroy(); NULL on failure.
     */
    int32_t (*issue)(void *engine, const struct mr_collective *collective, uint64_t deadline_ns,
                     const volatile uint32_t *stop, void **ticket_out, mr_error *error);
    /*
     * MR_OK: it has ended, and with on_host the result is in out. Otherwise MR_PENDING,
     * MR_ERR_DEVICE or MR_ERR_PEER. Never blocks.
     */
    int32_t (*test)(void *engine, void *ticket, mr_error *error);
    /* Order later work of this stream after the collective. Never blocks. */
    int32_t (*wait)(void *engine, void *ticket, void *stream, mr_error *error);
    /*
     * Release the ticket. Any time; with on_host only after the collective has ended or after
     * abort(). Never blocks.
     */
    void (*drop)(void *engine, void *ticket);
    /*
     * MR_OK, or an asynchronous error since then (ncclCommGetAsyncError): MR_ERR_PEER,
     * MR_ERR_DEVICE. Never blocks.
     */
    int32_t (*health)(void *engine, mr_error *error);
    /*
     * Abort the collectives on the device. After it only drop, sums_destroy and destroy are called.
     * Not called for an adopted communicator.
     */
    void (*abort)(void *engine);
    /* Allocate n sums in f64 on the device, all 0. Metrics add to them between two reductions. */
    int32_t (*sums_create)(void *engine, uint32_t n, void **sums_out, mr_error *error);
    /*
     * sums[at] += *value, one number of dtype on the device, and sums[at + 1] += count, in this
     * stream. Never blocks.
     */
    int32_t (*sums_add)(void *engine, void *sums, uint32_t at, const void *value, uint32_t dtype,
                        double count, void *stream, mr_error *error);
    /* May be called after abort(). */
    void (*sums_destroy)(void *engine, void *sums);
    /* N of the engine's "cuda:N"; constant. */
    int32_t (*ordinal)(const void *engine);
};

struct mr_engine_table {
    uint32_t abi;
    const char *name;    /* "gloo" */
    const char *version; /* of the library that the engine uses */
    bool on_device;      /* buffers are device memory */
    int32_t (*create)(const struct mr_engine_setup *setup, void **engine_out, mr_error *error);
    /* If healthy is false, other ranks may be gone, and this does not wait for them. */
    void (*destroy)(void *engine, bool healthy);
    /*
     * Run one collective. Blocks until it has ended, its deadline has passed (MR_ERR_TIMEOUT) or
     * *stop is nonzero (MR_ERR_CANCELED). One thread at a time. NULL with on_device.
     */
    int32_t (*run)(void *engine, const struct mr_collective *collective, uint64_t deadline_ns,
                   const volatile uint32_t *stop, mr_error *error);
    /*
     * Can this buffer be used? MR_ERR_INVALID names the reason (such as a device pointer for a host
     * engine). NULL: any buffer can.
     */
    int32_t (*check)(void *engine, const void *buffer, mr_error *error);
    /*
     * Create an engine for the ranks of one color. setup is the new group's. All ranks call it.
     * NULL: create() is called instead.
     */
    int32_t (*split)(void *engine, uint32_t color, uint32_t key,
                     const struct mr_engine_setup *setup, void **engine_out, mr_error *error);
    const struct mr_engine_device *device; /* with on_device, else NULL */
};

/*
 * A second symbol, of the mpi module only. Under mpirun on several machines, the rendezvous gets
 * rank 0's address by MPI before there is a store.
 */
#define MR_MPI_BOOTSTRAP_SYMBOL "mr_mpi_bootstrap"

/*
 * Send rank 0's bytes to all other ranks; all ranks call it together. Uses these fields of the
 * setup: abi, rank, world_size, deadline_ns, timeout_ms, adopt and fail. is_all: MPI is not needed
 * afterwards (the backend is another one). It is then finalised here, where all ranks are together,
 * because a rank may never reach the finalisation at exit.
 *
 * MR_ERR_PEER if MPI's rank or size differs from the setup's, with both numbers; MR_ERR_TIMEOUT.
 */
typedef int32_t mr_mpi_bootstrap_function(const struct mr_engine_setup *setup, bool is_all,
                                          void *bytes, uint32_t len, mr_error *error);

#endif
