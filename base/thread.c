/* SPDX-License-Identifier: Apache-2.0 */
/* Threads of the library. They inherit the mask of whoever starts them, so it is set around the start. */
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
