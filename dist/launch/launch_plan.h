/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the launcher prepares for the monitor, and the monitor for the ranks: what they are, and
 * what they get.
 */
#ifndef DIST_LAUNCH_LAUNCH_PLAN_H
#define DIST_LAUNCH_LAUNCH_PLAN_H

#include "dist/launch/rank_env.h"
#include "dist/launch/rank_output.h"

#include <signal.h>
#include <sys/types.h>

#include <millrace/launch.h>

enum { MR_LAUNCH_PLAN_POLLS = 3 }; /* descriptors that the monitor itself waits for */

/* What a rank is: a program, or a function where argv is NULL. */
struct mr_rank_job {
    char *const *argv;
    int (*fn)(uint32_t local_rank, void *arg);
    void *arg;
};

struct mr_launch_plan_rank {
    pid_t pid;       /* 0 after its end */
    int exec_errno;  /* why the program could not be run; 0: it could */
    pid_t ended_pid; /* what pid was, after its end with status 0 */
    int notes;       /* socket from its rendezvous; -1: there is none, or nobody is left who
                        could write */
    bool has_notes;  /* there was one, and the rank did not close it before its end */
    bool has_come;   /* to a rendezvous */
    bool is_waiting; /* for the other ranks, in a rendezvous */
    bool is_named;   /* as one that has not come */
};

/* All that the monitor needs, made before the fork: it allocates nothing. */
struct mr_launch_plan {
    struct mr_rank_job job;
    uint32_t n_ranks;
    uint32_t grace_ms;
    struct mr_rank_env *env;
    struct mr_rank_output *output; /* NULL: the ranks have the launcher's stdout and stderr, or
                                      logs */
    const int *logs;               /* NULL, or a file for each rank */
    struct mr_launch_plan_rank *ranks;
    struct pollfd *polls; /* MR_LAUNCH_PLAN_POLLS and n_ranks more than output needs */
    int socket;           /* signals (int32_t) come in, notices and one verdict go out */
    int launcher_ends[2]; /* descriptors that are the launcher's alone */
    pid_t launcher;
    sigset_t mask; /* the ranks' */
};

#endif
