/* SPDX-License-Identifier: Apache-2.0 */
/* The environment of a started rank: its rank and world, and the address of rank 0's store. */
#ifndef DIST_LAUNCH_RANK_ENV_H
#define DIST_LAUNCH_RANK_ENV_H

#include "base/error.h"

struct mr_rank_world {
    uint32_t nproc; /* ranks on this machine */
    uint32_t nnodes;
    uint32_t node_rank;
    const char *rendezvous; /* "HOST:PORT"; NULL: 127.0.0.1 and a free port, on one machine only */
};

struct mr_rank_env {
    char **envp; /* the caller's environment with the variables of the rank chosen last */
    uint32_t first_rank;
    int port_holder; /* a socket that holds the free port while ranks run; -1: none */
    char rank[24];
    char local_rank[24];
    char world_size[24];
    char local_world_size[32];
    char group_rank[24];
    char master_addr[272];
    char master_port[24];
    char run_id[32];
    char notes[112];
};

mr_status mr_rank_env_init(struct mr_rank_env *env, const struct mr_rank_world *world,
                           mr_error *error);
/*
 * Set the variables of this rank. Allocates nothing, so that a child may call it between fork and
 * exec.
 */
void mr_rank_env_choose(struct mr_rank_env *env, uint32_t local_rank);
/*
 * After mr_rank_env_choose(): set the descriptor for the rank's notes (base/rank_note.h); -1: none.
 * Allocates nothing.
 */
void mr_rank_env_set_notes(struct mr_rank_env *env, int fd);
void mr_rank_env_fini(struct mr_rank_env *env);

#endif
