/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts the library's threads with all signals blocked. A thread inherits the signal mask of its
 * creator, so the creator sets it around the start.
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

mr_status mr_thread_run(struct mr_thread *thread, const char *name, void *(*main)(void *),
                        void *arg, mr_error *error)
{
    int failed = mr_thread_start(&thread->id, main, arg);
    thread->runs = failed == 0;
    return thread->runs ? MR_OK
                        : mr_error_os(error, MR_ERR_WORKER, failed, "cannot start %s", name);
}

void mr_thread_join(struct mr_thread *thread)
{
    if (thread->runs)
        pthread_join(thread->id, NULL);
    thread->runs = false;
}
