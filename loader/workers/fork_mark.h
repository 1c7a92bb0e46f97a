/* SPDX-License-Identifier: Apache-2.0 */
/* Tells a process from a copy of it that fork() has made, without a system call. */
#ifndef LOADER_WORKERS_FORK_MARK_H
#define LOADER_WORKERS_FORK_MARK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mr_fork_mark {
    volatile uint8_t *page; /* 1, and 0 in a child; NULL where the kernel clears no pages, then
                               pid decides */
    pid_t pid;
    uint32_t n_forks; /* when it was made */
};

void mr_fork_mark_init(struct mr_fork_mark *mark);
void mr_fork_mark_fini(struct mr_fork_mark *mark);

/* Was this process forked since the mark was made? */
bool mr_fork_mark_in_child(const struct mr_fork_mark *mark);

#endif
