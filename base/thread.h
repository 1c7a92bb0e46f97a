/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. */
#ifndef BASE_THREAD_H
#define BASE_THREAD_H

#include <pthread.h>

#include "base/export.h"

/* A thread with all signals blocked, so that the program's handlers never run in it. Returns 0 or an errno. */
MR_BASE_EXPORT int mr_thread_start(pthread_t *thread_out, void *(*main)(void *), void *arg);

#endif
