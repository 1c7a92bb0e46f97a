/* SPDX-License-Identifier: Apache-2.0 */
/* What the launcher prepares for the monitor, and the monitor for the ranks. */
#ifndef DIST_LAUNCH_LAUNCH_PLAN_H
#define DIST_LAUNCH_LAUNCH_PLAN_H

#include "dist/launch/rank_env.h"
#include "dist/launch/rank_output.h"

#include <signal.h>
#include <sys/types.h>

#include <millrace/launch.h>

enum { MR_LAUNCH_PLAN_POLLS = 3 }; /* descriptors of the monitor itself */

/* What a rank runs: a program, or a function if argv is NULL. */
struct mr_rank_job {
    char *const *argv;
    int (*fn)(void *user, uint32_t local_rank);
    void *user;
};

struct mr_launch_plan_rank {
    pid_t pid;       /* 0 after its end */
    int exec_errno;  /* why the program could not be run; 0: it ran */
    pid_t ended_pid; /* its former pid, after its end with status 0 */
    int notes;       /* socket from its rendezvous; -1: none, or all writers are gone */
    bool has_notes;  /* it had a socket, and did not close it before its end */
    bool has_come;   /* it has joined a rendezvous */
    bool is_waiting; /* it waits for the other ranks in a rendezvous */
    bool is_named;   /* it was named as late */
};

/*
 * Everything that the monitor needs, made before the fork, because the monitor allocates nothing.
 */
struct mr_launch_plan {
    struct mr_rank_job job;
    uint32_t n_ranks;
    uint32_t grace_ms;
    struct mr_rank_env *env;
    struct mr_rank_output
        *output;     /* NULL: the ranks use the launcher's stdout and stderr, or logs */
    const int *logs; /* NULL, or a file for each rank */
    struct mr_launch_plan_rank *ranks;
    struct pollfd *polls; /* room for MR_LAUNCH_PLAN_POLLS + n_ranks + those of output */
    int socket;           /* receives signals (int32_t); sends notices and one verdict */
    int launcher_ends[2]; /* descriptors that only the launcher uses */
    pid_t launcher;
    sigset_t mask; /* the signal mask of ranks */
};

#endif
