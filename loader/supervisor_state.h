/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the supervisor knows about its workers; for supervisor.c, deaths.c and time_limit.c. All of
 * it belongs to the supervisor's thread, except what the lock guards.
 */
#ifndef LOADER_SUPERVISOR_STATE_H
#define LOADER_SUPERVISOR_STATE_H

#include <poll.h>

#include "base/thread.h"
#include "loader/starter.h"

/* A killed worker that lives longer than that cannot be killed. */
#define MR_SUPERVISED_END_MS 10000u

/* One worker as the supervisor sees it. */
struct mr_supervised {
    struct mr_process process;
    bool alive;
    bool limit_kill;      /* we have killed it for the time limit */
    uint64_t killed_ns;   /* when, 0: not */
    uint32_t beat;        /* as last seen */
    uint64_t stuck_ms;    /* since the beat changed */
    uint32_t beat_before; /* its beat when it was started */
    uint64_t done_before; /* its n_done when it was started */
    uint32_t idle_deaths; /* in a row, without a sample between */
    uint32_t vain_deaths; /* in a row, for which neither a sample nor somebody else is to blame */
    uint64_t restart_ns;  /* start it then */
};

struct mr_supervisor {
    struct mr_host *host;
    mr_dataset *dataset;
    const struct mr_starter_ops *ops;
    struct mr_starter *starter;
    struct mr_supervised *workers;
    struct pollfd *polls; /* [0] is wake, [1 + i] worker i */
    uint32_t n_workers;
    int wake; /* eventfd: come and look at `ending` */
    struct mr_thread thread;
    pthread_mutex_t lock; /* guards what follows, and alive and pid of the workers */
    pthread_cond_t ready_changed;
    bool ready; /* every worker was started once, or failed says why not */
    bool ending;
    uint64_t n_deaths;
    mr_error failed;
    uint32_t early_deaths;   /* thread only */
    uint32_t n_logged;       /* thread only; deaths written to the log */
    uint32_t start_failures; /* thread only; passes in a row in which a worker could not be
                                started */
};

static inline struct mr_worker_record *mr_supervised_record(const struct mr_supervisor *s,
                                                            uint32_t i)
{
    return &s->host->shared.records[i];
}

#endif
