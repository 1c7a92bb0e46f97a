/* SPDX-License-Identifier: Apache-2.0 */
/* Distinguishes a process from a copy of it made by fork(), without a system call. */
#ifndef LOADER_WORKERS_FORK_MARK_H
#define LOADER_WORKERS_FORK_MARK_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct mr_fork_mark {
    /* 1, or 0 in a child; NULL: the kernel clears no pages, and pid decides */
    volatile uint8_t *page;
    pid_t pid;
    uint32_t n_forks; /* when the mark was made */
};

void mr_fork_mark_init(struct mr_fork_mark *mark);
void mr_fork_mark_fini(struct mr_fork_mark *mark);

/* Was this process forked after the mark was made? */
bool mr_fork_mark_in_child(const struct mr_fork_mark *mark);

#endif
