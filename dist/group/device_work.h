/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The collectives that are under way on a device: device_work.c has the list and the caller's
 * thread, device_watch.c the watch.
 *
 * Invariant: after abort() only drop, sums_destroy and destroy of the engine are called. So the
 * engine is called with the group's lock held, except where a call may block (issue, abort,
 * destroy), and not at all once closed_ns is set. A caller that finds a failure leaves it in
 * `failure` and waits for the watch, which alone ends the group and aborts the engine. A group that
 * is dead without a failure is not aborted: other ranks may still be in collectives that this one
 * has finished.
 */
#ifndef DIST_GROUP_DEVICE_WORK_H
#define DIST_GROUP_DEVICE_WORK_H

#include "dist/group/work_state.h"

/* Of a group that has_failed and is not dead yet. */
struct mr_device_failure {
    bool is_final; /* the words are complete */
    mr_status status;
    struct mr_collective collective;
    mr_error error;
};

/* Under the group's lock. */
struct mr_device_works {
    struct mr_group_work *first; /* in the order of the program, until their tickets are dropped */
    struct mr_group_work *last;
    const struct mr_collective *issuing; /* the caller's thread is in it */
    uint64_t issue_by_ns;                /* its deadline */
    uint64_t oldest_since_ns;            /* when the oldest of those that have not ended was
                                            issued, or became that */
    struct mr_device_failure failure;
    uint64_t closed_ns;   /* when the engine was closed, by an abort or without: nothing is asked
                             of it; 0: it is not */
    bool is_aborted;      /* abort has returned */
    bool is_over;         /* every work has ended, and none will come */
    uint32_t n_forgotten; /* tickets that could not be dropped: the engine is never destroyed */
};

static inline const struct mr_engine_device *mr_device_work_engine(const struct mr_group *group)
{
    return group->table->device;
}

/* For work.c, in the caller's thread, without the lock. */

/* Issue a collective; it stands in the engine's stream when this returns. */
mr_status mr_device_work_submit(struct mr_group *group, struct mr_group_work *work);
mr_status mr_device_work_sync(struct mr_group_work *work, uint32_t timeout_ms);
mr_status mr_device_work_wait(struct mr_group_work *work, void *stream);
/*
 * The user gives the work back. True: it may be freed; otherwise the list keeps it until it has
 * ended.
 */
bool mr_device_work_leave(struct mr_group_work *work);

/* For device_watch.c and device_sums.c, all with the lock. */

/* May the engine be asked? */
bool mr_device_work_is_well(const struct mr_group *group);
/* Note a failure; the first one counts. final: the words are complete. */
void mr_device_work_note(struct mr_group *group, const struct mr_collective *collective,
                         mr_status status, bool is_final, const mr_error *error);
/*
 * May something begin? If the group has failed, waits until the watch has ended it, and sets the
 * group's error.
 */
mr_status mr_device_work_enter(struct mr_group *group);
/* The oldest one that has not ended; NULL: none. */
struct mr_group_work *mr_device_work_oldest(const struct mr_device_works *works);
/* Ask the engine about one, in whatever thread. */
void mr_device_work_look(struct mr_group *group, struct mr_group_work *work);
/*
 * Drop the tickets of those at the front that have ended: in the caller's thread, or while that one
 * is in destroy.
 */
void mr_device_work_reap(struct mr_group *group);
/* Nothing is under way any more, and nothing will be. */
void mr_device_work_end_all(struct mr_group *group, const mr_error *error);
/*
 * The watch does not come back from the engine: neither is waited for, and the engine is never
 * touched again.
 */
void mr_device_work_give_up(struct mr_group *group);

#endif
