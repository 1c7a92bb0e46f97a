/* SPDX-License-Identifier: Apache-2.0 */
/* Notes for the launcher: this rank waits for the other ranks, or has stopped waiting. */
#ifndef DIST_RENDEZVOUS_LAUNCH_NOTE_H
#define DIST_RENDEZVOUS_LAUNCH_NOTE_H

#include "dist/rendezvous/rank_identity.h"

/*
 * The descriptor for notes; -1 if no launcher reads them, or if rank and world size are not those
 * that the launcher set.
 */
int mr_launch_note_find(const char *(*get)(void *user, const char *name), void *user,
                        const struct mr_rank_identity *who);

/* note: MR_RANK_NOTE_... Does nothing if fd is -1. Never blocks. A lost note is not an error. */
void mr_launch_note_write(int fd, char note);

#endif
