/* SPDX-License-Identifier: Apache-2.0 */
/*
 * mr_loader_fd(): an eventfd that is readable while next() has an answer. Workers wake the host by
 * a futex, which an event loop cannot wait for. So a thread sleeps on that futex while the
 * descriptor is not readable, and updates the descriptor after each wake-up. Calls by the program
 * that change the answer update it themselves.
 *
 * Invariant: the descriptor is written and read only under the host's lock, so it always agrees
 * with `readable`.
 */
#include "loader/ready_fd.h"

#include <errno.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "base/futex.h"
#include "base/thread.h"
#include "loader/batch.h"

/*
 * With the lock held on entry and return: sleep until something may have changed. The word is read
 * before the check, so a wake-up in between is not lost. The end of a capture, which deferred
 * releases wait for, wakes no waiter, so it is polled.
 */
static void watch_word(struct mr_host *host)
{
    struct mr_control *control = host->shared.control;
    atomic_fetch_add(&control->host_waits, 1);
    uint32_t seen = atomic_load(&control->filled_word);
    mr_host_update_fd(host);
    bool sleeps = !host->ready_fd.readable || host->fatal.status;
    bool has_deferred = host->n_deferred > 0;
    pthread_mutex_unlock(&host->lock);
    if (sleeps)
        mr_futex_wait(&control->filled_word, seen, has_deferred ? MR_OWED_NAP_MS : UINT32_MAX);
    if (has_deferred)
        mr_batch_retry_deferred(host);
    atomic_fetch_sub(&control->host_waits, 1);
    pthread_mutex_lock(&host->lock);
}

/*
 * The thread's function. While a batch is ready, nothing changes until the program takes it. While
 * the answer is a failure, batches that are under way may still take its place.
 */
static void *watch_main(void *arg)
{
    struct mr_host *host = arg;
    pthread_mutex_lock(&host->lock);
    while (!host->closed) {
        if (host->ready_fd.readable && !host->fatal.status)
            pthread_cond_wait(&host->ready_fd.cleared, &host->lock);
        else
            watch_word(host);
    }
    pthread_mutex_unlock(&host->lock);
    return NULL;
}

/* With the lock held. */
static mr_status open_fd(struct mr_host *host, mr_error *error)
{
    struct mr_ready_fd *ready = &host->ready_fd;
    ready->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (ready->fd < 0)
        return mr_error_os(error, MR_ERR_IO, errno, "eventfd for the loader");
    pthread_cond_init(&ready->cleared, NULL);
    int failed = mr_thread_start(&ready->thread, watch_main, host);
    if (failed != 0) {
        pthread_cond_destroy(&ready->cleared);
        close(ready->fd);
        return mr_error_os(error, MR_ERR_WORKER, failed,
                           "cannot start the thread of the loader's descriptor");
    }
    ready->is_open = true;
    mr_host_update_fd(host);
    return MR_OK;
}

mr_status mr_ready_fd_open(struct mr_host *host, int *fd_out, mr_error *error)
{
    pthread_mutex_lock(&host->lock);
    mr_status status = host->ready_fd.is_open ? MR_OK : open_fd(host, error);
    if (status == MR_OK)
        *fd_out = host->ready_fd.fd;
    pthread_mutex_unlock(&host->lock);
    return status;
}

void mr_ready_fd_close(struct mr_host *host)
{
    struct mr_ready_fd *ready = &host->ready_fd;
    pthread_mutex_lock(&host->lock);
    bool was_open = ready->is_open;
    ready->is_open = false; /* lent batches may be released after this, in any thread */
    if (was_open)
        pthread_cond_signal(&ready->cleared);
    pthread_mutex_unlock(&host->lock);
    if (!was_open)
        return;
    mr_control_wake_host(&host->shared);
    pthread_join(ready->thread, NULL);
    pthread_cond_destroy(&ready->cleared);
    close(ready->fd);
}
