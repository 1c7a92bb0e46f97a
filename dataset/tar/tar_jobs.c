/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Threads that index shards. Each thread claims the next shard; the caller takes the results in
 * order. Reading headers is mostly waiting for a disk, so there are more threads than processors.
 *
 * Invariant: a claimed shard is less than RING shards ahead of the next one that the caller takes.
 * So the number of waiting results is bounded. If no thread can be started, the caller indexes the
 * shards itself.
 */
#include "dataset/tar/tar_jobs.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/thread.h"

enum { MAX_THREADS = 16, RING = 64 };

struct slot {
    bool done;
    mr_status status;
    mr_error error;
    struct mr_tar_samples samples;
};

struct jobs {
    const struct mr_tar_source *source;
    pthread_mutex_t lock;
    pthread_cond_t room; /* signalled when a shard may be claimed, or at the end */
    pthread_cond_t done; /* signalled when a slot is done */
    uint64_t claimed;    /* the next shard to claim */
    uint64_t taken;      /* the next shard to take */
    bool stop;
    struct slot slots[RING];
};

static bool claim_shard(struct jobs *jobs, uint64_t *shard_out)
{
    pthread_mutex_lock(&jobs->lock);
    while (!jobs->stop && jobs->claimed < jobs->source->n && jobs->claimed >= jobs->taken + RING)
        pthread_cond_wait(&jobs->room, &jobs->lock);
    bool claimed = !jobs->stop && jobs->claimed < jobs->source->n;
    if (claimed)
        *shard_out = jobs->claimed++;
    pthread_mutex_unlock(&jobs->lock);
    return claimed;
}

static void *index_shards(void *arg)
{
    struct jobs *jobs = arg;
    uint64_t shard;
    while (claim_shard(jobs, &shard)) {
        struct slot *slot = &jobs->slots[shard % RING];
        slot->status = mr_tar_index_shard(jobs->source, shard, &slot->samples, &slot->error);
        pthread_mutex_lock(&jobs->lock);
        slot->done = true;
        jobs->stop |= slot->status < 0; /* all shards before this one are claimed */
        pthread_cond_signal(&jobs->done);
        pthread_mutex_unlock(&jobs->lock);
    }
    return NULL;
}

static mr_status take_slot(struct jobs *jobs, struct slot *slot, mr_tar_jobs_take *take, void *user,
                           mr_error *error)
{
    mr_status status = slot->status;
    if (status == MR_OK)
        status = take(user, jobs->taken, &slot->samples, error);
    else if (error)
        *error = slot->error;
    mr_tar_samples_fini(&slot->samples);
    pthread_mutex_lock(&jobs->lock);
    slot->done = false;
    jobs->taken++;
    pthread_cond_broadcast(&jobs->room);
    pthread_mutex_unlock(&jobs->lock);
    return status;
}

static mr_status take_shards(struct jobs *jobs, uint32_t n_threads, mr_tar_jobs_take *take,
                             void *user, mr_error *error)
{
    mr_status status = MR_OK;
    while (status == MR_OK && jobs->taken < jobs->source->n) {
        struct slot *slot = &jobs->slots[jobs->taken % RING];
        if (n_threads == 0) {
            slot->status =
                mr_tar_index_shard(jobs->source, jobs->taken, &slot->samples, &slot->error);
        } else {
            pthread_mutex_lock(&jobs->lock);
            while (!slot->done)
                pthread_cond_wait(&jobs->done, &jobs->lock);
            pthread_mutex_unlock(&jobs->lock);
        }
        status = take_slot(jobs, slot, take, user, error);
    }
    return status;
}

/* Free the results that were not taken. */
static void free_slots(struct jobs *jobs)
{
    for (size_t i = 0; i < RING; i++)
        mr_tar_samples_fini(&jobs->slots[i].samples);
}

static void stop_threads(struct jobs *jobs, const pthread_t *threads, uint32_t n_threads)
{
    pthread_mutex_lock(&jobs->lock);
    jobs->stop = true;
    pthread_cond_broadcast(&jobs->room);
    pthread_mutex_unlock(&jobs->lock);
    for (uint32_t i = 0; i < n_threads; i++)
        pthread_join(threads[i], NULL);
}

mr_status mr_tar_jobs_run(const struct mr_tar_source *source, mr_tar_jobs_take *take, void *user,
                          mr_error *error)
{
    pthread_t threads[MAX_THREADS];
    uint32_t n_threads = 0;
    struct jobs *jobs = calloc(1, sizeof *jobs);
    if (!jobs)
        return mr_error_memory(error, sizeof *jobs);
    jobs->source = source;
    pthread_mutex_init(&jobs->lock, NULL);
    pthread_cond_init(&jobs->room, NULL);
    pthread_cond_init(&jobs->done, NULL);
    while (source->n > 1 && n_threads < source->n && n_threads < MAX_THREADS &&
           mr_thread_start(&threads[n_threads], index_shards, jobs) == 0)
        n_threads++;
    mr_status status = take_shards(jobs, n_threads, take, user, error);
    stop_threads(jobs, threads, n_threads);
    free_slots(jobs);
    pthread_cond_destroy(&jobs->done);
    pthread_cond_destroy(&jobs->room);
    pthread_mutex_destroy(&jobs->lock);
    free(jobs);
    return status;
}
