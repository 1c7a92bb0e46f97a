/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Uses a page that the kernel clears in every child (MADV_WIPEONFORK), and a count that fork()
 * increments in the child: some sandboxes accept the advice and clear nothing. In a child made
 * without libc (clone), only the page helps.
 */
#include "loader/workers/fork_mark.h"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

static uint32_t n_forks; /* written in a child only, before fork() returns there */

static void count_fork(void)
{
    n_forks++;
}

static void watch_forks(void)
{
    pthread_atfork(NULL, NULL, count_fork);
}

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void mr_fork_mark_init(struct mr_fork_mark *mark)
{
    static pthread_once_t watched = PTHREAD_ONCE_INIT;
    pthread_once(&watched, watch_forks);
    *mark = (struct mr_fork_mark){.pid = getpid(), .n_forks = n_forks};
    uint8_t *page =
        mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (page == MAP_FAILED)
        return;
    if (madvise(page, page_bytes(), MADV_WIPEONFORK) != 0) {
        munmap(page, page_bytes());
        return;
    }
    *page = 1;
    mark->page = page;
}

void mr_fork_mark_fini(struct mr_fork_mark *mark)
{
    if (mark->page)
        munmap((void *)(uintptr_t)mark->page, page_bytes());
    mark->page = NULL;
}

bool mr_fork_mark_in_child(const struct mr_fork_mark *mark)
{
    if (n_forks != mark->n_forks)
        return true;
    return mark->page ? *mark->page == 0 : getpid() != mark->pid;
}
