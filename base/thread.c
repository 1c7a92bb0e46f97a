/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the library's threads with all signals blocked. A thread inherits the mask of its creator, so the mask is set
 * around the start.
 */
#include "base/thread.h"

#include <signal.h>

int mr_thread_start(pthread_t *thread_out, void *(*main)(void *), void *arg)
{
    sigset_t all;
    sigset_t before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int rc = pthread_create(thread_out, NULL, main, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}
