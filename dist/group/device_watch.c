/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The watch of a group on a device. It checks the oldest work, the engine's health, the deadline
 * and the store. Only the watch ends the group and aborts the engine. At destroy it also does the
 * caller's part, so that an engine that does not return does not block the caller.
 *
 * Invariant: calls that may block are made without the lock. Afterwards the watch checks whether it
 * was given up meanwhile.
 */
#include "dist/group/device_watch.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/thread.h"
#include "dist/group/collective_words.h"
#include "dist/group/device_work.h"
#include "dist/group/execute.h"
#include "dist/group/late_ranks.h"

#define MS UINT64_C(1000000) /* ns */
#define WATCH_MS 50          /* between two checks */
#define ISSUE_LATE_MS 1000   /* past its deadline; an issue that observes it has returned */
#define STOP_MS 3000         /* for an issue to return after stop was set */
#define GRACE_MS 1000        /* at destroy, for collectives under way to end */
#define DESTROY_MS 6000      /* for the grace time and for the engine to end */
#define GIVEN_UP_MS 500      /* for a watch that returned late */

/*
 * Only tests: tickets are dropped in the caller's thread. Returns the oldest work that has not
 * ended.
 */
static struct mr_group_work *test_oldest(struct mr_group *group)
{
    struct mr_group_work *work = mr_device_work_oldest(group->device_works);
    while (work) {
        mr_device_work_look(group, work);
        if (!work->has_ended)
            break;
        work = mr_device_work_oldest(group->device_works);
    }
    return work;
}

static bool is_late(const struct mr_group *group, bool issues)
{
    const struct mr_device_works *works = group->device_works;
    uint64_t now = mr_clock_now_ns();
    if (issues)
        return now > works->issue_by_ns + ISSUE_LATE_MS * MS;
    return now > works->oldest_since_ns + group->timeout_ms * MS;
}

/* collective: the oldest one under way, in the engine or being issued. */
static void check_failures(struct mr_group *group, const struct mr_collective *collective,
                           bool issues)
{
    mr_error error = {0};
    if (mr_group_broken(group, &error)) {
        mr_device_work_note(group, collective, MR_ERR_CANCELED, false, NULL);
        return;
    }
    mr_status status =
        issues ? MR_OK : (mr_status)mr_device_work_engine(group)->health(group->engine, &error);
    if (status)
        mr_device_work_note(group, collective, status, false, &error);
    else if (is_late(group, issues))
        mr_device_work_note(group, collective, MR_ERR_TIMEOUT, false, NULL);
}

static void abort_engine(struct mr_group *group)
{
    struct mr_device_works *works = group->device_works;
    works->closed_ns = mr_clock_now_ns();
    if (group->adopt) /* only its owner may abort it */
        return;
    pthread_mutex_unlock(&group->lock);
    mr_device_work_engine(group)->abort(group->engine);
    pthread_mutex_lock(&group->lock);
    works->is_aborted = true;
}

/* Waits until the issue under way returns because of stop. If it does not return, abort ends it. */
static void wait_for_issue(struct mr_group *group)
{
    uint64_t until_ns = mr_clock_now_ns() + STOP_MS * MS;
    struct timespec at = mr_work_state_time_at(until_ns);
    mr_work_state_set_stop(group);
    while (group->device_works->issuing && mr_clock_now_ns() < until_ns)
        pthread_cond_timedwait(&group->quit, &group->lock, &at);
}

/* End the works that succeeded before the failed one, but have not been tested since. */
static void end_succeeded(struct mr_group *group)
{
    mr_error unused;
    for (struct mr_group_work *work = group->device_works->first; work; work = work->next) {
        if (work->has_ended)
            continue;
        if (mr_device_work_engine(group)->test(group->engine, work->ticket, &unused) != MR_OK)
            return;
        mr_work_state_end(group, work, NULL);
    }
}

static void end_group(struct mr_group *group)
{
    struct mr_device_failure failure = group->device_works->failure;
    wait_for_issue(group);
    end_succeeded(group);
    if (!group->is_dead) {
        pthread_mutex_unlock(&group->lock);
        if (!failure.is_final)
            mr_execute_explain(group, &failure.collective, failure.status, &failure.error);
        pthread_mutex_lock(&group->lock);
        mr_work_state_set_dead(group, &failure.error);
    }
    abort_engine(group);
    if (!group->is_given_up)
        mr_device_work_end_all(group, &group->dead);
}

/*
 * Called with the lock; releases it meanwhile. Notes the oldest work, or the one that is being
 * issued.
 */
static void note_slow_collective(struct mr_group *group)
{
    const struct mr_device_works *works = group->device_works;
    const struct mr_group_work *oldest = mr_device_work_oldest(works);
    uint64_t since_ns =
        oldest ? works->oldest_since_ns : works->issue_by_ns - group->timeout_ms * MS;
    if ((!oldest && !works->issuing) || mr_clock_now_ns() < since_ns + MR_LATE_RANKS_NOTE_MS * MS)
        return;
    struct mr_collective collective = oldest ? oldest->collective : *works->issuing;
    pthread_mutex_unlock(&group->lock);
    mr_late_ranks_note(group, &collective);
    pthread_mutex_lock(&group->lock);
}

