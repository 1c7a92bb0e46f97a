/* SPDX-License-Identifier: Apache-2.0 */
/* A collective under way, and how it and its group end. */
#ifndef DIST_GROUP_WORK_STATE_H
#define DIST_GROUP_WORK_STATE_H

#include "dist/group/group.h"

struct mr_group_work {
    struct mr_group_work *next;
    struct mr_group *group; /* one reference of it, while the user holds the work */
    struct mr_collective collective;
    bool has_ended; /* under the group's lock */
    mr_error error; /* constant once it has ended; its status is the work's */
    /* Of device_work.c, under the lock. */
    struct mr_group_work *before;
    void *ticket;      /* the engine's, while the work is in the list of those under way */
    bool is_listed;    /* in that list */
    bool is_abandoned; /* the user has freed it */
};

/* All with the group's lock. */

/* The group is at its end by this error, unless it has been already. */
void mr_work_state_set_dead(struct mr_group *group, const mr_error *error);
/* The same, and the engine is not to be relied on. */
void mr_work_state_set_failed(struct mr_group *group, const mr_error *error);
/* Tell the engine to come back from what it is doing. */
void mr_work_state_set_stop(struct mr_group *group);
/* The work has ended: well if error is NULL. Wakes its waiters. */
void mr_work_state_end(struct mr_group *group, struct mr_group_work *work, const mr_error *error);
/* MR_PENDING, or how it ended; a failure is also left as the group's error. */
mr_status mr_work_state_get(struct mr_group_work *work);

/*
 * For pthread_cond_timedwait() on the group's conditions, whose clock is CLOCK_MONOTONIC. No lock
 * needed.
 */
struct timespec mr_work_state_time_at(uint64_t ns);

#endif
