/* SPDX-License-Identifier: Apache-2.0 */
/* The steps of a rank between its fork and its program. */
#ifndef DIST_LAUNCH_RANK_CHILD_H
#define DIST_LAUNCH_RANK_CHILD_H

#include "dist/launch/launch_plan.h"

struct mr_rank_start {
    const struct mr_launch_plan *plan;
    uint32_t local_rank;
    pid_t monitor;
    int in;     /* /dev/null */
    int out[2]; /* stdout and stderr; -1: the launcher's */
    int report; /* pipe for a struct mr_rank_report, if the program cannot be run */
    int notes;  /* the rank's end of its notes socket, which it keeps; -1: none */
    int own[4]; /* the monitor's descriptors, closed in a rank that is a function; -1: none */
    const struct sigaction *on_child; /* the caller's action for SIGCHLD */
};

struct mr_rank_report {
    uint32_t local_rank;
    int32_t exec_errno;
};

/* Runs in the forked child. */
_Noreturn void mr_rank_child_run(const struct mr_rank_start *start);

#endif
