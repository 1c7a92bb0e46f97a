/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives under way on a device. The caller's thread issues them in program order. They stay in
 * a list until they have ended. A caller that waits polls the engine. A work that its user has
 * freed stays in the list too, because otherwise its hang would not be noticed.
 *
 * Invariant: the ticket of a collective on host memory is dropped only when the device no longer
 * uses that memory.
 */
#include "dist/group/device_work.h"

#include <stdlib.h>

#include "base/clock.h"
#include "base/error.h"
#include "dist/group/collective_check.h"

#define MS UINT64_C(1000000) /* ns */
#define WAIT_MS 50           /* between two checks of a watch that may hang */
#define GIVE_UP_MS 3000      /* for abort to return */
#define SPINS 100            /* polls before a sleep */
#define MIN_SLEEP_NS 5000    /* between two polls; grows to MAX_SLEEP_NS */
#define MAX_SLEEP_NS 100000

/* The list. All with the lock. */

static void append_work(struct mr_group *group, struct mr_group_work *work)
{
    struct mr_device_works *works = group->device_works;
    work->next = NULL;
    work->before = works->last;
    *(works->last ? &works->last->next : &works->first) = work;
    works->last = work;
    work->is_listed = true;
}

static bool can_drop(const struct mr_group *group, const struct mr_group_work *work)
{
    if (group->is_given_up)
        return false;
    return !work->collective.on_host || group->device_works->is_aborted ||
           (work->has_ended && work->error.status == MR_OK);
}

/* In the caller's thread, or in the watch during destroy. */
static void unlist_work(struct mr_group *group, struct mr_group_work *work)
{
    struct mr_device_works *works = group->device_works;
    if (!work->is_listed)
        return;
    *(work->before ? &work->before->next : &works->first) = work->next;
    *(work->next ? &work->next->before : &works->last) = work->before;
    work->is_listed = false;
    if (can_drop(group, work))
        mr_device_work_engine(group)->drop(group->engine, work->ticket);
    else
        works->n_forgotten++;
}

void mr_device_work_reap(struct mr_group *group)
{
    struct mr_device_works *works = group->device_works;
    while (works->first && works->first->has_ended) {
        struct mr_group_work *work = works->first;
        unlist_work(group, work);
        if (work->is_abandoned)
            free(work);
    }
}

struct mr_group_work *mr_device_work_oldest(const struct mr_device_works *works)
{
    struct mr_group_work *work = works->first;
    while (work && work->has_ended)
        work = work->next;
    return work;
}

/* Failures. All with the lock. */

void mr_device_work_note(struct mr_group *group, const struct mr_collective *collective,
                         mr_status status, bool is_final, const mr_error *error)
{
    struct mr_device_failure *failure = &group->device_works->failure;
    if (group->has_failed)
        return;
    group->has_failed = true;
    *failure = (struct mr_device_failure){
        .is_final = is_final, .status = status, .collective = *collective};
    if (error)
        failure->error = *error;
    pthread_cond_signal(&group->quit);
}

void mr_device_work_end_all(struct mr_group *group, const mr_error *error)
{
    for (struct mr_group_work *work = group->device_works->first; work; work = work->next)
        if (!work->has_ended)
            mr_work_state_end(group, work, error);
    group->device_works->is_over = true;
    pthread_cond_broadcast(&group->ended);
}

void mr_device_work_give_up(struct mr_group *group)
{
    group->is_given_up = true;
    mr_device_work_end_all(group, &group->dead);
    mr_device_work_reap(group);
}

static bool is_overdue(const struct mr_group *group)
{
    const struct mr_device_works *works = group->device_works;
    return !works->is_over && works->closed_ns &&
           mr_clock_now_ns() > works->closed_ns + GIVE_UP_MS * MS;
}

bool mr_device_work_is_well(const struct mr_group *group)
{
    return !group->has_failed && !group->device_works->closed_ns;
}

mr_status mr_device_work_enter(struct mr_group *group)
{
    while (group->has_failed && !group->device_works->is_over) {
        struct timespec at = mr_work_state_time_at(mr_clock_now_ns() + WAIT_MS * MS);
        pthread_cond_timedwait(&group->ended, &group->lock, &at);
        if (is_overdue(group))
            mr_device_work_give_up(group);
    }
    if (!group->is_dead)
        return MR_OK;
    group->error = group->dead;
    return (mr_status)group->dead.status;
}

/* In the caller's thread. */

/* With the lock. */
void mr_device_work_look(struct mr_group *group, struct mr_group_work *work)
{
    mr_error error = {0};
    if (work->has_ended || !mr_device_work_is_well(group))
        return;
    mr_status status =
        (mr_status)mr_device_work_engine(group)->test(group->engine, work->ticket, &error);
    if (status == MR_PENDING)
        return;
    if (status) {
        mr_device_work_note(group, &work->collective, status, false, &error);
        return;
    }
    group->device_works->oldest_since_ns = mr_clock_now_ns();
    mr_work_state_end(group, work, NULL);
}

static mr_status issue_work(struct mr_group *group, struct mr_group_work *work,
                            uint64_t deadline_ns, bool *is_final_out, mr_error *error)
{
    const struct mr_collective *c = &work->collective;
    mr_status status = MR_OK;
    if (__atomic_load_n(&group->stop, __ATOMIC_ACQUIRE)) /* a rank was lost after the last one */
        return MR_ERR_CANCELED;
    if (group->is_checked)
        status = mr_collective_check_run(group, c, deadline_ns, error);
    *is_final_out = status == MR_ERR_PEER || status == MR_ERR_TIMEOUT;
    if (status || (c->count == 0 && c->kind != MR_COLLECTIVE_BARRIER))
        return status;
    return (mr_status)mr_device_work_engine(group)->issue(group->engine, c, deadline_ns,
                                                          &group->stop, &work->ticket, error);
}

