/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that copies filled slots to devices, ahead of the consumer. */
#ifndef LOADER_COPYING_H
#define LOADER_COPYING_H

#include "loader/core.h"

/* Start it. Returns 0 or an errno; the thread is the caller's to join, after the core was closed. */
int mr_copying_start(struct mr_core *core, pthread_t *thread_out);

#endif
