/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The thread that follows a cache: once a second, and once more at the end, so that what ended writing is told. Easy to
 * get wrong: it waits by the monotonic clock, or a clock that is set would stop it.
 */
#include "cache/cache_thread.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"
#include "base/thread.h"

struct mr_caching {
    struct mr_cache *cache;
    pthread_t thread;
    pthread_mutex_t lock;
    pthread_cond_t ended;
    bool ending;
};

static void *follow(void *arg)
{
    struct mr_caching *caching = arg;
    struct timespec due;
    pthread_mutex_lock(&caching->lock);
    while (!caching->ending) {
        clock_gettime(CLOCK_MONOTONIC, &due);
        due.tv_sec++;
        int rc = 0;
        while (!caching->ending && rc == 0)
            rc = pthread_cond_timedwait(&caching->ended, &caching->lock, &due);
        if (caching->ending)
            break;
        pthread_mutex_unlock(&caching->lock);
        mr_cache_refresh(caching->cache);
        pthread_mutex_lock(&caching->lock);
    }
    pthread_mutex_unlock(&caching->lock);
    mr_cache_refresh(caching->cache);
    return NULL;
}

static mr_status start_thread(struct mr_caching *caching, mr_error *error)
{
    pthread_condattr_t attributes;
    pthread_condattr_init(&attributes);
    pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
    pthread_cond_init(&caching->ended, &attributes);
    pthread_condattr_destroy(&attributes);
    pthread_mutex_init(&caching->lock, NULL);
    int failed = mr_thread_start(&caching->thread, follow, caching);
    if (failed == 0)
        return MR_OK;
    pthread_cond_destroy(&caching->ended);
    pthread_mutex_destroy(&caching->lock);
    return mr_error_os(error, MR_ERR_WORKER, failed, "cannot start the thread that follows the cache");
}

mr_status mr_caching_start(const struct mr_cache_options *options, const struct mr_catalog *catalog,
                           struct mr_cache_region *region, struct mr_caching **caching_out, mr_error *error)
{
    mr_error why;
    *caching_out = NULL;
    struct mr_caching *caching = calloc(1, sizeof *caching);
    if (!caching)
        return mr_error_memory(error, sizeof *caching);
    mr_status status = mr_cache_create(options, catalog, region, &caching->cache, &why);
    if (status == MR_OK)
        status = start_thread(caching, &why);
    if (status == MR_OK) {
        *caching_out = caching;
        return MR_OK;
    }
    mr_cache_destroy(caching->cache);
    free(caching);
    bool full = why.os_error == ENOSPC || why.os_error == EDQUOT;
    if (status != MR_ERR_UNSUPPORTED && !full) {
        mr_error_copy(error, &why);
        return status;
    }
    mr_log_line(MR_LOG_WARNING, "going on without the cache %s: %s", options->dir, why.text);
    return MR_OK;
}

void mr_caching_stop(struct mr_caching *caching)
{
    if (!caching)
        return;
    pthread_mutex_lock(&caching->lock);
    caching->ending = true;
    pthread_cond_signal(&caching->ended);
    pthread_mutex_unlock(&caching->lock);
    pthread_join(caching->thread, NULL);
    pthread_cond_destroy(&caching->ended);
    pthread_mutex_destroy(&caching->lock);
    mr_cache_destroy(caching->cache);
    free(caching);
}
