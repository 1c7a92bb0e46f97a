/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The monitor's side of the ranks' notes: which rank waits for the other ranks, and which rank has
 * ended without joining.
 */
#ifndef DIST_LAUNCH_RANK_NOTES_H
#define DIST_LAUNCH_RANK_NOTES_H

#include "dist/launch/launch_plan.h"

/*
 * Make the socket for this rank's notes. Returns the rank's end; -1 on failure: nothing is then
 * known of the rank.
 */
int mr_rank_notes_open(struct mr_launch_plan_rank *rank);

/* Fill one entry for each rank that may still write, at most n_ranks. Returns their number. */
uint32_t mr_rank_notes_set_polls(const struct mr_launch_plan *plan, struct pollfd *polls);
/* After poll(): read notes without blocking. */
void mr_rank_notes_read(const struct mr_launch_plan *plan, const struct pollfd *polls);

/*
 * Find a rank that has exited with status 0 without joining a rendezvous, while another rank waits
 * in one. Processes that the rank started may still join, so the rank counts only after all of them
 * have closed its end of the socket.
 */
bool mr_rank_notes_find_absent(const struct mr_launch_plan *plan, uint32_t *absent_out,
                               uint32_t *waiting_out);

/*
 * Find a rank that runs, has not joined a rendezvous and has not been named yet, while another rank
 * waits in one.
 */
bool mr_rank_notes_find_late(const struct mr_launch_plan *plan, uint32_t *late_out,
                             uint32_t *waiting_out);

#endif
