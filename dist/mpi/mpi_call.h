/* SPDX-License-Identifier: Apache-2.0 */
/* One nonblocking MPI call, from its start to its end or its deadline. */
#ifndef DIST_MPI_MPI_CALL_H
#define DIST_MPI_MPI_CALL_H

#include "dist/mpi/mpi_reduce.h"

#define MR_MPI_TAG 1 /* one tag for all messages: two ranks match them by their order */

struct mr_mpi_engine {
    MPI_Comm comm;
    uint32_t rank;
    uint32_t n_ranks;
    bool is_dead;
    struct mr_mpi_ops ops;
    void *gathered; /* room for all ranks' parts of a short all_reduce; NULL: too many ranks */
    int32_t (*fail)(mr_error *error, int32_t status, const char *format, ...);
};

/* One MPI call: a collective, or a part of one. */
struct mr_mpi_part {
    const struct mr_collective *collective;
    const void *in;
    void *out;
    int count;
    uint32_t root;
    MPI_Datatype type;
    /*
     * all_gather in parts: `count` elements of one rank; the next rank's begin collective->count
     * elements further on
     */
    MPI_Datatype block;
    MPI_Op op;
    bool is_for_root; /* reduce_scatter in parts */
    bool is_gathered; /* all_reduce by all_gather */
};

struct mr_mpi_limits {
    uint64_t start_ns;
    uint64_t deadline_ns;
    const volatile uint32_t *stop;
};

/* "all_reduce" */
const char *mr_mpi_call_name(uint32_t kind);

/*
 * Blocks. After MR_ERR_TIMEOUT and MR_ERR_CANCELED MPI is given up, and may still use the part's
 * buffers.
 */
int32_t mr_mpi_call_do(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                       const struct mr_mpi_limits *limits, mr_error *error);

/* Write MR_ERR_PEER with MPI's message for code. */
int32_t mr_mpi_call_fail(const struct mr_mpi_engine *engine, const struct mr_collective *collective,
                         int code, mr_error *error);

/* Give MPI up, because the deadline has passed or the group was stopped. Returns the status. */
int32_t mr_mpi_call_give_up(const struct mr_mpi_engine *engine, const struct mr_mpi_part *part,
                            const struct mr_mpi_limits *limits, mr_error *error);

#endif
