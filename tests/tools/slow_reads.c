/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A double of slow storage, linked around pread(): each call takes MR_TEST_READ_MS milliseconds
 * longer. It works in threads and with `--workers 0`, but not in worker processes, which run the
 * library's helper.
 */
#include <stdlib.h>
#include <sys/types.h>
#include <time.h>

ssize_t __real_pread(int fd, void *bytes, size_t len, off_t offset);
ssize_t __wrap_pread(int fd, void *bytes, size_t len, off_t offset);

ssize_t __wrap_pread(int fd, void *bytes, size_t len, off_t offset)
{
    const char *text = getenv("MR_TEST_READ_MS");
    long ms = text != NULL ? strtol(text, NULL, 10) : 0;

    if (ms > 0)
        nanosleep(&(struct timespec){.tv_sec = ms / 1000, .tv_nsec = ms % 1000 * 1000000}, NULL);
    return __real_pread(fd, bytes, len, offset);
}
