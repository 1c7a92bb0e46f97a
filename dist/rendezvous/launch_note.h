/* SPDX-License-Identifier: Apache-2.0 */
/* Notes for the launcher: this rank waits for the others, and this rank is done with waiting. */
#ifndef DIST_RENDEZVOUS_LAUNCH_NOTE_H
#define DIST_RENDEZVOUS_LAUNCH_NOTE_H

#include "dist/rendezvous/rank_identity.h"

/*
 * The descriptor that notes go to; -1 where no launcher reads them, or the ranks are not those that
 * it has started.
 */
int mr_launch_note_find(const char *(*get)(void *user, const char *name), void *user,
                        const struct mr_rank_identity *who);

/*
 * note: MR_RANK_NOTE_... Does nothing for -1. Never blocks; a note that does not arrive is no
 * error.
 */
void mr_launch_note_write(int fd, char note);

#endif
