/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives under way, in the caller's thread: submitting them, waiting for them, and their
 * handles. If no collective is under way, a blocking call runs the engine here. All others go to
 * the runner of work_threads.c.
 */
#include "dist/group/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "dist/group/device_work.h"
#include "dist/group/execute.h"
#include "dist/group/work_state.h"
#include "dist/group/work_threads.h"

#define MS 1000000u /* ns */

/* With the lock. */
static void append_work(struct mr_group *group, struct mr_group_work *work)
{
    work->next = NULL;
    if (group->is_given_up) { /* given up after mr_group_enter() checked: no thread would take it */
        mr_work_state_end(group, work, &group->dead);
        return;
    }
    if (group->last)
        group->last->next = work;
    else
        group->first = work;
    group->last = work;
    pthread_cond_signal(&group->changed);
}

/*
 * The counter that numbers this collective; equal on all ranks that take part. Messages are counted
 * per pair of ranks, because other ranks do not see them.
 */
static uint64_t *find_counter(struct mr_group *group, const struct mr_collective *c)
{
    if (c->kind == MR_COLLECTIVE_SEND)
        return &group->n_sent[c->root];
    if (c->kind == MR_COLLECTIVE_RECV)
        return &group->n_received[c->root];
    return &group->n_collectives;
}

/* In a world of one the result is the input. */
static void copy_alone(const struct mr_collective *c)
{
    if (c->count > 0 && c->in != c->out)
        memmove(c->out, c->in, c->count * mr_dtype_size((mr_dtype)c->dtype));
}

static mr_status end_group(struct mr_group *group, const mr_error *error, bool has_failed)
{
    pthread_mutex_lock(&group->lock);
    group->is_dead = false; /* this error says more than that of a failure just before */
    if (has_failed)
        mr_work_state_set_failed(group, error);
    else
        mr_work_state_set_dead(group, error);
    group->error = *error;
    pthread_mutex_unlock(&group->lock);
    return (mr_status)error->status;
}

mr_status mr_work_end_group(struct mr_group *group, const mr_error *error)
{
    return end_group(group, error, false);
}

mr_status mr_work_fail_group(struct mr_group *group, const mr_error *error)
{
    return end_group(group, error, true);
}

mr_status mr_work_take_engine(struct mr_group *group, uint64_t deadline_ns)
{
    pthread_mutex_lock(&group->lock);
    while ((group->first || group->is_busy) && !group->is_given_up)
        pthread_cond_wait(&group->ended, &group->lock);
    if (!group->is_dead) {
        group->is_busy = true;
        group->deadline_ns = deadline_ns;
    } else {
        group->error = group->dead;
    }
    mr_status status = group->is_dead ? (mr_status)group->dead.status : MR_OK;
    pthread_mutex_unlock(&group->lock);
    return status;
}

void mr_work_give_engine(struct mr_group *group, bool is_sound)
{
    pthread_mutex_lock(&group->lock);
    group->has_failed |= !is_sound;
    mr_work_threads_release(group);
    pthread_mutex_unlock(&group->lock);
}

/*
 * Runs the engine in the caller's thread. The engine must be free. Called with the lock; releases
 * it during the run.
 */
static void run_in_caller(struct mr_group *group, const struct mr_collective *collective)
{
    uint64_t deadline_ns = mr_work_threads_deadline(group);
    bool is_verdict = false;
    mr_error error;
    group->is_busy = true;
    group->deadline_ns = deadline_ns;
    group->running = *collective;
    pthread_mutex_unlock(&group->lock);
    mr_status status = mr_execute_collective(group, collective, deadline_ns, &is_verdict, &error);
    pthread_mutex_lock(&group->lock);
    mr_work_threads_note(group, status, is_verdict, &error);
    mr_work_threads_release(group);
}

/* With the lock: waits in the queue for the runner. */
static void run_in_queue(struct mr_group *group, const struct mr_collective *collective)
{
    struct mr_group_work work = {.group = group, .collective = *collective};
    append_work(group, &work);
    while (!work.has_ended)
        pthread_cond_wait(&group->ended, &group->lock);
}

static mr_status run_blocking(struct mr_group *group, const struct mr_collective *collective)
{
    pthread_mutex_lock(&group->lock);
    if (!group->first && !group->is_busy)
        run_in_caller(group, collective);
    else
        run_in_queue(group, collective);
    mr_status status = group->is_dead ? (mr_status)group->dead.status : MR_OK;
    if (status)
        group->error = group->dead;
    pthread_mutex_unlock(&group->lock);
    return status;
}

