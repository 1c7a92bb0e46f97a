/* SPDX-License-Identifier: Apache-2.0 */
/* Which ranks have not joined a collective that waits for them. */
#ifndef DIST_GROUP_LATE_RANKS_H
#define DIST_GROUP_LATE_RANKS_H

#include "dist/group/group.h"

#define MR_LATE_RANKS_NOTE_MS 200 /* a collective that takes this long is noted */

/*
 * Note in the store that this rank is in the collective. Blocks for a moment. Any thread, without
 * the lock.
 */
void mr_late_ranks_note(struct mr_group *group, const struct mr_collective *collective);
/*
 * After a timeout: "rank 1, 3-5 did not join", or "" if all have joined or the store does not
 * answer. Not for send and recv, whose text names the other rank. Blocks for less than a second.
 * Without the lock.
 */
void mr_late_ranks_name(struct mr_group *group, const struct mr_collective *collective,
                        char words_out[MR_COLLECTIVE_WORDS]);
/* Remove this rank's note from the store when the group ends. */
void mr_late_ranks_forget(struct mr_group *group);

#endif
