/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The ways to start a worker, each a table of functions.
 *
 * Invariant: only the supervisor's thread calls them, because PR_SET_PDEATHSIG is tied to the
 * thread that spawns.
 */
#ifndef LOADER_STARTER_H
#define LOADER_STARTER_H

#include <pthread.h>
#include <sys/types.h>

#include "loader/host.h"

#include <millrace/dataset.h>

/* A living worker, as its starter sees it. */
struct mr_process {
    pid_t pid; /* 0 for a thread */
    int pidfd; /* readable once the worker has ended; an eventfd for a thread */
    pthread_t thread;
};

/* How a worker ended. */
struct mr_exit {
    bool known; /* false: something else has reaped it */
    int signal; /* that killed it; 0: none */
    int code;   /* exit status */
};

struct mr_starter;

struct mr_starter_ops {
    const char *name;
    mr_status (*create)(struct mr_host *host, mr_dataset *dataset, struct mr_starter **starter_out,
                        mr_error *error);
    void (*destroy)(struct mr_starter *starter);
    mr_status (*start)(struct mr_starter *starter, uint32_t id, struct mr_process *process_out,
                       mr_error *error);
    /* End it now. False if that is impossible (a thread). */
    bool (*kill)(struct mr_process *process);
    /* After pidfd became readable: collect the status and close pidfd. */
    struct mr_exit (*reap)(struct mr_starter *starter, struct mr_process *process);
    /* Can it never start a worker again? Then sets the error. NULL if that cannot happen. */
    bool (*is_lost)(const struct mr_starter *starter, mr_error *error_out);
};

extern const struct mr_starter_ops mr_starter_exec;
extern const struct mr_starter_ops mr_starter_fork;
extern const struct mr_starter_ops mr_starter_thread;

#endif
