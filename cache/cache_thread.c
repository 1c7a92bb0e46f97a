/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that follows a cache. It refreshes once a second, and once more at the end, so that
 * the reason why writing stopped is logged. It waits by the monotonic clock, so setting the clock
 * does not stop it.
 */
#include "cache/cache_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"

struct mr_cache_thread {
    struct mr_cache_host *host;
    pthread_t id;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool ending;
};

static void *follow_cache(void *arg)
{
    struct mr_cache_thread *thread = arg;
    struct timespec due;
    pthread_mutex_lock(&thread->lock);
    while (!thread->ending) {
        clock_gettime(CLOCK_MONOTONIC, &due);
        due.tv_sec++;
        int rc = 0;
        while (!thread->ending && rc == 0)
            rc = pthread_cond_timedwait(&thread->ended, &thread->lock, &due);
        if (thread->ending)
            break;
        pthread_mutex_unlock(&thread->lock);
        mr_cache_host_refresh(thread->host);
        pthread_mutex_lock(&thread->lock);
    }
    pthread_mutex_unlock(&thread->lock);
    mr_cache_host_refresh(thread->host);
    return NULL;
}

static mr_status start_thread(struct mr_cache_thread *thread, mr_error *error)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&thread->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&thread->lock, NULL);
    int failed = mr_thread_start(&thread->id, follow_cache, thread);
    if (failed == 0)
        return MR_OK;
    pthread_cond_destroy(&thread->ended);
    pthread_mutex_destroy(&thread->lock);
    return mr_error_os(error, MR_ERR_WORKER, failed,
                       "cannot start the thread that follows the cache");
}

mr_status mr_cache_thread_start(const struct mr_cache_host_options *options,
                                const struct mr_catalog *catalog, struct mr_cache_region *region,
                                struct mr_cache_thread **thread_out, mr_error *error)
{
    mr_error why;
    *thread_out = NULL;
    struct mr_cache_thread *thread = calloc(1, sizeof *thread);
    if (!thread)
        return mr_error_memory(error, sizeof *thread);
    mr_status status = mr_cache_host_create(options, catalog, region, &thread->host, &why);
    if (status == MR_OK)
        status = start_thread(thread, &why);
    if (status == MR_OK) {
        *thread_out = thread;
        return MR_OK;
    }
    mr_cache_host_destroy(thread->host);
    free(thread);
    bool full = why.os_error == ENOSPC || why.os_error == EDQUOT;
    if (status != MR_ERR_UNSUPPORTED && !full) {
        mr_error_copy(error, &why);
        return status;
    }
    mr_log_line(MR_LOG_WARNING, "continuing without the cache %s: %s", options->dir, why.text);
    return MR_OK;
}

void mr_cache_thread_stop(struct mr_cache_thread *thread)
{
    if (!thread)
        return;
    pthread_mutex_lock(&thread->lock);
    thread->ending = true;
    pthread_cond_signal(&thread->ended);
    pthread_mutex_unlock(&thread->lock);
    pthread_join(thread->id, NULL);
    pthread_cond_destroy(&thread->ended);
    pthread_mutex_destroy(&thread->lock);
    mr_cache_host_destroy(thread->host);
    free(thread);
}
