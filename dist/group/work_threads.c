/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The two threads of a group whose engine works on host memory. The runner runs collectives in
 * program order. The watch stops them when a rank is lost or the time is over.
 *
 * Invariant: if an engine does not return, the watch ends the work instead of the runner. So the
 * runner works on a copy of the collective, and before it touches the work again it checks that the
 * work has not been given up.
 */
#include "dist/group/work_threads.h"

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "dist/group/collective_words.h"
#include "dist/group/device_watch.h"
#include "dist/group/execute.h"
#include "dist/group/late_ranks.h"
#include "dist/group/work_state.h"

#define MS 1000000u        /* ns */
#define WATCH_MS 50        /* between two checks of the watch */
#define STOP_AFTER_MS 1000 /* past the deadline; an engine that observes it has returned */
#define GIVE_UP_MS 3000    /* after stop was set; an engine that observes it has returned */
#define DESTROY_MS 4000    /* for the engine to end */
#define GIVEN_UP_MS 1000   /* for a runner that returned late: it may still ask the store */

uint64_t mr_work_threads_deadline(const struct mr_group *group)
{
    return mr_clock_now_ns() + (uint64_t)group->timeout_ms * MS;
}

/* With the lock. */
void mr_work_threads_release(struct mr_group *group)
{
    group->is_busy = false;
    group->deadline_ns = 0;
    /* it ended well just when the watch thought it late */
    if (!group->is_dead && !group->is_closing) {
        group->stopped_ns = 0;
        __atomic_store_n(&group->stop, 0, __ATOMIC_RELAXED);
    }
    /* without a work the runner need not wake; that would cost more than a whole MPI collective */
    if (group->first)
        pthread_cond_signal(&group->changed);
    pthread_cond_broadcast(&group->ended);
}

/* With the lock. */
void mr_work_threads_note(struct mr_group *group, mr_status status, bool is_verdict,
                          const mr_error *error)
{
    if (status && is_verdict)
        mr_work_state_set_dead(group, error);
    else if (status)
        mr_work_state_set_failed(group, error);
}

/* Called with the lock; releases it while the engine works. */
static void run_current(struct mr_group *group)
{
    struct mr_collective collective = group->current->collective;
    uint64_t deadline_ns = mr_work_threads_deadline(group);
    bool is_verdict = false;
    mr_error error;
    group->is_busy = true;
    group->deadline_ns = deadline_ns;
    group->running = collective;
    pthread_mutex_unlock(&group->lock);
    mr_status status = mr_execute_collective(group, &collective, deadline_ns, &is_verdict, &error);
    pthread_mutex_lock(&group->lock);
    if (group->is_given_up)
        return;
    mr_work_threads_note(group, status, is_verdict, &error);
    mr_work_state_end(group, group->current, status ? &error : NULL);
    group->current = NULL;
    mr_work_threads_release(group);
}

static void take_first(struct mr_group *group)
{
    group->current = group->first;
    group->first = group->first->next;
    if (!group->first)
        group->last = NULL;
}

/*
 * With the lock. If all ranks end the group for the same reason, other ranks may still be in the
 * collective that reports it, so the engine counts as healthy.
 */
static void destroy_engine(struct mr_group *group)
{
    mr_error unused;
    bool is_healthy =
        !group->has_failed && !group->has_canceled && !mr_group_broken(group, &unused);
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

/* With the lock: the reason why the runner is given up. */
static void explain_give_up(struct mr_group *group, mr_error *error_out)
{
    char what[MR_COLLECTIVE_WORDS];
    char time[MR_COLLECTIVE_WORDS];
    mr_error broken;
    mr_collective_words_describe(&group->current->collective, true, what);
    mr_collective_words_time(group->timeout_ms, time);
    if (group->is_closing)
        mr_error_set(error_out, MR_ERR_STATE,
                     "the group was destroyed before %s had ended; the engine does not return",
                     what);
    else if (mr_group_broken(group, &broken))
        mr_error_set(error_out, MR_ERR_PEER, "%s: %.700s; the engine does not return", what,
                     broken.text);
    else
        mr_error_set(error_out, MR_ERR_TIMEOUT, "%s timed out after %s; the engine does not return",
                     what, time);
}

/* With the lock: end all works, because the runner does not return. */
static void give_up(struct mr_group *group)
{
    mr_error error;
    explain_give_up(group, &error);
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
static void check_engine(struct mr_group *group)
{
    mr_error unused;
    uint64_t now = mr_clock_now_ns();
    bool is_late = group->deadline_ns && now > group->deadline_ns + STOP_AFTER_MS * (uint64_t)MS;
    if (is_late || (!group->stopped_ns && mr_group_broken(group, &unused)))
        mr_work_state_set_stop(group);
    /* of the current collective; stop may have been set before it */
    uint64_t began = group->deadline_ns - (uint64_t)group->timeout_ms * MS;
    uint64_t since = group->stopped_ns > began ? group->stopped_ns : began;
    if (group->current && group->stopped_ns && now > since + GIVE_UP_MS * (uint64_t)MS)
        give_up(group);
}

/* Called with the lock; releases it meanwhile. */
static void note_slow_collective(struct mr_group *group)
{
    struct mr_collective collective = group->running;
    uint64_t began_ns = group->deadline_ns - (uint64_t)group->timeout_ms * MS;
    if (!group->deadline_ns || mr_clock_now_ns() < began_ns + MR_LATE_RANKS_NOTE_MS * (uint64_t)MS)
        return;
    pthread_mutex_unlock(&group->lock);
    mr_late_ranks_note(group, &collective);
    pthread_mutex_lock(&group->lock);
}

static void *run_watch(void *arg)
{
    struct mr_group *group = arg;
    pthread_mutex_lock(&group->lock);
    while (!group->is_closing) {
        struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + WATCH_MS * (uint64_t)MS);
        pthread_cond_timedwait(&group->quit, &group->lock, &at);
        if (!group->is_closing)
            check_engine(group);
        if (!group->is_closing)
            note_slow_collective(group);
    }
    pthread_mutex_unlock(&group->lock);
    return NULL;
}

mr_status mr_work_threads_start(struct mr_group *group, mr_error *error)
{
    if (group->table->on_device)
        return mr_device_watch_start(group, error);
    int rc = mr_thread_start(&group->watch, run_watch, group);
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
static void cancel_queued(struct mr_group *group)
{
    while (group->first) {
        char what[MR_COLLECTIVE_WORDS];
        mr_error error;
        struct mr_group_work *work = group->first;
        group->first = work->next;
        mr_collective_words_describe(&work->collective, true, what);
        mr_error_set(&error, MR_ERR_STATE, "the group was destroyed before %s had begun", what);
        mr_work_state_end(group, work, group->is_dead ? &group->dead : &error);
        group->has_canceled = true;
    }
    group->last = NULL;
}

void mr_work_threads_stop(struct mr_group *group)
{
    if (group->device_works) {
        mr_device_watch_stop(group);
        return;
    }
    pthread_mutex_lock(&group->lock);
    uint32_t limit_ms = group->is_given_up ? GIVEN_UP_MS : DESTROY_MS;
    struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + limit_ms * (uint64_t)MS);
    group->is_closing = true;
    cancel_queued(group);
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
        pthread_detach(group->runner); /* it holds a reference */
}
