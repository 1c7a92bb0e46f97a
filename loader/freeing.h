/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that frees page-locked slots after the program's own copies from them (pin_memory). */
#ifndef LOADER_FREEING_H
#define LOADER_FREEING_H

#include "base/thread.h"
#include "loader/host.h"

/*
 * Page-lock the slots of a host that lends them, and start the thread. On failure the error says
 * why they are not page-locked. Without a GPU, host->slot_streams is NULL and the thread has ended.
 * Otherwise the caller joins it after closing the host. Blocks until the GPU is open and the slots
 * are page-locked.
 */
mr_status mr_freeing_start(struct mr_host *host, struct mr_thread *thread, mr_error *error);

#endif
