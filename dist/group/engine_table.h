/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an engine offers: one table of functions, with which the group works on any backend. Engines
 * are modules (libmillrace-gloo.so, -mpi.so, -nccl.so) that dist/group/module.c opens. They need no
 * symbol of libmillrace: what they call comes in the setup. No exception leaves a module.
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

/* Checked by collectives.c: ranges, dtypes, NULL only if count is 0. */
struct mr_collective {
    uint32_t kind; /* enum mr_collective_kind */
    uint32_t root; /* or the other rank */
    const void *in;
    void *out;       /* equal to in where the collective works in place */
    uint64_t count;  /* elements, of each rank */
    uint32_t dtype;  /* mr_dtype */
    uint32_t op;     /* mr_reduction */
    uint64_t number; /* of this collective in the group: equal on all ranks, usable as a tag */
    void *stream;    /* of device engines: the collective comes after what this stream was given
                        so far */
    bool on_host;    /* to a device engine: in and out are a few numbers of the library's own, in
                        the host's memory */
    void *sums;      /* with on_host and MR_COLLECTIVE_ALL_REDUCE of f64 sums: device sums to be
                        added first; or NULL */
};

/*
 * The store, with keys of this group's own. deadline_ns is of CLOCK_MONOTONIC. Both return an
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
    uint64_t deadline_ns; /* of creation */
    uint32_t timeout_ms;  /* of the group */
    struct mr_engine_store store;
    const char *local_address; /* numeric, of the interface to the others */
    const char *device;        /* nccl */
    void *adopt;               /* MPI_Comm *, ncclComm_t *, or NULL */
    /* mr_error_set(): writes the message and returns status. */
    int32_t (*fail)(mr_error *error, int32_t status, const char *format, ...) MR_PRINTF(3, 4);
};

/*
 * What an engine of a device's memory does instead of run(): it issues into a stream of its own,
 * and the host waits for nobody. Threads: issue, wait, drop and sums_* in the caller's; test also
 * in the watch's; health and abort in any, also while another call is under way.
 */
struct mr_engine_device {
    /*
     * Issue a collective, ordered after what its stream was given so far. Returns when it is in the
     * engine's stream. If the engine is still connecting, waits until deadline_ns (MR_ERR_TIMEOUT)
     * or *stop (MR_ERR_CANCELED). MR_ERR_INVALID and MR_ERR_STATE (a stream that is being captured)
     * mean that nothing was begun. all_gather and reduce_scatter may be in place: in lies in out,
     * or out in in, at rank * count elements.
     * Ownership: *ticket_out is the caller's, which drops it before destroy(); NULL on failure.
     */
    int32_t (*issue)(void *engine, const struct mr_collective *collective, uint64_t deadline_ns,
                     const volatile uint32_t *stop, void **ticket_out, mr_error *error);
    /*
     * MR_OK: ended, and with on_host the result is in out. MR_PENDING, MR_ERR_DEVICE, MR_ERR_PEER.
     * Never blocks.
     */
    int32_t (*test)(void *engine, void *ticket, mr_error *error);
    /* Order what this stream is given from now on after the collective. Never blocks. */
    int32_t (*wait)(void *engine, void *ticket, void *stream, mr_error *error);
    /* Any time; with on_host only when it has ended or after abort(). Never blocks. */
    void (*drop)(void *engine, void *ticket);
    /*
     * MR_OK, or what has happened since (ncclCommGetAsyncError): MR_ERR_PEER, MR_ERR_DEVICE. Never
     * blocks.
     */
    int32_t (*health)(void *engine, mr_error *error);
    /*
     * End what is under way on the device. Only drop, sums_destroy and destroy are called after it.
     * Not called for an adopted communicator.
     */
    void (*abort)(void *engine);
    /* n sums in f64 on the device, all 0: what metrics collect there between two reductions. */
    int32_t (*sums_create)(void *engine, uint32_t n, void **sums_out, mr_error *error);
    /*
     * sums[at] += *value, one number of dtype on the device, and sums[at + 1] += count, in this
     * stream. Never blocks. /
     */
    int32_t (*sums_add)(void *engine, void *sums, uint32_t at, const void *value, uint32_t dtype,
                        double count, void *stream, mr_error *error);
    /* Also after abort(). */
    void (*sums_destroy)(void *engine, void *sums);
    /* N of the "cuda:N" that it works on; constant. */
    int32_t (*ordinal)(const void *engine);
};

struct mr_engine_table {
    uint32_t abi;
    const char *name;    /* "gloo" */
    const char *version; /* of the library behind it */
    bool on_device;      /* buffers are the device's */
    int32_t (*create)(const struct mr_engine_setup *setup, void **engine_out, mr_error *error);
    /* healthy false: other ranks may be gone, so this waits for none of them. */
    void (*destroy)(void *engine, bool healthy);
    /*
     * Do one collective; blocks until it has ended, its deadline has passed (MR_ERR_TIMEOUT) or
     * *stop became nonzero (MR_ERR_CANCELED). One thread at a time. NULL with on_device.
     */
    int32_t (*run)(void *engine, const struct mr_collective *collective, uint64_t deadline_ns,
                   const volatile uint32_t *stop, mr_error *error);
    /*
     * May this buffer be used? NULL: any. MR_ERR_INVALID names the reason (a device pointer on a
     * host engine).
     */
    int32_t (*check)(void *engine, const void *buffer, mr_error *error);
    /*
     * An engine for the ranks of one color; setup is the new group's. All ranks call it. NULL:
     * create() does it.
     */
    int32_t (*split)(void *engine, uint32_t color, uint32_t key,
                     const struct mr_engine_setup *setup, void **engine_out, mr_error *error);
    const struct mr_engine_device *device; /* with on_device, else NULL */
};

/*
 * A second symbol, of the mpi module alone, for the rendezvous: under mpirun on several machines
 * MPI knows the way to rank 0 before there is a store.
 */
#define MR_MPI_BOOTSTRAP_SYMBOL "mr_mpi_bootstrap"

/*
 * Rank 0's bytes to all others; all ranks call it together. Of the setup: abi, rank, world_size,
 * deadline_ns, timeout_ms, adopt and fail. is_all: MPI is needed for nothing else (the backend is
 * another one), so it is finalised here, where all ranks are together, and not at an exit that a
 * rank may never reach.
 *
 * MR_ERR_PEER when MPI's rank or size is not the setup's, with both numbers; MR_ERR_TIMEOUT.
 */
typedef int32_t mr_mpi_bootstrap_function(const struct mr_engine_setup *setup, bool is_all,
                                          void *bytes, uint32_t len, mr_error *error);

#endif
