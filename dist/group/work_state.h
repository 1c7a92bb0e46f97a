/* SPDX-License-Identifier: Apache-2.0 */
/* A collective under way, and the steps that end it or its group. */
#ifndef DIST_GROUP_WORK_STATE_H
#define DIST_GROUP_WORK_STATE_H

#include "dist/group/group.h"

struct mr_group_work {
    struct mr_group_work *next;
    struct mr_group *group; /* holds one reference while the user has the work */
    struct mr_collective collective;
    bool has_ended; /* under the group's lock */
    mr_error error; /* constant once it has ended; its status is the work's */
    /* Used by device_work.c, under the lock. */
    struct mr_group_work *before;
    void *ticket;      /* the engine's, while the work is listed */
    bool is_listed;    /* in the list of works under way */
    bool is_abandoned; /* the user has freed it */
};

/* All need the group's lock. */

/* End the group with this error; the first error stays. */
void mr_work_state_set_dead(struct mr_group *group, const mr_error *error);
/* The same, and the engine can no longer be relied on. */
void mr_work_state_set_failed(struct mr_group *group, const mr_error *error);
/* Tell the engine to return from its current call. */
void mr_work_state_set_stop(struct mr_group *group);
/* The work has ended; error NULL: with success. Wakes its waiters. */
void mr_work_state_end(struct mr_group *group, struct mr_group_work *work, const mr_error *error);
/* MR_PENDING, or how it ended. A failure is also copied to the group's error. */
mr_status mr_work_state_get(struct mr_group_work *work);

/*
 * For pthread_cond_timedwait() on the group's conditions, whose clock is CLOCK_MONOTONIC. Needs no
 * lock.
 */
struct timespec mr_work_state_time_at(uint64_t ns);

#endif
