/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives under way on the host: the queue, the runner that does them in the order of the program, the watch that
 * stops them when a rank is lost or the time is over, and the handles.
 *
 * Invariant: an engine may not come back, and then the watch ends the work instead of the runner. So the runner works
 * on a copy of the collective, and checks that it has not been given up before it touches the work again.
 */
#include "dist/group/work.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "dist/group/collective_words.h"
#include "dist/group/device_watch.h"
#include "dist/group/device_work.h"
#include "dist/group/execute.h"
#include "dist/group/work_state.h"

#define MS 1000000u        /* ns */
#define WATCH_MS 50        /* between two looks of the watch */
#define STOP_AFTER_MS 1000 /* an engine that minds its deadline has come back by itself */
#define GIVE_UP_MS 3000    /* after stop was set: the engine does not mind it */
#define DESTROY_MS 4000    /* for the engine to end */
#define GIVEN_UP_MS 1000   /* for a runner that came back late: it may still ask the store */

static uint64_t deadline_from_now(const struct mr_group *group)
{
    return mr_clock_now_ns() + (uint64_t)group->timeout_ms * MS;
}

/* With the lock. */
static void release_engine(struct mr_group *group)
{
    group->is_busy = false;
    group->deadline_ns = 0;
    if (!group->is_dead && !group->is_closing) { /* ended well just when the watch thought it late */
        group->stopped_ns = 0;
        __atomic_store_n(&group->stop, 0, __ATOMIC_RELAXED);
    }
    if (group->first) /* else the runner has nothing to do, and its wake-up costs more than MPI's whole collective */
        pthread_cond_signal(&group->changed);
    pthread_cond_broadcast(&group->ended);
}

/* With the lock: what a collective came to. */
static void note_status(struct mr_group *group, mr_status status, bool is_verdict, const mr_error *error)
{
    if (status && is_verdict)
        mr_work_state_set_dead(group, error);
    else if (status)
        mr_work_state_set_failed(group, error);
}

/* With the lock, which is free while the engine works. */
static void run_current(struct mr_group *group)
{
    struct mr_collective collective = group->current->collective;
    uint64_t deadline_ns = deadline_from_now(group);
    bool is_verdict = false;
    mr_error error;
    group->is_busy = true;
    group->deadline_ns = deadline_ns;
    pthread_mutex_unlock(&group->lock);
    mr_status status = mr_execute_collective(group, &collective, deadline_ns, &is_verdict, &error);
    pthread_mutex_lock(&group->lock);
    if (group->is_given_up)
        return;
    note_status(group, status, is_verdict, &error);
    mr_work_state_end(group, group->current, status ? &error : NULL);
    group->current = NULL;
    release_engine(group);
}

static void take_first(struct mr_group *group)
{
    group->current = group->first;
    group->first = group->first->next;
    if (!group->first)
        group->last = NULL;
}

/* With the lock. Of a group that all ranks end, others may still be in the collective that tells them. */
static void destroy_engine(struct mr_group *group)
{
    mr_error unused;
    bool is_healthy = !group->has_failed && !group->has_canceled && !mr_group_broken(group, &unused);
    pthread_mutex_unlock(&group->lock);
    group->table->destroy(group->engine, is_healthy);
    pthread_mutex_lock(&group->lock);
}

static void *run_works(void *arg)
{
    struct mr_group *group = arg;
    pthread_mutex_lock(&group->lock);
    while (!group->is_given_up && (!group->is_closing || group->first)) {
        if (!group->first || group->is_busy) {
            pthread_cond_wait(&group->changed, &group->lock);
            continue;
        }
        take_first(group);
        if (group->is_dead) {
            mr_work_state_end(group, group->current, &group->dead);
            group->current = NULL;
        } else {
            run_current(group);
        }
    }
    if (!group->is_given_up)
        destroy_engine(group);
    group->runner_is_gone = true;
    pthread_cond_broadcast(&group->ended);
    pthread_mutex_unlock(&group->lock);
    mr_group_drop(group);
    return NULL;
}

/* With the lock: why the runner is waited for no longer. */
static void explain_giving_up(struct mr_group *group, mr_error *error_out)
{
    char what[MR_COLLECTIVE_WORDS];
    char time[MR_COLLECTIVE_WORDS];
    mr_error broken;
    mr_collective_words_describe(&group->current->collective, true, what);
    mr_collective_words_time(group->timeout_ms, time);
    if (group->is_closing)
        mr_error_set(error_out, MR_ERR_STATE,
                     "the group was destroyed before %s had ended; the engine does not come back", what);
    else if (mr_group_broken(group, &broken))
        mr_error_set(error_out, MR_ERR_PEER, "%s: %.700s; the engine does not come back", what, broken.text);
    else
        mr_error_set(error_out, MR_ERR_TIMEOUT, "%s timed out after %s; the engine does not come back", what, time);
}

