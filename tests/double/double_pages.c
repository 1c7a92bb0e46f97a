/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Which pages a process has mapped, from /proc/self/pagemap: eight bytes per page, whose last bit
 * says so.
 */
#include "tests/double/double_machine.h"

#include <fcntl.h>
#include <unistd.h>

enum { AT_ONCE = 512 };

#define IS_MAPPED (UINT64_C(1) << 63)

uint64_t double_pages_absent(const void *address, size_t len)
{
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE), words[AT_ONCE], n_absent = 0;
    uint64_t at = (uintptr_t)address / page;
    uint64_t end = ((uintptr_t)address + len + page - 1) / page;
    int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    ssize_t got = 1;
    while (fd >= 0 && at < end && got > 0) {
        uint64_t n = end - at < AT_ONCE ? end - at : AT_ONCE;
        got = pread(fd, words, n * sizeof *words, (off_t)(at * sizeof *words));
        for (size_t i = 0; got > 0 && i < (size_t)got / sizeof *words; i++)
            n_absent += !(words[i] & IS_MAPPED);
        at += got > 0 ? (uint64_t)got / sizeof *words : 0;
    }
    if (fd >= 0)
        close(fd);
    return n_absent;
}
