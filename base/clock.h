/* SPDX-License-Identifier: Apache-2.0 */
/* The clock of all durations, and a sleep. */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

#include "base/export.h"

/* CLOCK_MONOTONIC in nanoseconds: the same in every process of the machine. */
MR_BASE_EXPORT uint64_t mr_clock_now_ns(void);

/* Sleep that long; signals do not shorten it. */
MR_BASE_EXPORT void mr_clock_sleep_ms(uint32_t ms);

#endif
