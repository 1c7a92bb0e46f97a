/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A socket for each rank; the rank inherits one end. A program that never joins a group writes
 * nothing, and then no rank is ever reported: another rank's absence is a fault only if a rank
 * waits.
 *
 * A rank may be a wrapper that closes descriptors (sudo, a shell script). Then its program cannot
 * write, and nothing is known of this rank. A rank's files are also closed when it ends. So at end
 * of file it matters whether the rank is ending.
 */
#include "dist/launch/rank_notes.h"

#include "base/rank_note.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

int mr_rank_notes_open(struct mr_launch_plan_rank *rank)
{
    int ends[2];
    rank->notes = -1;
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
        return -1;
    rank->notes = ends[0];
    rank->has_notes = true;
    return ends[1];
}

uint32_t mr_rank_notes_set_polls(const struct mr_launch_plan *plan, struct pollfd *polls)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_ranks; i++)
        if (plan->ranks[i].notes >= 0)
            polls[n++] = (struct pollfd){.fd = plan->ranks[i].notes, .events = POLLIN};
    return n;
}

/*
 * Reads the flags in /proc/PID/stat, which the kernel sets before it closes files. True if the
 * process is gone.
 */
static bool is_ending(pid_t pid)
{
    enum { EXITING = 4 }; /* the kernel's PF_EXITING */
    char path[40], text[256];
    unsigned flags = EXITING;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0)
        return true;
    ssize_t got = read(fd, text, sizeof text - 1);
    close(fd);
    text[got > 0 ? got : 0] = '\0';
    const char *name_end = strrchr(text, ')');
    if (name_end)
        (void)!sscanf(name_end, ") %*c %*d %*d %*d %*d %*d %u", &flags);
    return flags & EXITING;
}

static void read_notes(struct mr_launch_plan_rank *rank)
{
    char notes[64];
    ssize_t got = recv(rank->notes, notes, sizeof notes, MSG_DONTWAIT);
    if (got > 0) {
        rank->has_come = true;
        rank->is_waiting = notes[got - 1] == MR_RANK_NOTE_WAITS;
    } else if (got == 0 || (errno != EAGAIN && errno != EINTR)) {
        /* before the close: a rank may wait for this end to be closed, and end then */
        if (rank->pid > 0 && !is_ending(rank->pid))
            rank->has_notes = false;
        close(rank->notes);
        rank->notes = -1;
        rank->is_waiting = false;
    }
}

void mr_rank_notes_read(const struct mr_launch_plan *plan, const struct pollfd *polls)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < plan->n_ranks; i++)
        if (plan->ranks[i].notes >= 0 && polls[n++].revents != 0)
            read_notes(&plan->ranks[i]);
}

static bool is_absent(const struct mr_launch_plan_rank *rank)
{
    return rank->ended_pid != 0 && rank->has_notes && rank->notes < 0 && !rank->has_come;
}

static bool is_late(const struct mr_launch_plan_rank *rank)
{
    return rank->pid > 0 && rank->has_notes && rank->notes >= 0 && !rank->has_come &&
           !rank->is_named;
}

/* The first rank that is missing, and the first that waits. False unless there are both. */
static bool find_missing(const struct mr_launch_plan *plan,
                         bool (*is_missing)(const struct mr_launch_plan_rank *rank),
                         uint32_t *missing_out, uint32_t *waiting_out)
{
    bool is_found = false, is_waited_for = false;
    for (uint32_t i = plan->n_ranks; i-- > 0;) {
        const struct mr_launch_plan_rank *rank = &plan->ranks[i];
        if (is_missing(rank)) {
            is_found = true;
            *missing_out = i;
        } else if (rank->pid > 0 && rank->is_waiting) {
            is_waited_for = true;
            *waiting_out = i;
        }
    }
    return is_found && is_waited_for;
}

bool mr_rank_notes_find_absent(const struct mr_launch_plan *plan, uint32_t *absent_out,
                               uint32_t *waiting_out)
{
    return find_missing(plan, is_absent, absent_out, waiting_out);
}

bool mr_rank_notes_find_late(const struct mr_launch_plan *plan, uint32_t *late_out,
                             uint32_t *waiting_out)
{
    return find_missing(plan, is_late, late_out, waiting_out);
}