/* With the lock: record the outcome of an issue. */
static mr_status settle_issue(struct mr_group *group, struct mr_group_work *work, mr_status status,
                              bool is_final, const mr_error *error)
{
    struct mr_device_works *works = group->device_works;
    bool is_refused = status == MR_ERR_INVALID || status == MR_ERR_STATE; /* nothing has begun */
    /* collective_check.c's error, equal on all ranks */
    bool is_verdict = is_final && status == MR_ERR_PEER;
    if (status == MR_OK && work->ticket) {
        append_work(group, work);
        if (mr_device_work_oldest(works) == work)
            works->oldest_since_ns = mr_clock_now_ns();
    } else if (status == MR_OK) {
        work->has_ended = true;
    } else if (is_verdict) {
        mr_work_state_set_dead(group, error);
    } else if (!is_refused) {
        mr_device_work_note(group, &work->collective, status, is_final, error);
    }
    if (works->is_over) { /* the group ended while this one was being issued */
        unlist_work(group, work);
        group->error = group->dead;
        return (mr_status)group->dead.status;
    }
    if (is_refused)
        group->error = *error;
    return is_refused || !status ? status : mr_device_work_enter(group);
}

mr_status mr_device_work_submit(struct mr_group *group, struct mr_group_work *work)
{
    struct mr_device_works *works = group->device_works;
    uint64_t deadline_ns = mr_clock_now_ns() + group->timeout_ms * MS;
    bool is_final = false;
    mr_error error = {0};
    pthread_mutex_lock(&group->lock);
    mr_device_work_reap(group);
    mr_status status = mr_device_work_enter(group);
    if (status) {
        pthread_mutex_unlock(&group->lock);
        return status;
    }
    works->issuing = &work->collective;
    works->issue_by_ns = deadline_ns;
    pthread_mutex_unlock(&group->lock);
    status = issue_work(group, work, deadline_ns, &is_final, &error);
    pthread_mutex_lock(&group->lock);
    works->issuing = NULL;
    pthread_cond_signal(&group->quit); /* the watch may wait for the end of issuing */
    status = settle_issue(group, work, status, is_final, &error);
    pthread_mutex_unlock(&group->lock);
    return status;
}

/*
 * Between two polls. The first polls do not sleep, so that a short wait ends at once. Later ones
 * sleep longer, so that a long wait costs little.
 */
static void sleep_between_polls(uint32_t n_polls)
{
    if (n_polls < SPINS)
        return;
    uint64_t ns = (uint64_t)MIN_SLEEP_NS * (1 + n_polls - SPINS);
    struct timespec pause = {.tv_nsec = (long)(ns < MAX_SLEEP_NS ? ns : MAX_SLEEP_NS)};
    nanosleep(&pause, NULL); /* a signal may shorten it */
}

mr_status mr_device_work_sync(struct mr_group_work *work, uint32_t timeout_ms)
{
    struct mr_group *group = work->group;
    uint64_t until_ns = mr_clock_now_ns() + timeout_ms * MS;
    for (uint32_t n_polls = 0;; n_polls++) {
        pthread_mutex_lock(&group->lock);
        mr_device_work_look(group, work);
        if (is_overdue(group))
            mr_device_work_give_up(group);
        if (work->has_ended)
            unlist_work(group, work);
        mr_status status = mr_work_state_get(work);
        pthread_mutex_unlock(&group->lock);
        if (status != MR_PENDING || (timeout_ms != MR_FOREVER && mr_clock_now_ns() >= until_ns))
            return status;
        sleep_between_polls(n_polls);
    }
}

mr_status mr_device_work_wait(struct mr_group_work *work, void *stream)
{
    struct mr_group *group = work->group;
    mr_error error = {0};
    pthread_mutex_lock(&group->lock);
    mr_device_work_look(group, work);
    mr_status status = mr_work_state_get(work);
    if (status == MR_PENDING && mr_device_work_is_well(group))
        status = (mr_status)mr_device_work_engine(group)->wait(group->engine, work->ticket, stream,
                                                               &error);
    if (status == MR_ERR_INVALID || status == MR_ERR_STATE) /* the stream is capturing a graph */
        group->error = error.status ? error : group->error;
    else if (status && !work->has_ended && status != MR_PENDING)
        mr_device_work_note(group, &work->collective, status, false, &error);
    bool has_failed = !work->has_ended && !mr_device_work_is_well(group);
    pthread_mutex_unlock(&group->lock);
    return has_failed ? mr_device_work_sync(work, MR_FOREVER) : status;
}

bool mr_device_work_leave(struct mr_group_work *work)
{
    struct mr_group *group = work->group;
    if (work->collective.on_host)
        (void)mr_device_work_sync(work, MR_FOREVER);
    pthread_mutex_lock(&group->lock);
    mr_device_work_look(group, work);
    if (work->has_ended)
        unlist_work(group, work);
    work->is_abandoned = work->is_listed;
    bool is_free = !work->is_listed;
    pthread_mutex_unlock(&group->lock);
    return is_free;
}
