/* SPDX-License-Identifier: Apache-2.0 */
/* A page that the kernel clears in every child (MADV_WIPEONFORK). */
#include "loader/workers/fork_mark.h"

#include <sys/mman.h>
#include <unistd.h>

static size_t page_bytes(void)
{
    return (size_t)sysconf(_SC_PAGESIZE);
}

void mr_fork_mark_init(struct mr_fork_mark *mark)
{
    *mark = (struct mr_fork_mark){.pid = getpid()};
    uint8_t *page = mmap(NULL, page_bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
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
    return mark->page ? *mark->page == 0 : getpid() != mark->pid;
}
