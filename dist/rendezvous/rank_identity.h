/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this rank is, according to the environment that torchrun, mpirun (Open MPI, MPICH), srun or a
 * user has set.
 */
#ifndef DIST_RENDEZVOUS_RANK_IDENTITY_H
#define DIST_RENDEZVOUS_RANK_IDENTITY_H

#include "base/error.h"

#include <stdbool.h>

struct mr_rank_identity {
    char source[16]; /* "env", "torchrun", "openmpi", "mpich", "slurm", "options", "none" */
    bool is_mpi;     /* started by mpirun, so MPI can carry rank 0's address */
    uint32_t rank;
    uint32_t world_size;
    uint32_t local_rank;
    uint32_t local_world_size; /* 0: unknown, counted by the rendezvous */
    uint32_t node;
    bool knows_local;      /* local_rank was given */
    char master_addr[256]; /* "" when not known */
    uint16_t master_port;  /* 0: not known */
    bool port_is_taken;    /* torchrun's agent owns it: our store takes a free port above it */
    uint64_t run;          /* id of this run, equal on all ranks; 0: none was given */
    uint32_t restart;      /* number of restarts so far */
    bool knows_node;       /* node was given */
    bool port_is_derived;  /* from the job's id; if it is taken, our store takes one above it */
};

/* The largest world size. */
#define MR_RANK_IDENTITY_MAX_WORLD 16384u
/* Number of ports that the store tries, including the first, if the first may be taken. */
#define MR_RANK_IDENTITY_PORTS 16u

/*
 * Does the job have an id, and are all its ranks on this machine? All ranks get the same answer
 * before they meet.
 */
bool mr_rank_identity_is_local_job(const struct mr_rank_identity *who);

/* get: getenv, or a test's. MR_ERR_INVALID names the variable and its value. */
mr_status mr_rank_identity_read(const char *(*get)(void *user, const char *name), void *user,
                                struct mr_rank_identity *identity_out, mr_error *error);

/*
 * The same if the program gives rank and world size. The environment's rank and world size are
 * ignored. Ranks that were started by hand have no common job, so the run has an id only if
 * MR_RUN_ID is set.
 */
mr_status mr_rank_identity_given(const char *(*get)(void *user, const char *name), void *user,
                                 uint32_t rank, uint32_t world_size,
                                 struct mr_rank_identity *identity_out, mr_error *error);

#endif
