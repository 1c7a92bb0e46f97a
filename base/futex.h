/* SPDX-License-Identifier: Apache-2.0 */
/* Waiting on a word of shared memory. After every return the waiter must check its condition. */
#ifndef BASE_FUTEX_H
#define BASE_FUTEX_H

#include <stdatomic.h>
#include <stdint.h>

/*
 * Sleep while *word equals value, at most timeout_ms (UINT32_MAX: without limit). A wake-up may
 * come from another process.
 * Returns 0 after a wake-up or if *word differs, -ETIMEDOUT, -EINTR.
 */
int mr_futex_wait(_Atomic uint32_t *word, uint32_t value, uint32_t timeout_ms);

/* Wake up to n waiters. */
void mr_futex_wake(_Atomic uint32_t *word, uint32_t n);

#endif