/* With the lock: what waits for the runner ends without it. */
static void give_up(struct mr_group *group)
{
    mr_error error;
    explain_giving_up(group, &error);
    group->is_given_up = true;
    mr_work_state_set_failed(group, &error);
    mr_work_state_end(group, group->current, &group->dead);
    group->current = NULL;
    while (group->first) {
        take_first(group);
        mr_work_state_end(group, group->current, &group->dead);
        group->current = NULL;
    }
}

/* With the lock. */
static void look_at_engine(struct mr_group *group)
{
    mr_error unused;
    uint64_t now = mr_clock_now_ns();
    bool is_late = group->deadline_ns && now > group->deadline_ns + STOP_AFTER_MS * (uint64_t)MS;
    if (is_late || (!group->stopped_ns && mr_group_broken(group, &unused)))
        mr_work_state_set_stop(group);
    uint64_t began = group->deadline_ns - (uint64_t)group->timeout_ms * MS; /* of the current one; stop may be older */
    uint64_t since = group->stopped_ns > began ? group->stopped_ns : began;
    if (group->current && group->stopped_ns && now > since + GIVE_UP_MS * (uint64_t)MS)
        give_up(group);
}

static void *keep_watch(void *arg)
{
    struct mr_group *group = arg;
    pthread_mutex_lock(&group->lock);
    while (!group->is_closing) {
        struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + WATCH_MS * (uint64_t)MS);
        pthread_cond_timedwait(&group->quit, &group->lock, &at);
        if (!group->is_closing)
            look_at_engine(group);
    }
    pthread_mutex_unlock(&group->lock);
    return NULL;
}

mr_status mr_work_start_threads(struct mr_group *group, mr_error *error)
{
    if (group->table->on_device)
        return mr_device_watch_start(group, error);
    int rc = mr_thread_start(&group->watch, keep_watch, group);
    if (rc != 0)
        return mr_error_os(error, MR_ERR_IO, rc, "cannot start a thread of the group");
    group->n_references++; /* the runner's */
    rc = mr_thread_start(&group->runner, run_works, group);
    if (rc == 0) {
        group->has_threads = true;
        return MR_OK;
    }
    group->n_references--;
    pthread_mutex_lock(&group->lock);
    group->is_closing = true;
    pthread_cond_signal(&group->quit);
    pthread_mutex_unlock(&group->lock);
    pthread_join(group->watch, NULL);
    return mr_error_os(error, MR_ERR_IO, rc, "cannot start a thread of the group");
}

/* With the lock: works that have not begun. */
static void cancel_waiting(struct mr_group *group)
{
    while (group->first) {
        char what[MR_COLLECTIVE_WORDS];
        mr_error error;
        struct mr_work *work = group->first;
        group->first = work->next;
        mr_collective_words_describe(&work->collective, true, what);
        mr_error_set(&error, MR_ERR_STATE, "the group was destroyed before %s had begun", what);
        mr_work_state_end(group, work, group->is_dead ? &group->dead : &error);
        group->has_canceled = true;
    }
    group->last = NULL;
}

void mr_work_stop_threads(struct mr_group *group)
{
    if (group->device_works) {
        mr_device_watch_stop(group);
        return;
    }
    pthread_mutex_lock(&group->lock);
    uint32_t limit_ms = group->is_given_up ? GIVEN_UP_MS : DESTROY_MS;
    struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + limit_ms * (uint64_t)MS);
    group->is_closing = true;
    cancel_waiting(group);
    if (group->is_busy) {
        group->has_canceled = true;
        mr_work_state_set_stop(group);
    }
    pthread_cond_signal(&group->changed);
    pthread_cond_signal(&group->quit);
    int rc = 0;
    while (!group->runner_is_gone && rc == 0)
        rc = pthread_cond_timedwait(&group->ended, &group->lock, &at);
    bool is_gone = group->runner_is_gone;
    if (!is_gone && group->current)
        give_up(group);
    group->is_given_up |= !is_gone;
    pthread_mutex_unlock(&group->lock);
    pthread_join(group->watch, NULL);
    if (is_gone)
        pthread_join(group->runner, NULL);
    else
        pthread_detach(group->runner); /* it has a reference */
}

