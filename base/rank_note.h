/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The notes that a rank of mr_launch() sends to its launcher: one byte when it begins to wait for
 * the other ranks, and one when the wait is over. Launcher and rendezvous share only this header.
 *
 * The variable is "FD:INODE:RANK:WORLD": a socket, its inode, the rank that it was made for, and
 * the number of ranks. It is empty if there is no socket.
 */
#ifndef BASE_RANK_NOTE_H
#define BASE_RANK_NOTE_H

#define MR_RANK_NOTE_VARIABLE "MR_LAUNCH_NOTES"

enum { MR_RANK_NOTE_WAITS = 'w', MR_RANK_NOTE_DONE = 'd' };

#endif