static void check_group(struct mr_group *group)
{
    struct mr_device_works *works = group->device_works;
    mr_error unused;
    if (works->is_over)
        return;
    if (mr_device_work_is_well(group))
        note_slow_collective(group);
    if (mr_device_work_is_well(group)) {
        const struct mr_group_work *oldest = test_oldest(group);
        if (mr_device_work_is_well(group) && oldest)
            check_failures(group, &oldest->collective, false);
        else if (mr_device_work_is_well(group) && works->issuing)
            check_failures(group, works->issuing, true);
        else if (mr_device_work_is_well(group) &&
                 mr_group_broken(group, &unused)) /* the next collective reports it */
            mr_work_state_set_stop(group);
    }
    if (!mr_device_work_is_well(group))
        end_group(group);
}

/* Wait a moment for the collectives under way at destroy. */
static void wait_grace_time(struct mr_group *group)
{
    uint64_t until_ns = mr_clock_now_ns() + GRACE_MS * MS;
    mr_error unused;
    while (mr_device_work_is_well(group) && test_oldest(group) && mr_clock_now_ns() < until_ns &&
           !mr_group_broken(group, &unused)) {
        struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + MS);
        pthread_cond_timedwait(&group->quit, &group->lock, &at);
    }
}

static void cancel_works(struct mr_group *group)
{
    group->has_canceled = true;
    abort_engine(group);
    for (struct mr_group_work *work = group->device_works->first; work && !group->is_given_up;
         work = work->next) {
        char what[MR_COLLECTIVE_WORDS];
        mr_error error;
        mr_collective_words_describe(&work->collective, true, what);
        mr_error_set(&error, MR_ERR_STATE, "the group was destroyed before %s had ended", what);
        if (!work->has_ended)
            mr_work_state_end(group, work, group->is_dead ? &group->dead : &error);
    }
}

/* Does the part of the caller's thread, which is waiting in destroy. */
static void close_engine(struct mr_group *group)
{
    struct mr_device_works *works = group->device_works;
    mr_error unused;
    if (!works->is_over) {
        wait_grace_time(group);
        if (mr_device_work_oldest(works) || !mr_device_work_is_well(group))
            cancel_works(group);
    }
    if (group->is_given_up)
        return;
    works->is_over = true;
    mr_device_work_reap(group);
    if (works->n_forgotten > 0)
        return;
    bool is_healthy =
        !group->has_failed && !group->has_canceled && !mr_group_broken(group, &unused);
    pthread_mutex_unlock(&group->lock);
    group->table->destroy(group->engine, is_healthy);
    pthread_mutex_lock(&group->lock);
}

static void *run_watch(void *arg)
{
    struct mr_group *group = arg;
    pthread_mutex_lock(&group->lock);
    while (!group->is_closing) {
        struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + WATCH_MS * MS);
        if (!group->has_failed || group->device_works->is_over)
            pthread_cond_timedwait(&group->quit, &group->lock, &at);
        if (!group->is_closing)
            check_group(group);
    }
    if (!group->is_given_up)
        close_engine(group);
    group->runner_is_gone = true;
    pthread_cond_broadcast(&group->ended);
    pthread_mutex_unlock(&group->lock);
    mr_group_drop(group);
    return NULL;
}

mr_status mr_device_watch_start(struct mr_group *group, mr_error *error)
{
    group->device_works = calloc(1, sizeof *group->device_works);
    if (!group->device_works)
        return mr_error_memory(error, sizeof *group->device_works);
    group->n_references++; /* the watch's */
    int rc = mr_thread_start(&group->watch, run_watch, group);
    if (rc == 0) {
        group->has_threads = true;
        return MR_OK;
    }
    group->n_references--;
    return mr_error_os(error, MR_ERR_IO, rc, "cannot start a thread of the group");
}

void mr_device_watch_stop(struct mr_group *group)
{
    mr_error error;
    int rc = 0;
    mr_error_set(
        &error, MR_ERR_STATE,
        "the group was destroyed before all collectives had ended; the engine does not return");
    pthread_mutex_lock(&group->lock);
    uint32_t limit_ms = group->is_given_up ? GIVEN_UP_MS : DESTROY_MS;
    struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + limit_ms * MS);
    group->is_closing = true;
    pthread_cond_signal(&group->quit);
    while (!group->runner_is_gone && rc == 0)
        rc = pthread_cond_timedwait(&group->ended, &group->lock, &at);
    bool is_gone = group->runner_is_gone;
    if (!is_gone) {
        mr_work_state_set_failed(group, &error);
        mr_device_work_give_up(group);
    }
    pthread_mutex_unlock(&group->lock);
    if (is_gone)
        pthread_join(group->watch, NULL);
    else
        pthread_detach(group->watch); /* it holds a reference */
}
