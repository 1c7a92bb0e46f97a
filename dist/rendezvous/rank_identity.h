/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Who this rank is, by the environment that torchrun, mpirun (Open MPI, MPICH), srun, or a user has
 * set.
 */
#ifndef DIST_RENDEZVOUS_RANK_IDENTITY_H
#define DIST_RENDEZVOUS_RANK_IDENTITY_H

#include "base/error.h"

#include <stdbool.h>

struct mr_rank_identity {
    char source[16]; /* "env", "torchrun", "openmpi", "mpich", "slurm", "options", "none" */
    bool is_mpi;     /* mpirun started it, so MPI could carry rank 0's address */
    uint32_t rank;
    uint32_t world_size;
    uint32_t local_rank;
    uint32_t local_world_size; /* 0: unknown, the rendezvous counts */
    uint32_t node;
    bool knows_local;      /* local_rank was given */
    char master_addr[256]; /* "" when not known */
    uint16_t master_port;  /* 0: not known */
    bool port_is_taken;    /* by torchrun's agent: our store takes a free port above it */
    uint64_t run;          /* id of this run, equal on all ranks; 0 if none was given */
    uint32_t restart;      /* how often it was restarted */
    bool knows_node;       /* node was given */
    bool port_is_derived;  /* from the job's id: where it is taken, our store takes a free one
                              above it */
};

/* Ranks of a world, at most. */
#define MR_RANK_IDENTITY_MAX_WORLD 16384u
/* How many ports, with the first, the store tries if the launcher's port is not its own. */
#define MR_RANK_IDENTITY_PORTS 16u

/*
 * Does the job have an id, and are all its ranks on this machine? All of them answer alike, before
 * they meet.
 */
bool mr_rank_identity_is_local_job(const struct mr_rank_identity *who);

/* get: getenv, or a test's. MR_ERR_INVALID names the variable and its value. */
mr_status mr_rank_identity_read(const char *(*get)(void *user, const char *name), void *user,
                                struct mr_rank_identity *identity_out, mr_error *error);

/*
 * The same where the program gives rank and world size: the environment's are not looked at, and
 * the run has an id only where MR_RUN_ID gives one, since ranks that were started by hand have no
 * job in common.
 */
mr_status mr_rank_identity_given(const char *(*get)(void *user, const char *name), void *user,
                                 uint32_t rank, uint32_t world_size,
                                 struct mr_rank_identity *identity_out, mr_error *error);

#endif
