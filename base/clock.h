/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BASE_CLOCK_H
#define BASE_CLOCK_H

#include <stdint.h>

/* CLOCK_MONOTONIC in nanoseconds: the same in every process of the machine. */
uint64_t mr_clock_now_ns(void);

/* Sleep that long, whatever signals come. */
void mr_clock_sleep_ms(uint32_t ms);

#endif
