/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Collectives under way, for the caller's thread. The public handle of one, mr_group_work, is in
 * <millrace/group.h>.
 */
#ifndef DIST_GROUP_WORK_H
#define DIST_GROUP_WORK_H

#include "dist/group/group.h"

/* Give a collective a number and do it; work_out NULL: wait for it. Arguments have been checked. */
mr_status mr_work_submit(struct mr_group *group, struct mr_collective *collective,
                         struct mr_group_work **work_out);
/*
 * Wait for all works, then hold the engine for the caller's thread alone, until give; is_sound
 * false: the engine failed meanwhile. Returns what a collective would.
 */
mr_status mr_work_take_engine(struct mr_group *group, uint64_t deadline_ns);
void mr_work_give_engine(struct mr_group *group, bool is_sound);
/*
 * The group is at its end: error is what all further calls return. Sets mr_group_error(). end: all
 * ranks end it, each by itself, and some may still be in the collective from which they learn it.
 * fail: this rank alone; what is under way ends, and the others see it break off.
 */
mr_status mr_work_end_group(struct mr_group *group, const mr_error *error);
mr_status mr_work_fail_group(struct mr_group *group, const mr_error *error);

#endif
