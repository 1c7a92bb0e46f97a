/* SPDX-License-Identifier: Apache-2.0 */
/* The thread that frees page-locked slots, which the program copies from itself (pin_memory). */
#ifndef LOADER_FREEING_H
#define LOADER_FREEING_H

#include "loader/core.h"

/*
 * Page-lock the slots of a core that lends them, and start it. On failure the error says why they are not page-locked.
 * core->slot_streams is NULL where there is no GPU. Otherwise the thread is the caller's to join, after the core was
 * closed.
 * Blocks: until the GPU is open and the slots are page-locked.
 */
mr_status mr_freeing_start(struct mr_core *core, pthread_t *thread_out, mr_error *error);

#endif
