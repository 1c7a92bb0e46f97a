/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor's state, for supervisor.c, deaths.c and time_limit.c. It belongs to the
 * supervisor's thread, except for the fields that the lock guards.
 */
#ifndef LOADER_SUPERVISOR_STATE_H
#define LOADER_SUPERVISOR_STATE_H

#include <poll.h>

#include "base/thread.h"
#include "loader/starter.h"

/* A worker that is alive so long after it was killed cannot be killed. */
#define MR_SUPERVISED_END_MS 10000u

/* One worker as the supervisor sees it. */
struct mr_supervised {
    struct mr_process process;
    bool alive;
    bool limit_kill;      /* killed for the time limit */
    uint64_t killed_ns;   /* when it was killed; 0: it was not */
    uint32_t beat;        /* at the last tick */
    uint64_t stuck_ms;    /* time since the beat changed */
    uint32_t beat_before; /* at the worker's start */
    uint64_t done_before; /* n_done at the worker's start */
    uint32_t idle_deaths; /* in a row, without a finished sample in between */
    uint32_t vain_deaths; /* in a row, without a sample to blame; each was the worker's own
                             fault, or came without progress */
    uint64_t restart_ns;  /* when to restart it; 0: not planned */
};

struct mr_supervisor {
    struct mr_host *host;
    mr_dataset *dataset;
    const struct mr_starter_ops *ops;
    struct mr_starter *starter;
    struct mr_supervised *workers;
    struct pollfd *polls; /* [0] is wake, [1 + i] worker i */
    uint32_t n_workers;
    int wake; /* eventfd: check `ending` */
    struct mr_thread thread;
    pthread_mutex_t lock; /* guards the next five fields, and alive and pid of the workers */
    pthread_cond_t ready_changed;
    bool ready; /* every worker was started once, or `failed` says why not */
    bool ending;
    uint64_t n_deaths;
    mr_error failed;
    uint32_t early_deaths; /* thread only */
    uint32_t n_logged;     /* thread only; deaths written to the log */
    /* thread only; passes in a row in which a worker could not be started */
    uint32_t start_failures;
};

static inline struct mr_worker_record *mr_supervised_record(const struct mr_supervisor *s,
                                                            uint32_t i)
{
    return &s->host->shared.records[i];
}

#endif
