/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives under way on a device. device_work.c has the list and the caller's thread,
 * device_watch.c the watch.
 *
 * Invariant: after abort() only drop, sums_destroy and destroy of the engine are called. So the
 * engine is called with the group's lock held, except for calls that may block (issue, abort,
 * destroy), and not at all once closed_ns is set. A caller that finds a failure stores it in
 * `failure` and waits for the watch. Only the watch ends the group and aborts the engine. A group
 * that is dead without a failure is not aborted: other ranks may still be in collectives that this
 * one has finished.
 */
#ifndef DIST_GROUP_DEVICE_WORK_H
#define DIST_GROUP_DEVICE_WORK_H

#include "dist/group/work_state.h"

/* The first failure, while has_failed is set and the group is not dead yet. */
struct mr_device_failure {
    bool is_final; /* error needs no further text */
    mr_status status;
    struct mr_collective collective;
    mr_error error;
};

/* Under the group's lock. */
struct mr_device_works {
    struct mr_group_work *first; /* in program order, until their tickets are dropped */
    struct mr_group_work *last;
    const struct mr_collective *issuing; /* the caller's thread is issuing it; else NULL */
    uint64_t issue_by_ns;                /* the deadline of issuing */
    uint64_t oldest_since_ns;            /* when the oldest unfinished one became the oldest */
    struct mr_device_failure failure;
    uint64_t closed_ns; /* when the engine was closed: it is not called any more. 0: open */
    bool is_aborted;    /* abort has returned */
    bool is_over;       /* every work has ended, and none can begin */
    uint32_t
        n_forgotten; /* tickets that could not be dropped; if any, the engine is never destroyed */
};

static inline const struct mr_engine_device *mr_device_work_engine(const struct mr_group *group)
{
    return group->table->device;
}

/* For work.c, in the caller's thread, without the lock. */

/* Issue a collective. On return it is in the engine's stream. */
mr_status mr_device_work_submit(struct mr_group *group, struct mr_group_work *work);
mr_status mr_device_work_sync(struct mr_group_work *work, uint32_t timeout_ms);
mr_status mr_device_work_wait(struct mr_group_work *work, void *stream);
/* The user frees the work. True: free it now. False: the list keeps it until it has ended. */
bool mr_device_work_leave(struct mr_group_work *work);

/* For device_watch.c and device_sums.c, all with the lock. */

/* May the engine be called? */
bool mr_device_work_is_well(const struct mr_group *group);
/* Record a failure; the first one counts. is_final: error needs no further text. */
void mr_device_work_note(struct mr_group *group, const struct mr_collective *collective,
                         mr_status status, bool is_final, const mr_error *error);
/*
 * May a collective begin? If the group has failed, waits until the watch has ended it, and sets the
 * group's error.
 */
mr_status mr_device_work_enter(struct mr_group *group);
/* The oldest work that has not ended; NULL: none. */
struct mr_group_work *mr_device_work_oldest(const struct mr_device_works *works);
/* Ask the engine whether a work has ended. Any thread. */
void mr_device_work_look(struct mr_group *group, struct mr_group_work *work);
/*
 * Drop the tickets of ended works at the front of the list. In the caller's thread, or in the watch
 * during destroy.
 */
void mr_device_work_reap(struct mr_group *group);
/* End all works with this error. No work can begin afterwards. */
void mr_device_work_end_all(struct mr_group *group, const mr_error *error);
/*
 * The watch does not return from the engine: end all works, do not wait for the watch, and never
 * touch the engine again.
 */
void mr_device_work_give_up(struct mr_group *group);

#endif