/* With the lock. */
static void append_work(struct mr_group *group, struct mr_work *work)
{
    work->next = NULL;
    if (group->is_given_up) { /* since mr_group_enter() looked: nobody would take it */
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

/* Numbers are equal on all ranks that take part. Sends do not count for the ranks that have no part in them. */
static uint64_t *counter_of(struct mr_group *group, const struct mr_collective *c)
{
    if (c->kind == MR_COLLECTIVE_SEND)
        return &group->n_sent[c->root];
    if (c->kind == MR_COLLECTIVE_RECV)
        return &group->n_received[c->root];
    return &group->n_collectives;
}

/* A world of one: what is gathered or scattered is what was given. */
static void copy_alone(const struct mr_collective *c)
{
    if (c->count > 0 && c->in != c->out)
        memmove(c->out, c->in, c->count * mr_dtype_size((mr_dtype)c->dtype));
}

static mr_status end_group(struct mr_group *group, const mr_error *error, bool has_failed)
{
    pthread_mutex_lock(&group->lock);
    group->is_dead = false; /* these words say more than those of a failure just before */
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
    release_engine(group);
    pthread_mutex_unlock(&group->lock);
}

/* In the caller's thread, who has found the engine free. With the lock, which is free meanwhile. */
static void run_here(struct mr_group *group, const struct mr_collective *collective)
{
    uint64_t deadline_ns = deadline_from_now(group);
    bool is_verdict = false;
    mr_error error;
    group->is_busy = true;
    group->deadline_ns = deadline_ns;
    pthread_mutex_unlock(&group->lock);
    mr_status status = mr_execute_collective(group, collective, deadline_ns, &is_verdict, &error);
    pthread_mutex_lock(&group->lock);
    note_status(group, status, is_verdict, &error);
    release_engine(group);
}

/* With the lock: behind what is under way. */
static void run_behind(struct mr_group *group, const struct mr_collective *collective)
{
    struct mr_work work = {.group = group, .collective = *collective};
    append_work(group, &work);
    while (!work.has_ended)
        pthread_cond_wait(&group->ended, &group->lock);
}

static mr_status run_blocking(struct mr_group *group, const struct mr_collective *collective)
{
    pthread_mutex_lock(&group->lock);
    if (!group->first && !group->is_busy)
        run_here(group, collective);
    else
        run_behind(group, collective);
    mr_status status = group->is_dead ? (mr_status)group->dead.status : MR_OK;
    if (status)
        group->error = group->dead;
    pthread_mutex_unlock(&group->lock);
    return status;
}

static mr_status run_on_device(struct mr_group *group, const struct mr_collective *collective)
{
    struct mr_work work = {.group = group, .collective = *collective};
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

/* Hand the work to who does it. */
static mr_status begin_work(struct mr_group *group, struct mr_work *work)
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

static mr_status submit_async(struct mr_group *group, const struct mr_collective *collective, struct mr_work **work_out)
{
    struct mr_work *work = calloc(1, sizeof *work);
    if (!work) { /* the other ranks go on to a collective that this one cannot begin */
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

mr_status mr_work_submit(struct mr_group *group, struct mr_collective *collective, struct mr_work **work_out)
{
    uint64_t *counter = counter_of(group, collective);
    collective->number = ++*counter;
    mr_status status = work_out ? submit_async(group, collective, work_out) : submit_blocking(group, collective);
    if (status == MR_ERR_INVALID || status == MR_ERR_STATE) /* refused by the engine before anything had begun */
        --*counter;
    return status;
}

static mr_status wait_until(struct mr_work *work, uint32_t timeout_ms)
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

/* In a forked child the lock may be held by nobody who is there. */
static mr_status check_process(const struct mr_work *work)
{
    if (!work)
        return MR_ERR_INVALID;
    return work->group->pid == getpid() ? MR_OK : MR_ERR_STATE;
}

mr_status mr_work_sync(mr_work *work, uint32_t timeout_ms)
{
    mr_status status = check_process(work);
    return status ? status : wait_until(work, timeout_ms);
}

mr_status mr_work_wait(mr_work *work, void *stream)
{
    mr_status status = check_process(work);
    if (!status && work->group->device_works)
        return mr_device_work_wait(work, stream);
    return status ? status : wait_until(work, MR_FOREVER); /* ended is more than any stream needs */
}

mr_status mr_work_test(mr_work *work)
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

/* False: it has not ended, and whoever keeps it frees it. */
static bool can_free(struct mr_work *work)
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

void mr_work_free(mr_work *work)
{
    if (!work || check_process(work))
        return;
    struct mr_group *group = work->group;
    if (can_free(work))
        free(work);
    mr_group_drop(group);
}
