/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's side of the ranks' notes: which rank waits for the others, and which has gone
 * without ever coming.
 */
#ifndef DIST_LAUNCH_RANK_NOTES_H
#define DIST_LAUNCH_RANK_NOTES_H

#include "dist/launch/launch_plan.h"

/*
 * Make the socket of this rank's notes. Returns the rank's end; -1 where there is none: nothing
 * will be known of it.
 */
int mr_rank_notes_open(struct mr_launch_plan_rank *rank);

/* One place for each rank that may still write. Fill them and return how many it is this time. */
uint32_t mr_rank_notes_set_polls(const struct mr_launch_plan *plan, struct pollfd *polls);
/* After poll(): read without blocking. */
void mr_rank_notes_read(const struct mr_launch_plan *plan, const struct pollfd *polls);

/*
 * Find a rank that has exited with status 0 and never came to a rendezvous, while another one waits
 * in it. What the rank has left running may still come, so it counts only when nobody holds its end
 * any more.
 */
bool mr_rank_notes_find_absent(const struct mr_launch_plan *plan, uint32_t *absent_out,
                               uint32_t *waiting_out);

/*
 * Find a rank that runs and has not come to a rendezvous, nor been named for it, while another one
 * waits in it.
 */
bool mr_rank_notes_find_late(const struct mr_launch_plan *plan, uint32_t *late_out,
                             uint32_t *waiting_out);

#endif
