/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives under way, for the caller's thread. Their public handle, mr_group_work, is in
 * <millrace/group.h>.
 */
#ifndef DIST_GROUP_WORK_H
#define DIST_GROUP_WORK_H

#include "dist/group/group.h"

/*
 * Number a collective and run it. work_out NULL: wait for it. The arguments must have been checked.
 */
mr_status mr_work_submit(struct mr_group *group, struct mr_collective *collective,
                         struct mr_group_work **work_out);
/*
 * Wait for all works, then hold the engine for the caller's thread until mr_work_give_engine().
 * is_sound false: the engine failed meanwhile. Returns the status that a collective would return.
 */
mr_status mr_work_take_engine(struct mr_group *group, uint64_t deadline_ns);
void mr_work_give_engine(struct mr_group *group, bool is_sound);
/*
 * End the group: all further calls return error. Sets mr_group_error(). end: all ranks end it for
 * the same reason, and some may still be in the collective that reports it. fail: only this rank
 * fails; its collectives end, and the other ranks see it disconnect.
 */
mr_status mr_work_end_group(struct mr_group *group, const mr_error *error);
mr_status mr_work_fail_group(struct mr_group *group, const mr_error *error);

#endif
