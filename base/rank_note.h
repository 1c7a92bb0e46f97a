/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a rank of mr_launch() notes for its launcher: one byte when it begins to wait for the other
 * ranks, one when that is over. Launcher and rendezvous do not know each other; this is all that
 * they agree on.
 *
 * The variable is "FD:INODE:RANK:WORLD": a socket, its inode, and the rank that it was made for. It
 * is empty where there is none.
 */
#ifndef BASE_RANK_NOTE_H
#define BASE_RANK_NOTE_H

#define MR_RANK_NOTE_VARIABLE "MR_LAUNCH_NOTES"

enum { MR_RANK_NOTE_WAITS = 'w', MR_RANK_NOTE_DONE = 'd' };

#endif
