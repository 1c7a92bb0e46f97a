/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The steps that end a collective or a group. They are short, take no lock and do not wait. work.c,
 * device_work.c and device_watch.c call them under the group's lock.
 */
#include "dist/group/work_state.h"

#include "base/clock.h"
#include "base/error.h"

void mr_work_state_set_dead(struct mr_group *group, const mr_error *error)
{
    if (!group->is_dead)
        group->dead = *error;
    group->is_dead = true;
}

void mr_work_state_set_failed(struct mr_group *group, const mr_error *error)
{
    mr_work_state_set_dead(group, error);
    group->has_failed = true;
    pthread_cond_signal(&group->quit);
}

void mr_work_state_set_stop(struct mr_group *group)
{
    if (!group->stopped_ns)
        group->stopped_ns = mr_clock_now_ns();
    __atomic_store_n(&group->stop, 1, __ATOMIC_RELEASE);
}

void mr_work_state_end(struct mr_group *group, struct mr_group_work *work, const mr_error *error)
{
    if (error)
        work->error = *error;
    else
        mr_error_set(&work->error, MR_OK, "%s", "");
    work->has_ended = true;
    pthread_cond_broadcast(&group->ended);
}

mr_status mr_work_state_get(struct mr_group_work *work)
{
    if (!work->has_ended)
        return MR_PENDING;
    if (work->error.status)
        work->group->error = work->error;
    return (mr_status)work->error.status;
}

/* Condition variables of groups and works are made with CLOCK_MONOTONIC. */
struct timespec mr_work_state_time_at(uint64_t ns)
{
    return (struct timespec){.tv_sec = (time_t)(ns / 1000000000u),
                             .tv_nsec = (long)(ns % 1000000000u)};
}
