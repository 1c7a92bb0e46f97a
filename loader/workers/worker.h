/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A worker: takes tickets, reads, decodes, and writes samples into slots. The same code runs in
 * exec'd helpers, in forked children, in threads, and in the caller's thread with MR_NO_WORKERS. It
 * includes nothing that can reach a device.
 */
#ifndef LOADER_WORKERS_WORKER_H
#define LOADER_WORKERS_WORKER_H

#include "loader/workers/worker_setup.h"

struct mr_worker;

mr_status mr_worker_create(const struct mr_worker_job *job, struct mr_worker **worker_out,
                           mr_error *error);
void mr_worker_destroy(struct mr_worker *worker);

/*
 * Make one sample, or begin reading some. Returns false if there is nothing to do. Blocks only for
 * reads.
 */
bool mr_worker_step(struct mr_worker *worker);

/* Work until the host sets stop. Sleeps while there is nothing to do. */
void mr_worker_run(struct mr_worker *worker);

/*
 * Create a worker, run it, and destroy it. If it cannot be created, its record has the error.
 * Returns the exit status of the process, 0 after stop.
 */
int mr_worker_main(const struct mr_worker_job *job);

#endif
