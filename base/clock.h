/* SPDX-License-Identifier: Apache-2.0 */
/* The clock for all durations, and a sleep. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#include "base/export.h"

/* CLOCK_MONOTONIC in nanoseconds. All processes of a machine have the same clock. */
MR_BASE_EXPORT uint64_t mr_clock_now_ns(void);

/* Sleep for ms milliseconds. Signals do not shorten the sleep. */
MR_BASE_EXPORT void mr_clock_sleep_ms(uint32_t ms);

#endif
