/* SPDX-License-Identifier: Apache-2.0 */
/* Runs calls that may never return in a separate thread. */
#ifndef DIST_NCCL_NCCL_DETACHED_H
#define DIST_NCCL_NCCL_DETACHED_H

#include "dist/nccl/nccl_state.h"

/*
 * Run the job in a thread and wait for timeout_ms. False: the job is still running and continues.
 */
bool mr_nccl_detached_do(void (*job)(void *arg), void *arg, uint64_t timeout_ms);
/*
 * Called by a job: set the engine's device for this thread, and allow it to allocate and free while
 * other threads capture a graph.
 */
int32_t mr_nccl_detached_enter(const struct mr_nccl_engine *engine, mr_error *error);

#endif
