/* SPDX-License-Identifier: Apache-2.0 */
/* What a worker does before its first sample: name, nice level, CPUs, fault handler. */
#ifndef LOADER_WORKER_SETUP_H
#define LOADER_WORKER_SETUP_H

#include "loader/worker_job.h"

/* Name, nice level, CPU; in a process of its own the fault handler too. Failures are not fatal and left alone. */
void mr_worker_setup_process(const struct mr_worker_job *job, bool own_process);

/* To the CPUs near the device, once the host has named them; true then. */
bool mr_worker_setup_move_near(const struct mr_worker_job *job);

#endif
