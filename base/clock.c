/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of all durations. It is never compared with the time of day. */
#include "base/clock.h"

#include <time.h>

uint64_t mr_clock_now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now); /* cannot fail for this clock */
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}
