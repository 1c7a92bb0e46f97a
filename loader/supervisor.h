/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The supervisor: one thread per loader that starts the workers, waits for their deaths, returns
 * their samples, and enforces the time limit. It blocks all signals.
 */
#ifndef LOADER_SUPERVISOR_H
#define LOADER_SUPERVISOR_H

#include "loader/host.h"

#include <millrace/dataset.h>

struct mr_supervisor;

/*
 * Start the thread and the workers. Blocks until each worker was started once, or a start has
 * failed.
 */
mr_status mr_supervisor_create(struct mr_host *host, mr_dataset *dataset,
                               struct mr_supervisor **supervisor_out, mr_error *error);

/* End the workers, wait for them, end the thread. */
void mr_supervisor_destroy(struct mr_supervisor *supervisor);

/*
 * Living workers, deaths so far, process ids (writes at most n; returns how many workers live).
 * Threads: any.
 */
uint32_t mr_supervisor_n_alive(struct mr_supervisor *supervisor);
uint64_t mr_supervisor_n_deaths(struct mr_supervisor *supervisor);
uint32_t mr_supervisor_pids(struct mr_supervisor *supervisor, int64_t *pids_out, uint32_t n);

#endif
