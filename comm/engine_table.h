/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a module has to offer: one table. Modules (libmillrace-gloo.so, -mpi.so, -nccl.so) are opened by comm/module.c
 * and need no symbol of libmillrace: what they call comes in the setup. No exception leaves a module.
 */
#ifndef COMM_ENGINE_H
#define COMM_ENGINE_H

#include <millrace/group.h>

#define MR_ENGINE_ABI 1u
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

/* Checked by group.c: ranges, dtypes, NULL only where count is 0. */
struct mr_collective {
    uint32_t kind; /* enum mr_collective_kind */
    uint32_t root; /* or the other rank */
    const void *in;
    void *out;       /* equal to in where the collective works in place */
    uint64_t count;  /* elements, of each rank */
    uint32_t dtype;  /* mr_dtype */
    uint32_t op;     /* mr_reduction */
    uint64_t number; /* of this collective in the group: equal on all ranks, usable as a tag */
    void *stream;    /* of device engines */
};

/* Of the store, with keys of this group's own. deadline_ns is CLOCK_MONOTONIC. Return mr_status. */
struct mr_engine_store {
    void *user;
    int32_t (*set)(void *user, const char *key, const void *value, uint32_t len, mr_error *error);
    int32_t (*get)(void *user, const char *key, void *value_out, uint32_t size, uint32_t *len_out, uint64_t deadline_ns,
                   mr_error *error);
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
    /* Leaves the words and returns status: mr_error_set(). */
    int32_t (*fail)(mr_error *error, int32_t status, const char *format, ...) MR_PRINTF(3, 4);
};

struct mr_engine_table {
    uint32_t abi;
    const char *name;    /* "gloo" */
    const char *version; /* of the library behind it */
    bool on_device;      /* buffers are the device's */
    int32_t (*create)(const struct mr_engine_setup *setup, void **engine_out, mr_error *error);
    /* healthy false: others may be gone; wait for nobody. */
    void (*destroy)(void *engine, bool healthy);
    /*
     * Do one collective; blocks until it has ended, its deadline has passed (MR_ERR_TIMEOUT) or *stop became nonzero
     * (MR_ERR_CANCELED). One thread at a time.
     */
    int32_t (*run)(void *engine, const struct mr_collective *collective, uint64_t deadline_ns,
                   const volatile uint32_t *stop, mr_error *error);
    /* May this buffer be used? NULL: any. MR_ERR_INVALID names the reason (a device pointer on a host engine). */
    int32_t (*check)(void *engine, const void *buffer, mr_error *error);
    /* A further engine of the ranks that have the same color; setup is the new group's. NULL: create() does it. */
    int32_t (*split)(void *engine, uint32_t color, uint32_t key, const struct mr_engine_setup *setup, void **engine_out,
                     mr_error *error);
};

#endif
