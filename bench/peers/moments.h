/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The marks that millrace's own rows of bench/peers print for the runner; adapter.py prints them
 * for the other rows.
 */
#ifndef BENCH_PEERS_MARKS_H
#define BENCH_PEERS_MARKS_H

#include <stdbool.h>
#include <stddef.h>

/* CLOCK_MONOTONIC in seconds; the runner uses the same clock. */
double mr_moments_now(void);

/* Print the mark and wait for the runner's answer. False if the runner has ended. */
bool mr_moments_say(const char *name);

/* True if the runner has written a line, or has ended. */
bool mr_moments_is_called(void);

/* Print "gaps": [...] of n seconds, without a comma before or after it. */
void mr_moments_print_gaps(const double *gaps, size_t n);

#endif
