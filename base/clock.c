/* SPDX-License-Identifier: Apache-2.0 */
/* The monotonic clock and a sleep. Times of this clock are never compared with the time of day. */
#include "base/clock.h"

#include <errno.h>
#include <time.h>

uint64_t mr_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

void mr_clock_sleep_ms(uint32_t ms)
{
    struct timespec left = {.tv_sec = ms / 1000, .tv_nsec = (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0 && errno == EINTR)
        ;
}
