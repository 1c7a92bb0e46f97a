/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks have not come to a collective that waits for them. */
#ifndef DIST_GROUP_LATE_RANKS_H
#define DIST_GROUP_LATE_RANKS_H

#include "dist/group/group.h"

#define MR_LATE_RANKS_NOTE_MS 200 /* a collective under way for so long is noted */

/*
 * Note in the store that this rank is in the collective. Blocks: a moment. Without the lock; any
 * thread.
 */
void mr_late_ranks_note(struct mr_group *group, const struct mr_collective *collective);
/*
 * After a timeout: "rank 1, 3-5 did not come", "" if all have come or the store does not say. Not
 * for messages, whose words name the other rank. Blocks: under a second. Without the lock.
 */
void mr_late_ranks_name(struct mr_group *group, const struct mr_collective *collective,
                        char words_out[MR_COLLECTIVE_WORDS]);
/* The group ends: its note leaves the store. */
void mr_late_ranks_forget(struct mr_group *group);

#endif