static mr_status run_on_device(struct mr_group *group, const struct mr_collective *collective)
{
    struct mr_group_work work = {.group = group, .collective = *collective};
    mr_status status = mr_device_work_submit(group, &work);
    return status ? status : mr_device_work_sync(&work, MR_FOREVER);
}

static mr_status submit_blocking(struct mr_group *group, const struct mr_collective *collective)
{
    if (group->device_works)
        return run_on_device(group, collective);
    if (group->table)
        return run_blocking(group, collective);
    copy_alone(collective);
    return MR_OK;
}

/* Hand the work to the device, or to the runner. */
static mr_status begin_work(struct mr_group *group, struct mr_group_work *work)
{
    if (group->device_works)
        return mr_device_work_submit(group, work);
    if (!group->table) {
        copy_alone(&work->collective);
        work->has_ended = true;
        return MR_OK;
    }
    pthread_mutex_lock(&group->lock);
    append_work(group, work);
    pthread_mutex_unlock(&group->lock);
    return MR_OK;
}

static mr_status submit_async(struct mr_group *group, const struct mr_collective *collective,
                              struct mr_group_work **work_out)
{
    struct mr_group_work *work = calloc(1, sizeof *work);
    if (!work) { /* the other ranks begin a collective that this one cannot begin */
        mr_error error;
        mr_error_memory(&error, sizeof *work);
        return mr_work_fail_group(group, &error);
    }
    work->group = group;
    work->collective = *collective;
    mr_status status = begin_work(group, work);
    if (status) {
        free(work);
        return status;
    }
    pthread_mutex_lock(&group->lock);
    group->n_references++;
    pthread_mutex_unlock(&group->lock);
    *work_out = work;
    return MR_OK;
}

mr_status mr_work_submit(struct mr_group *group, struct mr_collective *collective,
                         struct mr_group_work **work_out)
{
    uint64_t *counter = find_counter(group, collective);
    collective->number = ++*counter;
    mr_status status =
        work_out ? submit_async(group, collective, work_out) : submit_blocking(group, collective);
    /* the engine refused it, and nothing has begun */
    if (status == MR_ERR_INVALID || status == MR_ERR_STATE)
        --*counter;
    return status;
}

static mr_status wait_until(struct mr_group_work *work, uint32_t timeout_ms)
{
    struct mr_group *group = work->group;
    if (group->device_works)
        return mr_device_work_sync(work, timeout_ms);
    struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + (uint64_t)timeout_ms * MS);
    int rc = 0;
    pthread_mutex_lock(&group->lock);
    while (!work->has_ended && rc != ETIMEDOUT) {
        if (timeout_ms == MR_FOREVER)
            pthread_cond_wait(&group->ended, &group->lock);
        else
            rc = pthread_cond_timedwait(&group->ended, &group->lock, &at);
    }
    mr_status status = mr_work_state_get(work);
    pthread_mutex_unlock(&group->lock);
    return status;
}

/* In a forked child the lock may be held by a thread that does not exist there. */
static mr_status check_process(const struct mr_group_work *work)
{
    if (!work)
        return MR_ERR_INVALID;
    return work->group->pid == getpid() ? MR_OK : MR_ERR_STATE;
}

mr_status mr_group_work_sync(mr_group_work *work, uint32_t timeout_ms)
{
    mr_status status = check_process(work);
    return status ? status : wait_until(work, timeout_ms);
}

mr_status mr_group_work_wait(mr_group_work *work, void *stream)
{
    mr_status status = check_process(work);
    if (!status && work->group->device_works)
        return mr_device_work_wait(work, stream);
    return status ? status
                  : wait_until(work, MR_FOREVER); /* after its end, any stream may use the result */
}

mr_status mr_group_work_test(mr_group_work *work)
{
    mr_status status = check_process(work);
    if (status)
        return status;
    if (work->group->device_works)
        return mr_device_work_sync(work, 0);
    pthread_mutex_lock(&work->group->lock);
    status = mr_work_state_get(work);
    pthread_mutex_unlock(&work->group->lock);
    return status;
}

/* False: it has not ended, and the list frees it later. */
static bool can_free(struct mr_group_work *work)
{
    struct mr_group *group = work->group;
    if (group->device_works)
        return mr_device_work_leave(work);
    pthread_mutex_lock(&group->lock);
    while (!work->has_ended)
        pthread_cond_wait(&group->ended, &group->lock);
    pthread_mutex_unlock(&group->lock);
    return true;
}

void mr_group_work_destroy(mr_group_work *work)
{
    if (!work || check_process(work))
        return;
    struct mr_group *group = work->group;
    if (can_free(work))
        free(work);
    mr_group_drop(group);
}
