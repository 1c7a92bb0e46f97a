/* SPDX-License-Identifier: Apache-2.0 */
/* Calls that may never return, in a thread that can be left behind. */
#ifndef DIST_NCCL_NCCL_DETACHED_H
#define DIST_NCCL_NCCL_DETACHED_H

#include "dist/nccl/nccl_state.h"

/* Do the job in a thread and wait for it so long. False: the job is still running, and goes on. */
bool mr_nccl_detached_do(void (*job)(void *arg), void *arg, uint64_t timeout_ms);
/*
 * For a job: this thread is of the engine's device from now on, and may allocate and free while
 * others capture.
 */
int32_t mr_nccl_detached_enter(const struct mr_nccl_engine *engine, mr_error *error);

#endif
