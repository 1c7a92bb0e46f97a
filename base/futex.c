/* SPDX-License-Identifier: Apache-2.0 */
/* Futexes shared between processes (no FUTEX_PRIVATE_FLAG). */
#include "base/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

int mr_futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t timeout_ms)
{
    struct timespec timeout = {.tv_sec = timeout_ms / 1000,
                               .tv_nsec = (long)(timeout_ms % 1000) * 1000000};
    long rc = syscall(SYS_futex, word, FUTEX_WAIT, value,
                      timeout_ms == UINT32_MAX ? NULL : &timeout, NULL, 0);
    if (rc == 0 || errno == EAGAIN)
        return 0;
    return -errno;
}

void mr_futex_wake(_Atomic uint32_t *word, uint32_t n)
{
    syscall(SYS_futex, word, FUTEX_WAKE, n > INT32_MAX ? INT32_MAX : n, NULL, NULL, 0);
}
