/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Writes notes for the launcher's monitor. From them it sees that a rank has ended while other
 * ranks wait for it.
 *
 * The variable may be inherited without the descriptor, and the program may have opened a file
 * under the same number. So the number is used only if the socket's inode matches. A program may
 * also form its own worlds from the ranks; the launcher does not report a rank that is missing
 * there.
 */
#include "dist/rendezvous/launch_note.h"

#include "base/rank_note.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>

int mr_launch_note_find(const char *(*get)(void *user, const char *name), void *user,
                        const struct mr_rank_identity *who)
{
    int fd;
    char rest;
    unsigned rank, world_size;
    unsigned long long inode;
    struct stat info;
    const char *text = get(user, MR_RANK_NOTE_VARIABLE);
    if (!text || strcmp(who->source, "env") != 0 ||
        sscanf(text, "%d:%llu:%u:%u%c", &fd, &inode, &rank, &world_size, &rest) != 4)
        return -1;
    if (rank != who->rank || world_size != who->world_size)
        return -1;
    if (fd < 0 || fstat(fd, &info) != 0 || !S_ISSOCK(info.st_mode) || info.st_ino != inode)
        return -1;
    /* programs that this process starts do not inherit it */
    fcntl(fd, F_SETFD, FD_CLOEXEC);
    return fd;
}

void mr_launch_note_write(int fd, char note)
{
    if (fd >= 0)
        (void)!send(fd, &note, 1, MSG_NOSIGNAL | MSG_DONTWAIT);
}
