/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/error.h"

/*
 * Start a thread with all signals blocked, so that the program's handlers never run in it. Returns
 * 0 or an errno.
 */
MR_BASE_EXPORT int mr_thread_start(pthread_t *thread_out, void *(*main)(void *), void *arg);

/* A thread to be joined by its creator. Zeros: it does not run. */
struct mr_thread {
    pthread_t id;
    bool runs;
};

/* As above. On failure MR_ERR_WORKER with the text "cannot start NAME". */
mr_status mr_thread_run(struct mr_thread *thread, const char *name, void *(*main)(void *),
                        void *arg, mr_error *error);
void mr_thread_join(struct mr_thread *thread);

#endif
